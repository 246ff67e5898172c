"""What all clients of one server share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from slate_engine.server.gate import Gate
from slate_engine.server.keyspace import Keyspace
from slate_engine.server.resp.cursors import Cursors
from slate_engine.server.resp.replies import CommandError, Reply
from slate_engine.server.resp.requests import Limits

if TYPE_CHECKING:
    from slate_engine.server.resp.session import Session


@dataclass(frozen=True)
class RespLimits:
    """How much of the server one client may take, and how many clients there may be."""

    clients: int = 10_000
    request: Limits = field(default_factory=Limits)
    pipeline: int = 1024
    """Requests that a client may have under way. More wait in its own socket."""
    output_bytes: int = 64 << 20
    """What is held for a client. With a quarter of it unread, nothing more is done for it until it reads."""
    idle_seconds: float = 0.0
    """After so long without a byte a client is cut off; 0 for never."""
    unread_seconds: float = 60.0
    """A client that is waited for to read, and reads nothing for so long, is cut off."""
    watch_seconds: float = 600.0
    """A WATCH that lasts longer is ended, and the EXEC after it fails: it holds what was written since."""
    allow_flush: bool = False
    """Whether a client may delete all keys at once."""
    stranger_seconds: float = 10.0
    """A client that has not given the password by then is cut off."""

    @property
    def reply_bytes(self) -> int:
        """What a reply that is gathered from parts may come to. One value alone is always answered: it is there already."""
        return self.output_bytes // 2


class Numbers(Protocol):
    """What the metrics count."""

    def command(self, name: str, seconds: float, failed: bool) -> None: ...

    def connected(self, now: int) -> None: ...

    def refused(self, why: str) -> None: ...


@dataclass(eq=False)
class RespService:
    """The database and its surroundings, as the commands need them."""

    keyspace: Keyspace
    gate: Gate
    numbers: Numbers
    limits: RespLimits = field(default_factory=RespLimits)
    started: float = 0.0
    cursors: Cursors = field(init=False)
    sessions: dict[int, Session] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    connections_taken: int = 0
    status: Callable[[], Mapping[str, Reply]] = dict
    """What SLATE.STATUS and INFO show of the database."""
    flush: Callable[[bool], Awaitable[None]] | None = None
    checkpoint: Callable[[str | None, int | None], Awaitable[tuple[str, int]]] | None = None
    """Make a checkpoint with a name and a lifetime in milliseconds; its id, and the manifest's."""

    _http_warned: float | None = None

    def __post_init__(self) -> None:
        self.cursors = Cursors(self.keyspace.runtime)

    @property
    def read_only(self) -> bool:
        return self.keyspace.db is None

    def refuse_write(self) -> None:
        if self.read_only:
            raise CommandError("READONLY You can't write against a read only replica.")

    def warns_of_http(self) -> bool:
        """Whether to log that a client spoke HTTP: once a minute, so that such clients cannot fill the log."""
        now = self.keyspace.runtime.monotonic()
        if self._http_warned is not None and now < self._http_warned + 60:
            return False
        self._http_warned = now
        return True
