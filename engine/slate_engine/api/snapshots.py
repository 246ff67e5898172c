"""The state of a database at one moment."""

from __future__ import annotations

from slate_engine.api.live import Moment
from slate_engine.api.reads import Readable, View
from slate_engine.api.scanning import Renewal, Scannable
from slate_engine.lsm.reader import Reader
from slate_engine.lsm.snapshot import Snapshot
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
        return self._seen_at(durable_only).view()

    def _scanned(self, durable_only: bool) -> tuple[Scannable, Renewal | None]:
        moment = self._seen_at(durable_only)
        return moment.view(), moment.renewed

    def _seen_at(self, durable_only: bool) -> Moment:
        return self._moment.durable() if durable_only else self._moment

    async def _refresh(self) -> None:
        await self._writer.refresh()


class ReaderSnapshot(Readable):
    """What a reader showed when it was made, for as long as the reader's lease holds what it needs."""

    _reader: Reader
    _seen: Snapshot

    @classmethod
    def of(cls, reader: Reader) -> ReaderSnapshot:
        made = cls.__new__(cls)
        made._reader, made._seen = reader, reader.snapshot()
        return made

    def _view(self, durable_only: bool) -> View:
        self._reader.check_open()
        return self._seen

    def _scanned(self, durable_only: bool) -> tuple[Scannable, Renewal | None]:
        return self._view(durable_only), None
