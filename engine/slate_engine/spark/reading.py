"""What a task does: reads its share of a state and hands out Arrow batches.

The state is a manifest that a checkpoint keeps, so a task gets its number and not its content; a Python worker keeps the
last one that it read for its next task. Reading goes on in a thread of its own while Spark takes what is ready.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from slate_engine.errors import InvalidError
from slate_engine.format.arrow import record_batch
from slate_engine.format.columns import Rows
from slate_engine.format.key_range import KeyRange
from slate_engine.lsm.levels import Levels
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import WalTable
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.table import MissingSst
from slate_engine.runtime import SystemRuntime
from slate_engine.spark.decoding import Decoder
from slate_engine.spark.heap import keep_memory
from slate_engine.spark.options import MIB, Location, imported
from slate_engine.spark.ranges import Ranges, is_point
from slate_engine.state.manifest import Manifest
from slate_engine.store.protocol import NotFound

T = TypeVar("T")

FEWEST_BYTES = 4 * MIB
"""A request asks for at least so much of an SST, where there is so much."""

PARTS_AHEAD = 1
COPIES = 6
"""A part is there as it came from the store, decoded, joined with others, merged, and on its way to Spark."""

EXPANSION = 4
"""What compressed blocks are reckoned to grow to."""

BATCH_BYTES = 4 * MIB
POINTS_AT_ONCE = 64


@dataclass(frozen=True)
class State:
    """One state of a database: what a manifest shows up to a sequence number."""

    location: Location
    manifest_id: int
    max_seq: int
    merge_operator: str = ""
    checkpoint: str = ""
    """The id of the one that keeps it."""

    @property
    def life(self) -> tuple[str, str]:
        """Which database this is, where another one may have had the same place: one that was dropped and made again, or a
        bucket of the same name elsewhere. Holds no secret, only what cannot be turned back into one."""
        options = repr(sorted(self.location.options.items()))
        return self.checkpoint, sha256(options.encode()).hexdigest()


@dataclass(frozen=True)
class Output:
    """How rows become what Spark asked for."""

    columns: tuple[str, ...]
    decoders: tuple[Decoder, ...]
    schema: pa.Schema

    @property
    def values(self) -> bool:
        return "value" in self.columns

    def batch(self, rows: Rows) -> pa.RecordBatch:
        plain = record_batch(rows, self.columns, large=False)
        arrays = [plain.column(i) for i in range(plain.num_columns)]
        return self.finished(dict(zip(self.columns, arrays, strict=True)))

    def finished(self, arrays: dict[str, pa.Array]) -> pa.RecordBatch:
        """Columns by name, decoded and in the types of the schema."""
        for decoder in self.decoders:
            if decoder.column in arrays:
                wanted = self.schema.field(decoder.column).type
                arrays[decoder.column] = decoder.decode(arrays[decoder.column], wanted)
        made = [arrays[field.name] for field in self.schema]
        made = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(made, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(made, schema=self.schema)


@dataclass
class Share(InputPartition):
    """The keys of one task, in which state, and what its log holds of them."""

    state: State
    ranges: Ranges
    tail: Rows


def read_share(share: Share, output: Output, memory: int) -> Iterator[pa.RecordBatch]:
    """The rows of a share. ``memory`` bounds, roughly, what is held of it at once."""
    keep_memory(memory)
    return pulled(_batches(share, output, memory))


async def _batches(share: Share, output: Output, memory: int) -> AsyncGenerator[pa.RecordBatch, None]:
    async with opened(share.state.location, share.state.merge_operator) as files, still_kept():
        snapshot = await snapshot_of(files, share.state, share.tail)
        points = [each.start.key for each in share.ranges if is_point(each)]
        for first in range(0, len(points), POINTS_AT_ONCE):
            rows = await _looked_up(snapshot, points[first : first + POINTS_AT_ONCE])
            if len(rows):
                yield output.batch(rows)
        for wanted in share.ranges:
            if is_point(wanted):
                continue
            parts = part_bytes(snapshot, wanted, memory)
            scan = snapshot.scan(wanted, values=output.values, parts=(FEWEST_BYTES, parts), ahead=PARTS_AHEAD)
            async with aclosing(scan) as batches:
                async for rows in batches:
                    for piece in pieces(rows):
                        yield output.batch(piece)


def part_bytes(snapshot: Snapshot, wanted: KeyRange, memory: int) -> int:
    """How much to read at once: enough for a fair request to each of the levels that are merged, as far as memory allows."""
    levels = snapshot.levels.overlapping(wanted)
    compressed = any(level.views.ssts().codec.any() for level in levels)
    most = memory // ((PARTS_AHEAD + 1) * COPIES * (EXPANSION if compressed else 1))
    return max(min(2 * FEWEST_BYTES * max(len(levels), 1), most), MIB)


def pieces(rows: Rows) -> Iterator[Rows]:
    """The rows in batches of a size that Spark likes to be handed."""
    step = max(len(rows) * BATCH_BYTES // max(rows.nbytes, 1), 1)
    for first in range(0, len(rows), step):
        yield rows.slice(first, min(first + step, len(rows)))


async def _looked_up(snapshot: Snapshot, keys: list[bytes]) -> Rows:
    """Single keys go by the filters of the SSTs, and cost a block each at most."""
    found = await asyncio.gather(*(snapshot.get(key) for key in keys))
    return Rows.of([row for row in found if row is not None])


# --- the state on an executor ----------------------------------------------------------------------------------------

MANIFESTS = 2
"""A diff needs two."""

_manifests: dict[tuple[object, ...], Manifest] = {}


async def snapshot_of(files: DatabaseFiles, state: State, tail: Rows) -> Snapshot:
    """The state, with these rows of its log."""
    manifest = await manifest_of(files, state.manifest_id, state.life)
    memory = (WalTable(tail, state.max_seq),) if len(tail) else ()
    return Snapshot(memory, Levels(manifest.trees), files.tables.opener(manifest), state.max_seq, files.operator)


async def manifest_of(files: DatabaseFiles, id: int, life: tuple[str, str]) -> Manifest:
    """Manifest ``id`` of the database in this ``life`` of its place: see :attr:`State.life`."""
    place = files.store.url, files.path, id, *life
    if place not in _manifests:
        while len(_manifests) >= MANIFESTS:
            _manifests.pop(next(iter(_manifests)))
        try:
            _manifests[place] = await files.manifests.read(id)
        except NotFound:
            raise InvalidError(
                f"manifest {id} of {files.path!r} does not exist any more: the checkpoint on which this read stands was "
                "deleted, or its time was over; load the frame again"
            ) from None
    return _manifests[place]


@asynccontextmanager
async def still_kept() -> AsyncIterator[None]:
    """What is read in here stands on a checkpoint, so an SST that is missing has one reason."""
    try:
        yield
    except MissingSst as missing:
        raise InvalidError(
            f"{missing.key} does not exist any more: the checkpoint on which this read stands was deleted, or its time was "
            "over; load the frame again, and give it a longer checkpointLifetime if its driver may be away for long"
        ) from None


class _NoOperator:
    """Stands where nobody named a merge operator, and says how to."""

    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        raise InvalidError(
            f"key {key!r} was written with a merge operator, and only that can tell its value: name it with "
            'option("mergeOperator", "package.module:name")'
        )


@asynccontextmanager
async def opened(location: Location, merge_operator: str = "") -> AsyncIterator[DatabaseFiles]:
    """A database's files for a while."""
    runtime = SystemRuntime(threads=2)
    operator = imported(merge_operator, "mergeOperator") if merge_operator else _NoOperator
    store, wal_store = location.open(runtime), location.open_wal(runtime)
    try:
        yield DatabaseFiles(
            store,
            location.path,
            runtime,
            operator=operator() if isinstance(operator, type) else operator,
            wal_store=wal_store,
        )
    finally:
        await store.close()
        if wal_store is not None:
            await wal_store.close()


def pulled(batches: AsyncGenerator[T, None]) -> Iterator[T]:
    """What an asynchronous generator gives, for one who pulls from a plain thread; it works ahead in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="slate-read", daemon=True)
    thread.start()

    def wait(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def following() -> T | None:
        return await anext(batches, None)

    try:
        while (batch := wait(following())) is not None:
            yield batch
    finally:
        # Whoever stops early, because of a limit, ends what is being fetched, too.
        wait(batches.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
