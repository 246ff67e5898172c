"""The state of a database at one moment."""

from __future__ import annotations

from slate_engine.api.live import Moment
from slate_engine.api.reads import Readable, View
from slate_engine.api.scanning import Renewal, Scannable
from slate_engine.lsm.writer import Writer


class DbSnapshot(Readable):
    """Shows what had been written when it was made, as long as it lives and the database is open."""

    _writer: Writer
    _moment: Moment

    @classmethod
    def of(cls, writer: Writer) -> DbSnapshot:
        made = cls.__new__(cls)
        made._writer, made._moment = writer, Moment(writer, writer.snapshot().max_seq)
        return made

    def _view(self, durable_only: bool) -> View:
        view = self._moment.view()
        return view.at(self._writer.durable_seq) if durable_only else view

    def _scanned(self, durable_only: bool) -> tuple[Scannable, Renewal | None]:
        if durable_only:
            return self._view(True), None
        return self._view(False), self._moment.renewed

    async def _refresh(self) -> None:
        await self._writer.refresh()
