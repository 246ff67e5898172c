"""The database, open for reading only."""

from __future__ import annotations

from slate_engine.api import caching, vitals
from slate_engine.api.choices import CacheTarget
from slate_engine.api.estimates import KeyEstimate
from slate_engine.api.live import check_loop
from slate_engine.api.meters import Meters
from slate_engine.api.reads import Readable, View
from slate_engine.api.records import DbStatus, SegmentPrefix, SsTableId
from slate_engine.api.scanning import Renewal, Scannable
from slate_engine.api.snapshots import ReaderSnapshot
from slate_engine.api.upkeep import Upkeep
from slate_engine.api.vitals import Vitals
from slate_engine.errors import ClosedError
from slate_engine.format.key_range import KeyRange as EngineRange
from slate_engine.lsm.reader import Reader
from slate_engine.lsm.reading import DatabaseFiles


class DbReader(Readable):
    """Reads of a database that somebody else writes. ``shutdown`` ends it."""

    _reader: Reader
    _files: DatabaseFiles
    _meters: Meters | None
    _upkeep: Upkeep | None
    _estimate: KeyEstimate

    @classmethod
    def of(cls, reader: Reader, files: DatabaseFiles, meters: Meters | None) -> DbReader:
        made = cls.__new__(cls)
        made._estimate = KeyEstimate()
        made._reader, made._files, made._meters, made._upkeep = reader, files, meters, None
        if meters is not None:
            made._upkeep = Upkeep(lambda: meters.observe_reader(reader), files.runtime)
        return made

    async def snapshot(self) -> ReaderSnapshot:
        """What the reader shows now, to be read later."""
        check_loop(self._reader.loop)
        return ReaderSnapshot.of(self._reader)

    def _view(self, durable_only: bool) -> View:
        # All that a reader sees is durable.
        check_loop(self._reader.loop)
        return self._reader.snapshot()

    def _scanned(self, durable_only: bool) -> tuple[Scannable, Renewal | None]:
        # A scan holds the lease of its state. Without one there is no second place to look: what was compacted since is
        # not what the scan began with.
        check_loop(self._reader.loop)
        return self._reader.snapshot(), None

    async def _refresh(self) -> None:
        await self._reader.refresh()

    def _note_read(self, key: bytes) -> None:
        if self._meters is not None:
            self._meters.gets.increment(1)

    def _note_scan(self, wanted: EngineRange) -> None:
        if self._meters is not None:
            self._meters.scans.increment(1)

    def status(self) -> DbStatus:
        """How the reader stands; works on a closed one, too."""
        error = self._reader.error
        return DbStatus(
            durable_seq=self._reader.last_seq,
            close_reason=None if error is None else error.reason,
            segments=[SegmentPrefix(prefix=prefix) for prefix in self._reader.segments()],
        )

    def closed(self) -> ClosedError | None:
        """Why the reader works no more, if that is so."""
        return self._reader.error

    def vitals(self) -> Vitals:
        """How the reader is, in more detail."""
        return vitals.of_reader(self._reader)

    async def estimate_keys(self) -> int:
        """About how many keys there are."""
        state = self._reader.state
        in_memory = sum(len(table.sorted) for table in state.tail.tables)
        return await self._estimate.of(state.manifest, self._reader.snapshot().open_table, in_memory)

    async def warm_sst(self, sst_id: SsTableId, targets: list[CacheTarget]) -> None:
        """Bring parts of an SST into the cache before somebody needs them."""
        snapshot = self._reader.snapshot()
        await caching.warm(self._reader.state.manifest, snapshot.open_table, sst_id, targets)

    async def evict_cached_sst(self, sst_id: SsTableId) -> None:
        """Drop an SST from the cache."""
        self._reader.check_open()
        caching.evict(self._files.tables.cache, sst_id)

    async def flush_cache_to_disk(self) -> None:
        """The cache is in memory only, so there is nothing to do."""
        self._reader.check_open()

    async def shutdown(self) -> None:
        """Stop following the database, and delete the reader's checkpoints."""
        if self._upkeep is not None:
            await self._upkeep.stop()
            self._upkeep = None
        await self._reader.close()
