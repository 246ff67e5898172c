"""The database, open for reading and writing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from slate_engine.api import arguments, caching, vitals
from slate_engine.api.batch import WriteBatch
from slate_engine.api.building import instance
from slate_engine.api.changes import Changes
from slate_engine.api.checkpoint_ids import checkpoint_id
from slate_engine.api.choices import CacheTarget
from slate_engine.api.companions import Companions
from slate_engine.api.enums import FlushType, IsolationLevel
from slate_engine.api.estimates import KeyEstimate
from slate_engine.api.handle import WriteHandle
from slate_engine.api.live import Moment, check_open
from slate_engine.api.meters import Meters
from slate_engine.api.options import (
    CheckpointOptions,
    CloseOptions,
    FlushOptions,
    MergeOptions,
    PutOptions,
    WriteOptions,
)
from slate_engine.api.reads import Readable, View
from slate_engine.api.records import CheckpointCreateResult, DbStatus, SegmentPrefix, SsTableId
from slate_engine.api.scanning import Renewal, Scannable
from slate_engine.api.scopes import CheckpointScope
from slate_engine.api.snapshots import DbSnapshot
from slate_engine.api.transaction import DbTransaction
from slate_engine.api.upkeep import Upkeep
from slate_engine.api.vitals import Vitals
from slate_engine.errors import ClosedError, CloseReason, InvalidError
from slate_engine.format.key_range import KeyRange as EngineRange
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import uuid4
from slate_engine.state.checkpoints import with_checkpoint
from slate_engine.state.manifest import Manifest


class Db(Readable):
    """A database that this process writes. It belongs to the event loop in which it was built; ``shutdown`` ends it."""

    _writer: Writer
    _files: DatabaseFiles
    _options: WriterOptions
    _changes: Changes
    _meters: Meters | None
    _upkeep: Upkeep | None
    _companions: Companions
    _estimate: KeyEstimate

    @classmethod
    def of(
        cls,
        writer: Writer,
        files: DatabaseFiles,
        options: WriterOptions,
        default_ttl_ms: int | None,
        meters: Meters | None,
        companions: Companions,
    ) -> Db:
        made = cls.__new__(cls)
        made._writer, made._files, made._options = writer, files, options
        made._changes, made._estimate = Changes(default_ttl_ms), KeyEstimate()
        made._meters, made._upkeep, made._companions = meters, None, companions
        if meters is not None:
            made._upkeep = Upkeep(lambda: meters.observe_writer(writer), files.runtime)
        return made

    # --- writing -------------------------------------------------------------------------------------------------

    async def put(self, key: bytes, value: bytes) -> WriteHandle:
        """Set the value of ``key``. Everybody sees it when this returns; ``await_durable`` waits for the store."""
        return await self._write([self._changes.put(key, value)])

    async def put_with_options(
        self, key: bytes, value: bytes, put_options: PutOptions, write_options: WriteOptions
    ) -> WriteHandle:
        change = self._changes.put(key, value, instance(put_options, PutOptions, "put_options"))
        return await self._write([change], _seq(write_options))

    async def delete(self, key: bytes) -> WriteHandle:
        """Take the value of ``key`` away."""
        return await self._write([self._changes.delete(key)])

    async def delete_with_options(self, key: bytes, options: WriteOptions) -> WriteHandle:
        return await self._write([self._changes.delete(key)], _seq(options))

    async def merge(self, key: bytes, operand: bytes) -> WriteHandle:
        """Have the database's merge operator combine ``operand`` with the value of ``key``."""
        return await self._write([self._changes.merge(key, operand)])

    async def merge_with_options(
        self, key: bytes, operand: bytes, merge_options: MergeOptions, write_options: WriteOptions
    ) -> WriteHandle:
        change = self._changes.merge(key, operand, instance(merge_options, MergeOptions, "merge_options"))
        return await self._write([change], _seq(write_options))

    async def write(self, batch: WriteBatch) -> WriteHandle:
        """Write all of ``batch`` at once, and use it up."""
        return await self._write(self._changes.all_of(instance(batch, WriteBatch, "batch").take()))

    async def write_with_options(self, batch: WriteBatch, options: WriteOptions) -> WriteHandle:
        seq = _seq(options)
        return await self._write(self._changes.all_of(instance(batch, WriteBatch, "batch").take()), seq)

    async def _write(self, changes: list[Change], seq: int = 0) -> WriteHandle:
        self._check()
        commit = await self._writer.write(changes, seq=seq)
        if self._meters is not None:
            self._meters.write_ops.increment(len(changes))
            self._meters.write_batches.increment(1)
        return WriteHandle.of(commit)

    async def begin(self, isolation_level: IsolationLevel) -> DbTransaction:
        """Begin a transaction that sees the present state."""
        if not isinstance(isolation_level, IsolationLevel):
            raise ValueError(
                f"isolation_level must be an IsolationLevel such as IsolationLevel.SNAPSHOT, not {isolation_level!r}"
            )
        self._check()
        return DbTransaction.of(self._writer, self._changes, isolation_level, str(uuid4(self._files.runtime)))

    @property
    def default_ttl_ms(self) -> int | None:
        """How long values live of which nobody says anything else."""
        return self._changes.default_ttl_ms

    # --- reading -------------------------------------------------------------------------------------------------

    async def snapshot(self) -> DbSnapshot:
        """The present state, to be read later."""
        self._check()
        return DbSnapshot.of(self._writer)

    def _view(self, durable_only: bool) -> View:
        self._check()
        return self._writer.snapshot(durable_only=durable_only)

    def _scanned(self, durable_only: bool) -> tuple[Scannable, Renewal | None]:
        self._check()
        snapshot = self._writer.snapshot(durable_only=durable_only)
        return snapshot, Moment(self._writer, snapshot.max_seq).renewed

    async def _refresh(self) -> None:
        await self._writer.refresh()

    def _note_read(self, key: bytes) -> None:
        if self._meters is not None:
            self._meters.gets.increment(1)

    def _note_scan(self, wanted: EngineRange) -> None:
        if self._meters is not None:
            self._meters.scans.increment(1)

    def status(self) -> DbStatus:
        """How the database stands; works on a closed one, too."""
        error = self._writer.error
        return DbStatus(
            durable_seq=self._writer.durable_seq,
            close_reason=None if error is None else error.reason,
            segments=[SegmentPrefix(prefix=prefix) for prefix in self._writer.segments.prefixes],
        )

    def vitals(self) -> Vitals:
        """How the database is, in more detail."""
        return vitals.of_writer(self._writer)

    async def estimate_keys(self) -> int:
        """About how many keys there are."""
        state = self._writer.state
        in_memory = len(state.active) + sum(len(frozen.memtable) for frozen in state.frozen)
        return await self._estimate.of(state.manifest, state.open_table, in_memory)

    async def ended(self) -> ClosedError:
        """Wait until the database is closed, by whomever, and say why."""
        await self._writer.until(lambda: self._writer.error is not None)
        assert self._writer.error is not None
        return self._writer.error

    # --- durability ----------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Make everything durable that was written so far: in the write-ahead log or, where there is none, in level 0."""
        await self._flush(FlushType.WAL if self._options.wal_enabled else FlushType.MEM_TABLE)

    async def flush_with_options(self, options: FlushOptions) -> None:
        await self._flush(_flush_type(instance(options, FlushOptions, "options").flush_type))

    async def _flush(self, kind: FlushType) -> None:
        self._check()
        if self._meters is not None:
            self._meters.flushes.increment(1)
        if kind is FlushType.MEM_TABLE:
            await self._writer.flush_memtable()
        else:
            self._check_wal()
            await self._writer.flush_wal()
        if self._upkeep is not None:
            self._upkeep.now()

    def _check_wal(self) -> None:
        if not self._options.wal_enabled:
            raise InvalidError(
                "Invalid error: attempted a WAL operation when the WAL is disabled; flush with FlushType.MEM_TABLE"
            )

    async def create_checkpoint(self, scope: CheckpointScope, options: CheckpointOptions) -> CheckpointCreateResult:
        """A checkpoint of the present state, or of what an earlier one keeps (``options.source``). ``scope`` says which
        writes it includes; the checkpoint becomes visible with the very manifest that it keeps."""
        instance(scope, CheckpointScope, "scope")
        wanted = instance(options, CheckpointOptions, "options")
        source = None if wanted.source is None else checkpoint_id(wanted.source)
        lifetime = None if wanted.lifetime_ms is None else arguments.unsigned(wanted.lifetime_ms, "lifetime_ms")
        name = None if wanted.name is None else arguments.text(wanted.name, "name")
        self._check()
        if isinstance(scope, CheckpointScope.All) and source is None:
            await self._settle(scope.force_flush)
        id, now_ms = uuid4(self._files.runtime), self._files.runtime.now_ms()
        last_wal_id = self._writer.last_wal_id

        def change(old: Manifest) -> Manifest:
            seen = replace(old, wal_id_last_seen=max(old.wal_id_last_seen, last_wal_id))
            return with_checkpoint(seen, id=id, now_ms=now_ms, lifetime_ms=lifetime, name=name, source=source)

        committed = await self._writer.update_manifest(change)
        made = committed.value.checkpoint(id)
        assert made is not None
        return CheckpointCreateResult(id=str(id), manifest_id=made.manifest_id)

    async def _settle(self, force: bool) -> None:
        """Wait until all that is written by now is durable."""
        if force:
            await self._writer.flush_wal()
        else:
            await self._writer.durable(self._writer.snapshot().max_seq)

    # --- caches --------------------------------------------------------------------------------------------------

    async def warm_sst(self, sst_id: SsTableId, targets: list[CacheTarget]) -> None:
        """Bring parts of an SST into the cache before somebody needs them."""
        self._check()
        await caching.warm(self._writer.state.manifest, self._writer.state.open_table, sst_id, targets)

    async def evict_cached_sst(self, sst_id: SsTableId) -> None:
        """Drop an SST from the cache."""
        self._check()
        caching.evict(self._files.tables.cache, sst_id)

    async def flush_cache_to_disk(self) -> None:
        """The cache is in memory only, so there is nothing to do."""
        self._check()

    # --- the end -------------------------------------------------------------------------------------------------

    async def shutdown(self) -> None:
        """Write everything to level 0, and close."""
        await self.shutdown_with_options(CloseOptions(flush_type=FlushType.MEM_TABLE))

    async def shutdown_with_options(self, options: CloseOptions) -> None:
        """Close. What ``flush_type`` does not have flushed and is not durable yet is lost."""
        wanted = instance(options, CloseOptions, "options").flush_type
        kind = None if wanted is None else _flush_type(wanted)
        error = self._writer.error
        if error is None or error.reason is CloseReason.CLEAN:
            self._check()
        try:
            if kind is not None and error is None:
                await self._settle_for_good(kind)
        finally:
            try:
                # First what changes the manifest, so that no such change is under way when the writer has ended.
                await self._companions.close()
                if self._upkeep is not None:
                    await self._upkeep.stop()
            finally:
                if self._writer.error is None:
                    await self._writer.close(flush_wal=False)

    async def _settle_for_good(self, kind: FlushType) -> None:
        if not self._options.wal_enabled:
            await self._writer.flush_memtable()
            return
        await self._writer.flush_wal()
        if kind is FlushType.MEM_TABLE:
            await self._flush_memtable_if_there_is_room()

    async def _flush_memtable_if_there_is_room(self) -> None:
        """Everything is durable already, so a level 0 that is full does not hold up the end."""
        writer = self._writer
        flushed = asyncio.ensure_future(writer.flush_memtable())
        stuck = asyncio.ensure_future(writer.until(lambda: writer.pending is not None and not writer.has_l0_room))
        try:
            await asyncio.wait((flushed, stuck), return_when=asyncio.FIRST_COMPLETED)
            if flushed.done():
                await flushed
        finally:
            flushed.cancel()
            stuck.cancel()
            await asyncio.gather(flushed, stuck, return_exceptions=True)

    def _check(self) -> None:
        check_open(self._writer)


def _seq(options: WriteOptions) -> int:
    return arguments.unsigned(instance(options, WriteOptions, "write options").seqnum, "seqnum")


def _flush_type(value: FlushType) -> FlushType:
    if not isinstance(value, FlushType):
        raise ValueError(f"flush_type must be a FlushType such as FlushType.WAL, not {value!r}")
    return value
