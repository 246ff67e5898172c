"""What the handles of a live database share: its writer, seen at one sequence number or another."""

from __future__ import annotations

import asyncio
from copy import copy

from slate_engine.errors import InvalidError
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.writer import Writer


def check_loop(owner: asyncio.AbstractEventLoop) -> None:
    """A database lives in one event loop: its locks, its tasks and its freedom from races do. Elsewhere it would wait for
    ever, or worse."""
    if asyncio.get_running_loop() is not owner:
        raise InvalidError(
            "this database belongs to another event loop: use it in the one that it was built in, for example by "
            "asyncio.run_coroutine_threadsafe(db.get(key), that_loop)"
        )


def check_open(writer: Writer) -> None:
    """Raises what ended the writer. A new error each time: an error that is raised again and again keeps every frame that
    it passed through."""
    check_loop(writer.loop)
    error = writer.error
    if error is not None:
        raise copy(error)


class Moment:
    """A sequence number at which somebody reads. What is seen at it survives flushes and compactions as long as this lives,
    and is looked for in the objects that hold it now."""

    def __init__(self, writer: Writer, seq: int) -> None:
        self._writer = writer
        self.seq = seq
        writer.hold(self, seq)

    def durable(self) -> Moment:
        """The same, or as much of it as is durable by now."""
        durable_seq = self._writer.durable_seq
        return self if durable_seq >= self.seq else Moment(self._writer, durable_seq)

    def view(self) -> Snapshot:
        check_open(self._writer)
        return self._writer.snapshot().at(self.seq)

    async def renewed(self) -> Snapshot:
        """The same in the newest objects."""
        await self._writer.refresh()
        return self.view()
