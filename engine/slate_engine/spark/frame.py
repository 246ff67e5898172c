"""A frame over a state of a database, as the driver sees it: its columns, what it needs to read, and who reads what."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from slate_engine.errors import InvalidError
from slate_engine.format.columns import EMPTY
from slate_engine.lsm.levels import Levels
from slate_engine.lsm.order import concat
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.spark import diff
from slate_engine.spark.columns import check_schema, decoders_of
from slate_engine.spark.diff import Side
from slate_engine.spark.filters import push
from slate_engine.spark.holding import Wanted, first_source, hold
from slate_engine.spark.options import ReadOptions
from slate_engine.spark.planning import plan, rows_within, weigh
from slate_engine.spark.ranges import intersect
from slate_engine.spark.reading import Output, Share, State, opened, read_share
from slate_engine.spark.versions import arrow_schema, refuse_pushdown
from slate_engine.state.manifest import Checkpoint, Manifest


def reader_of(
    options: Mapping[str, str],
    schema: StructType,
    id: UUID,
    keeper: str,
    *,
    pushes: bool = False,
    settled: bool = True,
) -> DataSourceReader:
    """``pushes`` tells whether Spark may push filters down. Where it may not, the reader has no ``pushFilters``: Spark
    refuses one that it is told not to use. ``settled`` tells whether all scans of the frame have this ``id``."""
    wanted = ReadOptions.of(options)
    if not settled and not (wanted.until if wanted.since else wanted.checkpoint):
        raise InvalidError(
            "the present state cannot be read with a schema of yours: Spark then plans each scan of a query by itself, and "
            "a join of the frame with itself would mix states of different moments. Leave schema(…) out and choose columns "
            'with option("columns", …), or name the state with option("checkpoint", …), or "to" for a diff'
        )
    if pushes:
        return (PushedDiff if wanted.since else PushedState)(wanted, schema, id, keeper)
    refuse_pushdown()
    return (DiffReader if wanted.since else StateReader)(wanted, schema, id, keeper)


class _Reader(DataSourceReader):
    """What reading a state and reading a diff have in common. ``id`` is the frame's own."""

    def __init__(self, wanted: ReadOptions, schema: StructType, id: UUID, keeper: str) -> None:
        names = tuple(schema.fieldNames())
        check_schema(schema, wanted)
        self._wanted = wanted
        self._id = id
        self._keeper = keeper
        self._ranges = wanted.ranges
        self._output = Output(names, decoders_of(wanted), arrow_schema(schema))

    def partitions(self) -> list[InputPartition]:
        return asyncio.run(self._planned())

    async def _planned(self) -> list[InputPartition]:
        async with opened(self._wanted.location, self._wanted.merge_operator) as files:
            return await self._plan(files) if self._ranges else []

    @abstractmethod
    async def _plan(self, files: DatabaseFiles) -> list[InputPartition]: ...

    async def _kept(self, files: DatabaseFiles, checkpoint: str, id: UUID) -> tuple[State, Side]:
        """The state of a checkpoint (or the present one) that stays while the application runs."""
        kept = await kept_state(files, self._wanted, checkpoint, id, self._keeper)
        snapshot = await files.at(kept.manifest, kept.manifest.wal_id_last_seen)
        tail = concat([EMPTY, *(memory.rows() for memory in snapshot.memory)])
        place, operator = self._wanted.location, self._wanted.merge_operator
        state = State(place, kept.manifest_id, snapshot.max_seq, operator, str(kept.checkpoint))
        return state, Side(kept.manifest, tail, snapshot.max_seq)


class StateReader(_Reader):
    """Plans a frame over one state, and reads the shares of it."""

    async def _plan(self, files: DatabaseFiles) -> list[InputPartition]:
        state, side = await self._kept(files, self._wanted.checkpoint, self._id)
        snapshot = Snapshot((), Levels(side.manifest.trees), files.tables.opener(side.manifest))
        weights = await weigh(snapshot, self._ranges, self._wanted.partition_bytes)
        shares = plan(weights, self._ranges, self._wanted.partition_bytes)
        return [Share(state, each.ranges, rows_within(side.tail, each.ranges)) for each in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Share):
            # Where there is nothing to read, Spark makes a partition of nothing.
            return iter(())
        return read_share(partition, self._output, self._wanted.memory_bytes)


class DiffReader(_Reader):
    """The same for what changed between two states."""

    async def _plan(self, files: DatabaseFiles) -> list[InputPartition]:
        wanted = self._wanted
        before = await self._kept(files, wanted.since, self._id)
        after = await self._kept(files, wanted.until, UUID(int=self._id.int ^ 1))
        return await diff.plan_diff(files, before, after, self._ranges, wanted.partition_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, diff.DiffShare):
            return iter(())
        return diff.read_diff(partition, self._output, self._wanted.memory_bytes)


class _Pushed(_Reader):
    """A reader that takes filters. Spark asks it once, before it plans, and for one scan alone."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        pushed = push(filters, self._wanted.formats["key"], nulls=self._wanted.nulls)
        self._ranges = intersect(self._wanted.ranges, pushed.ranges)
        return pushed.left


class PushedState(_Pushed, StateReader):
    """Reads of a state only what the filters of its scan leave."""


class PushedDiff(_Pushed, DiffReader):
    """The same for a diff."""


@dataclass(frozen=True)
class Kept:
    """A state that stays while the application runs, and what keeps it."""

    checkpoint: UUID
    manifest_id: int
    manifest: Manifest


async def kept_state(files: DatabaseFiles, wanted: ReadOptions, checkpoint: str, id: UUID, keeper: str) -> Kept:
    """What ``checkpoint`` (an id or a name) keeps, or the present state if it is empty. A checkpoint that lives for ever is
    read as it is; otherwise one with ``id`` is made, which lives as long as the application. Once that is there, the frame
    stands on it, whatever has become of ``checkpoint``."""
    source: Checkpoint | None = None
    newest = await files.manifest()
    if checkpoint and newest.checkpoint(id) is None:
        source = _source(newest, checkpoint, id, files, keeper)
        if source.expire_time_s is None:
            return Kept(source.id, source.manifest_id, await files.manifests.read(source.manifest_id))
    hold(keeper, Wanted(id, wanted.location, wanted.lifetime_ms, None if source is None else source.id))
    made = (await files.manifest()).checkpoint(id)
    if made is None:
        raise InvalidError(
            f"the checkpoint {id} that this frame was made with has been deleted: load it again, and read it sooner or give "
            'option("checkpointLifetime", …) more time'
        )
    return Kept(id, made.manifest_id, await files.manifests.read(made.manifest_id))


def _source(newest: Manifest, checkpoint: str, frame: UUID, files: DatabaseFiles, keeper: str) -> Checkpoint:
    """The checkpoint at which this frame was first planned. An id never passes to another one, but a name may, so the
    driver remembers whose it was then."""
    if not keeper or any(str(each.id) == checkpoint for each in newest.checkpoints):
        return found_checkpoint(newest, checkpoint, files)
    first = first_source(keeper, frame)
    if first is None:
        first = first_source(keeper, frame, found_checkpoint(newest, checkpoint, files).id)
    assert first is not None
    source = newest.checkpoint(first)
    if source is None:
        raise InvalidError(
            f"checkpoint {first}, which had the name {checkpoint!r} when this frame was first used, has been deleted, and a "
            "frame shows one state: load the frame again, which reads what has that name now"
        )
    return source


def found_checkpoint(newest: Manifest, wanted: str, files: DatabaseFiles) -> Checkpoint:
    """The checkpoint with this id or name that is not over."""
    now_s = files.runtime.now_ms() / 1000
    alive = [each for each in newest.checkpoints if not each.is_expired(now_s)]
    found = [each for each in alive if wanted in (str(each.id), each.name)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(str(each.id) for each in found)
        raise InvalidError(
            f"database {files.path!r} has {len(found)} checkpoints {wanted!r}; name one by its id: {ids}"
        )
    if not alive:
        raise InvalidError(
            f"database {files.path!r} has no checkpoint {wanted!r}, and no other: only its present state can be read. Make "
            "checkpoints of the states that you want to come back to"
        )
    earliest = min(alive, key=lambda each: (each.create_time_s, each.manifest_id))
    raise InvalidError(
        f"database {files.path!r} has no checkpoint {wanted!r}: it was deleted, or its time is over. The earliest state "
        f"that can still be read is {_shown(earliest)}; all are: {', '.join(_shown(each) for each in alive)}"
    )


def _shown(checkpoint: Checkpoint) -> str:
    made = datetime.fromtimestamp(checkpoint.create_time_s, UTC).isoformat()
    return f"{checkpoint.id} ({checkpoint.name + ', ' if checkpoint.name else ''}made {made})"
