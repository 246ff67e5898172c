"""The changes of a database as a stream: first its whole state at a checkpoint, then its log, file by file.

An offset is a checkpoint: the WAL file up to which everything was handed on, and the checkpoint that holds the state of that
moment. A batch is settled by its two offsets alone, which Spark keeps in its own log, and by nothing that may change:
planned again after a crash it is the same rows. The first batch has an end only, and reads the state that this end holds.

A checkpoint holds SSTs and the part of the log that is in none of them yet. If that part of the end has all that is newer
than the beginning, the batch is the log: each row once, in the order of commits within a file; a row without a value is a
deletion. Otherwise something was flushed in between, by a writer with or without a log, or bulk loaded, or the database was
restored, and no checkpoint keeps the log of that; then the batch is the difference between the two states, in which a key
that was written several times comes once.

A WAL number proves no identity: a database that is destroyed and made again begins with the same ones. The checkpoint of a
position has an id that never comes twice, so a stream goes on from a position only while its checkpoint is there.

Needs PySpark 4.2, which tells a source where the batch begins that it is to end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint
from slate_engine.errors import DataError, InvalidError
from slate_engine.format.columns import EMPTY, MERGE
from slate_engine.lsm.levels import Levels
from slate_engine.lsm.order import concat
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import newer_than, truncated, wal_frontier
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.wal_tail import read_wal_file
from slate_engine.runtime import uuid4
from slate_engine.spark.columns import check_schema, decoders_of
from slate_engine.spark.diff import DiffShare, Side, plan_diff, read_diff
from slate_engine.spark.frame import found_checkpoint
from slate_engine.spark.keys import KEYS
from slate_engine.spark.options import Given, Location, ReadOptions
from slate_engine.spark.planning import plan, rows_within, weigh
from slate_engine.spark.ranges import EVERYTHING
from slate_engine.spark.reading import Output, Share, State, opened, pieces, pulled, read_share
from slate_engine.spark.versions import arrow_schema, check_streams
from slate_engine.state.checkpoints import with_checkpoint_refreshed, without_checkpoint
from slate_engine.state.manifest import Manifest
from slate_engine.store.protocol import NotFound

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

T = TypeVar("T")

NAME = "spark stream"
LIFETIME = "24h"
"""For so long a stream may be down and go on where it was. Whoever needs more says so."""


@dataclass(frozen=True)
class Position:
    """An offset. The one before everything has no checkpoint."""

    checkpoint: str = ""
    manifest: int = 0
    wal: int = 0
    replayed: int = 0
    """The WAL file up to which all rows are in SSTs. The checkpoint holds those behind it."""
    stream: str = ""
    """Which stream it is of: there may be several of one database."""
    seq: int = -1
    """The newest row of this state. Offsets that older versions wrote do not tell, and no log follows them."""
    flushed: int = 0
    """The newest row of this state that is in an SST."""

    @staticmethod
    def of(offset: Mapping[str, Any]) -> Position:
        return Position(**offset)

    @property
    def offset(self) -> dict[str, Any]:
        return asdict(self)

    def holds_log_since(self, before: Position) -> bool:
        """Whether the log between the two is all that came in between. It is not if an SST has a newer row, be it flushed
        by a writer that keeps no log, or loaded; nor if rows were undone. A restore leaves the end of the log behind it, in
        SSTs. ``before`` may stand at that very end, if it was taken while the restore was under way."""
        in_log = self.replayed < before.wal or self.replayed == before.replayed == before.wal
        return in_log and self.flushed <= before.seq and before.wal <= self.wal

    @property
    def name(self) -> str:
        """What the checkpoints of the stream are called."""
        return f"{NAME} {self.stream}"


BEGINNING = Position()


@dataclass
class LogShare(InputPartition):
    """Neighbouring WAL files, both ends included."""

    location: Location
    first: int
    last: int
    after_seq: int
    """Rows up to this one are part of the state where the batch begins: a flush may be faster than the log."""


def stream_reader_of(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    check_streams()
    wanted = ReadOptions.of(options)
    if wanted.since:
        raise InvalidError('a stream has no end: leave "from" and "to" out, or read the difference as a batch')
    if wanted.ranges != EVERYTHING:
        raise InvalidError(
            f"a stream has all keys: leave the options {', '.join(KEYS)} out, and choose rows with where() on the frame"
        )
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    SupportsTriggerAvailableNow.register(ChangeStream)
    lifetime_ms = Given(options).lifetime_ms("checkpointLifetime", LIFETIME)
    return ChangeStream(replace(wanted, lifetime_ms=lifetime_ms), schema)


class ChangeStream(DataSourceStreamReader):
    """One streaming query's view of a database."""

    def __init__(self, wanted: ReadOptions, schema: StructType) -> None:
        self._wanted = wanted
        names = tuple(schema.fieldNames())
        check_schema(schema, wanted)
        self._output = Output(names, decoders_of(wanted), arrow_schema(schema))
        self._renew_at = 0.0
        self._once = False
        self._last: Position | None = None

    def prepareForTriggerAvailableNow(self) -> None:
        """The query is to end where the database is now."""
        self._once = True

    def initialOffset(self) -> dict[str, Any]:
        return BEGINNING.offset

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._last is not None:
            return self._last.offset
        latest = self._with_files(lambda files: self._latest(files, Position.of(start)))
        self._last = latest if self._once else None
        return latest.offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        before, after = Position.of(start), Position.of(end)
        if before == after:
            return []
        if before == BEGINNING:
            return self._with_files(lambda files: self._state(files, after))
        if after.holds_log_since(before):
            return self._with_files(lambda files: self._log(files, before, after))
        return self._with_files(lambda files: self._difference(files, before, after))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        match partition:
            case Share():
                return read_share(partition, self._output, self._wanted.memory_bytes)
            case DiffShare():
                return read_diff(partition, self._output, self._wanted.memory_bytes)
            case LogShare():
                return pulled(_changes(partition, self._output))
        return iter(())  # where there is nothing to read, Spark makes a partition of nothing

    def commit(self, end: dict[str, Any]) -> None:
        """What is before ``end`` is never asked for again; the state at ``end`` is held on."""
        position = Position.of(end)
        if position != BEGINNING:
            self._with_files(lambda files: self._renew(files, position))

    def _with_files(self, work: Callable[[DatabaseFiles], Awaitable[T]]) -> T:
        async def carry_out() -> T:
            async with opened(self._wanted.location, self._wanted.merge_operator) as files:
                return await work(files)

        return asyncio.run(carry_out())

    # --- in the driver -------------------------------------------------------------------------------------------

    async def _latest(self, files: DatabaseFiles, start: Position) -> Position:
        if start == BEGINNING:
            fresh = Position(stream=uuid4(files.runtime).hex[:8])
            return await self._hold(files, fresh, self._wanted.checkpoint)
        manifest = await files.manifest()
        if manifest.checkpoint(UUID(start.checkpoint)) is None:
            raise _gone(f"checkpoint {start.checkpoint}")
        last = await wal_frontier(files.log_store, files.paths, manifest.replay_after_wal_id)
        end = max(last, manifest.wal_id_last_seen)
        if end > start.wal or manifest.last_l0_seq > start.seq:
            return await self._hold(files, start)
        if files.runtime.monotonic() >= self._renew_at:
            await self._renew(files, start)
        return start

    async def _hold(self, files: DatabaseFiles, start: Position, source: str = "") -> Position:
        """A checkpoint of the present state with its whole log, or of what another one keeps."""
        origin = found_checkpoint(await files.manifest(), source, files).id if source else None
        id = uuid4(files.runtime)
        options = CheckpointOptions(self._wanted.lifetime_ms, origin, start.name, id, whole_log=True)
        made = await create_checkpoint(files, options)
        kept = await files.manifests.read(made.manifest_id)
        return Position(
            str(id),
            made.manifest_id,
            kept.wal_id_last_seen,
            kept.replay_after_wal_id,
            start.stream,
            await _last_seq(files, kept),
            kept.last_l0_seq,
        )

    async def _renew(self, files: DatabaseFiles, held: Position) -> None:
        """Keep the state at a position, and none before it, in one change. If its checkpoint is gone, the next look for
        changes says so; what has been handed on is not in doubt."""
        self._renew_at = files.runtime.monotonic() + self._wanted.lifetime_ms / 4000

        def change(old: Manifest) -> Manifest:
            new = old
            id, now_ms = UUID(held.checkpoint), files.runtime.now_ms()
            if old.checkpoint(id) is not None:
                new = with_checkpoint_refreshed(old, id, now_ms=now_ms, lifetime_ms=self._wanted.lifetime_ms)
            for each in old.checkpoints:
                if each.name == held.name and each.manifest_id < held.manifest:
                    new = without_checkpoint(new, each.id)
            return new

        await files.manifests.update(change)

    async def _state(self, files: DatabaseFiles, at: Position) -> list[InputPartition]:
        """The first batch: everything."""
        await self._secure(files, at)
        state, side = await self._side(files, at)
        target = self._wanted.partition_bytes
        snapshot = Snapshot((), Levels(side.manifest.trees), files.tables.opener(side.manifest))
        shares = plan(await weigh(snapshot, EVERYTHING, target), EVERYTHING, target)
        return [Share(state, each.ranges, rows_within(side.tail, each.ranges)) for each in shares]

    async def _difference(self, files: DatabaseFiles, before: Position, after: Position) -> list[InputPartition]:
        await self._secure(files, before, after)
        sides = await self._side(files, before), await self._side(files, after)
        return await plan_diff(files, *sides, EVERYTHING, self._wanted.partition_bytes)

    async def _log(self, files: DatabaseFiles, before: Position, after: Position) -> list[InputPartition]:
        """The files between two positions, in shares of about as many bytes."""
        await self._secure(files, before, after)
        sizes = await _wal_sizes(files, before.wal, after.wal)
        shares: list[InputPartition] = []
        first, total = before.wal + 1, 0
        for id in range(before.wal + 1, after.wal + 1):
            total += sizes.get(id, 0)
            if total >= self._wanted.partition_bytes or id == after.wal:
                shares.append(LogShare(self._wanted.location, first, id, before.seq))
                first, total = id + 1, 0
        return shares

    async def _secure(self, files: DatabaseFiles, *positions: Position) -> None:
        """A batch begins, maybe for the second time: what it reads is to be there for as long as it may take. A checkpoint
        whose time is over counts as long as nobody has taken it away."""
        lifetime_ms = self._wanted.lifetime_ms

        def change(old: Manifest) -> Manifest:
            new, now_ms = old, files.runtime.now_ms()
            for id in (UUID(each.checkpoint) for each in positions):
                kept = old.checkpoint(id)
                if kept is None:
                    raise _gone(f"checkpoint {id}")
                if kept.is_expired((now_ms + lifetime_ms / 2) / 1000):
                    new = with_checkpoint_refreshed(new, id, now_ms=now_ms, lifetime_ms=lifetime_ms)
            return new

        await files.manifests.update(change)

    async def _side(self, files: DatabaseFiles, at: Position) -> tuple[State, Side]:
        """The state that a position holds."""
        try:
            manifest = await files.manifests.read(at.manifest)
        except NotFound:
            raise _gone(f"the state of checkpoint {at.checkpoint}") from None
        snapshot = await files.at(manifest, at.wal)
        tail = concat([EMPTY, *(memory.rows() for memory in snapshot.memory)])
        place, operator = self._wanted.location, self._wanted.merge_operator
        state = State(place, at.manifest, snapshot.max_seq, operator, at.checkpoint)
        return state, Side(manifest, tail, snapshot.max_seq)


def _gone(what: str) -> DataError:
    return DataError(
        f"{what}, at which the stream stands, is gone: it was deleted, or the stream was down, or at one batch, for longer "
        "than checkpointLifetime, or the database was destroyed and another one made at its path. What changed since cannot "
        "be told any more: begin again with a new checkpointLocation, which reads the whole state first, and with a new "
        "table. If the stream was down for too long, give it a longer checkpointLifetime"
    )


async def _last_seq(files: DatabaseFiles, kept: Manifest) -> int:
    """The newest row of a state that a checkpoint keeps: the last file of its log that has rows tells."""
    for id in reversed(kept.needed_wal_ids):
        rows = await read_wal_file(files, id)
        if rows is None:
            raise await truncated(files.log_store, files.paths, id, kept.needed_wal_ids)
        if len(rows):
            return max(kept.last_l0_seq, int(rows.seq[-1]))
    return kept.last_l0_seq


async def _wal_sizes(files: DatabaseFiles, after: int, until: int) -> dict[int, int]:
    store, directory = files.log_store, files.paths.wal_directory + "/"
    sizes: dict[int, int] = {}
    async for page in store.list(directory, start_after=files.paths.wal(after)):
        for meta in page:
            stem = meta.key.removeprefix(directory).removesuffix(".sst")
            if stem.isdecimal() and meta.key == files.paths.wal(int(stem)):
                sizes[int(stem)] = meta.size
        if sizes and max(sizes) >= until:
            break
    return sizes


async def _changes(share: LogShare, output: Output) -> AsyncGenerator[pa.RecordBatch, None]:
    async with opened(share.location) as files:
        for id in range(share.first, share.last + 1):
            rows = await read_wal_file(files, id)
            if rows is None:
                raise await truncated(files.log_store, files.paths, id, range(share.first, share.last + 1))
            rows = newer_than(rows, share.after_seq)
            if (rows.flags & MERGE).any():
                raise InvalidError(
                    f"WAL file {id} of {files.path!r} holds merge operands, which are no values by themselves; read the "
                    'difference between two checkpoints instead (options "from" and "to"), where they are resolved'
                )
            for piece in pieces(rows):
                yield output.batch(piece)
