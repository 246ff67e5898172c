"""One at a time: two commands on the same cluster or image at once would each undo what the other does."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.tool.report import say


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock that ``file`` stands for. The kernel lets go of it when the process ends, however it ends."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that holds {file}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
