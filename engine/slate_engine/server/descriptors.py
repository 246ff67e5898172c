"""Room for clients: each takes a file descriptor, of which a process gets a thousand unless it asks for more."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)

RESERVE = 256
"""For everything that is not a client: the store's connections, files."""


def room_for(clients: int, setting: str, beside: int = 0) -> int:
    """Raise this process' limit so that ``clients`` can be connected, as ``setting`` says, and so many others ``beside``;
    how many can, if the system does not let us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reserve = RESERVE + beside
    wanted = clients + reserve
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return clients
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning(
            "%s is %d, but the system allows this process %d open files: %d are taken in. Raise the hard limit of open "
            "files, or lower %s",
            setting,
            clients,
            hard,
            max(1, allowed - reserve),
            setting,
        )
    return min(clients, max(1, allowed - reserve))
