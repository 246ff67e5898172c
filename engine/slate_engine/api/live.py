"""What the handles of a live database share: its writer, seen at one sequence number or another."""

from __future__ import annotations

from slate_engine.errors import ClosedError
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.writer import Writer


def check_open(writer: Writer) -> None:
    """Raises what ended the writer. A new error each time: an error that is raised again and again keeps every frame that
    it passed through."""
    error = writer.error
    if error is not None:
        raise ClosedError(error.message, error.reason)


class Moment:
    """A sequence number at which somebody reads. What is seen at it survives flushes and compactions as long as this lives,
    and is looked for in the objects that hold it now."""

    def __init__(self, writer: Writer, seq: int) -> None:
        self._writer = writer
        self.seq = seq
        writer.hold(self, seq)

    def view(self) -> Snapshot:
        check_open(self._writer)
        return self._writer.snapshot().at(self.seq)

    async def renewed(self) -> Snapshot:
        """The same in the newest objects."""
        await self._writer.refresh()
        return self.view()
