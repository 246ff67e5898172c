"""The original, driven: SlateDB 0.17 through its Python package, on one folder that we read and write as well."""

from __future__ import annotations

import asyncio
import enum
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import slatedb.uniffi as u

from slate_engine.format.filters import Bloom, Point, Prefix, PrefixExtractor
from slate_engine.format.key_range import ALL, BoundType, KeyRange
from slate_engine.format.sst_meta import Codec
from tests.interop.history import Commit, Concat, Kind, Operation, Row
from tests.interop.style import Style

BATCH = 4096
_CODECS = {Codec.SNAPPY: "Snappy", Codec.ZLIB: "Zlib", Codec.LZ4: "Lz4", Codec.ZSTD: "Zstd"}


class _Merge(u.MergeOperator):  # type: ignore[misc]
    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        return Concat().merge(key, existing_value, operand)


class _Extractor(u.PrefixExtractor):  # type: ignore[misc]
    """One of our extractors, as the original asks it."""

    def __init__(self, ours: PrefixExtractor) -> None:
        self._ours = ours

    def name(self) -> str:
        return self._ours.name()

    def prefix_len(self, target: Any) -> int | None:
        return self._ours.prefix_len(Point(target.key) if target.is_POINT() else Prefix(target.prefix))


@dataclass(frozen=True)
class Original:
    """Processes of SlateDB on the databases of ``folder``, all of which are made in one style."""

    folder: Path
    style: Style

    @property
    def store(self) -> Any:
        builder = u.ObjectStoreBuilder(u.ObjectStoreType.LOCAL)
        builder.with_config("local_path", str(self.folder))
        return builder.build()

    def admin(self, path: str) -> Any:
        return u.AdminBuilder(path, self.store).build()

    @asynccontextmanager
    async def writer(self, path: str, *, compactor: bool = False, **settings: object) -> AsyncIterator[Any]:
        """A writer. It is closed at the end without more of a flush than durability takes, so that a WAL stays a WAL."""
        db = await self._builder(path, compactor, settings).build()
        try:
            yield db
        finally:
            kind = u.FlushType.WAL if self.style.wal else u.FlushType.MEM_TABLE
            await db.shutdown_with_options(u.CloseOptions(flush_type=kind))

    async def settle(self, path: str) -> None:
        """Flush a database to the last row, so that its WAL has nothing more to tell: projections ask for that."""
        for _ in range(20):
            # Replay often starts a file too early, and a flush of nothing does not move it: so there is always something.
            async with self.writer(path) as db:
                await write(db, [Operation(Kind.DELETE, b"aa: never written")])
            await (await self._builder(path, False, {}).build()).shutdown()
            manifest = await self.admin(path).read_manifest(None)
            left = range(manifest.replay_after_wal_id + 1, manifest.next_wal_sst_id)
            if not any((self.folder / path / "wal" / f"{id:020d}.sst").stat().st_size for id in left):
                return
        raise TimeoutError(f"the WAL of {path} does not become empty")

    @asynccontextmanager
    async def reader(self, path: str, checkpoint: str | None = None) -> AsyncIterator[Any]:
        """A reader of the newest state, or of a checkpoint; it leaves no trace in the store."""
        builder = u.DbReaderBuilder(path, self.store)
        mode = u.ReaderMode.FOLLOW_LATEST() if checkpoint is None else u.ReaderMode.CHECKPOINT(checkpoint)
        builder.with_reader_mode(mode)
        self._configure(builder)
        reader = await builder.build()
        try:
            yield reader
        finally:
            await reader.shutdown()

    async def rows(self, path: str, checkpoint: str | None = None) -> list[Row]:
        """All rows that a reader sees."""
        async with self.reader(path, checkpoint) as reader:
            return await scan(reader)

    async def create_checkpoint(
        self, path: str, name: str | None = None, *, lifetime_ms: int | None = None, source: str | None = None
    ) -> str:
        options = u.CheckpointOptions(lifetime_ms=lifetime_ms, source=source, name=name)
        created = await self.admin(path).create_detached_checkpoint(options)
        return str(created.id)

    async def clone(self, sources: Sequence[tuple[str, str | None, KeyRange]], path: str) -> None:
        """A clone of a database at a checkpoint (or as it is), of a range of it, or of several with disjoint ranges."""
        specs = [
            u.CloneSourceSpec(path=source, checkpoint=at, projection_range=None if keys == ALL else key_range(keys))
            for source, at, keys in sources
        ]
        builder = self.admin(path).create_clone_builder_from_source(specs[0])
        for spec in specs[1:]:
            builder.with_source(spec)
        await builder.build()

    async def compact(self, path: str, which: int, l0: int, runs: int) -> bool:
        """Have the compactor of a running writer merge the oldest of L0 and the newest runs of one tree; wait for it."""
        manifest = await self.admin(path).read_manifest(None)
        tree: Any = manifest.segments[which % len(manifest.segments)] if manifest.segments else manifest
        views, sources = tree.l0[max(len(tree.l0) - l0, 0) :], tree.compacted[:runs]
        if not views and not sources:
            return False
        every_run = [run.id for each in (manifest, *manifest.segments) for run in each.compacted]
        spec = u.CompactionSpec.TIERED(
            segment=tree.prefix if manifest.segments else b"",
            sources=_sources(views, sources),
            destination=sources[-1].id if sources else max(every_run, default=-1) + 1,
        )
        return await self.compacted(path, await self.submit(path, spec))

    async def drain(self, path: str, segment: bytes) -> str:
        """Ask for a segment to be emptied; gives the id of the job."""
        manifest = await self.admin(path).read_manifest(None)
        (tree,) = (each for each in manifest.segments if each.prefix == segment)
        spec = u.CompactionSpec.DRAIN_SEGMENT(segment=segment, sources=_sources(tree.l0, tree.compacted))
        return await self.submit(path, spec)

    async def submit(self, path: str, spec: Any) -> str:
        return str((await self.admin(path).submit_compaction(spec)).id)

    async def compacted(self, path: str, job: str) -> bool:
        """Wait until the compactor of a running writer has ended this job; whether that went well."""
        for _ in range(2000):
            found = await self.admin(path).read_compaction(job, None)
            # A job that has ended is forgotten when another ends after it.
            if found is None or found.status == u.CompactionStatus.COMPLETED:
                return True
            if found.status == u.CompactionStatus.FAILED:
                return False
            await asyncio.sleep(0.005)
        raise TimeoutError(f"compaction {job} of {path} has not ended")

    def _builder(self, path: str, compactor: bool, settings: dict[str, object]) -> Any:
        builder = u.DbBuilder(path, self.store)
        builder.with_settings(self._settings(compactor, settings))
        builder.with_sst_block_size(u.SstBlockSize(self.style.sst.block_size.bit_length() - 11))
        self._configure(builder)
        return builder

    def _configure(self, builder: Any) -> None:
        builder.with_merge_operator(_Merge())
        builder.with_filter_policies([policy(bloom) for bloom in self.style.sst.filters])
        if self.style.segments is not None:
            builder.with_segment_extractor(_Extractor(self.style.segments))

    def _settings(self, compactor: bool, others: dict[str, object]) -> Any:
        codec = _CODECS.get(self.style.sst.codec)
        values: dict[str, object] = {
            "flush_interval": "1ms",
            "wal_enabled": self.style.wal,
            "min_filter_keys": self.style.sst.min_filter_keys,
            "compression_codec": codec,
            # Without a compactor nobody would ever make room again.
            "l0_max_ssts": 1000,
            "l0_max_ssts_per_key": 1000,
            "garbage_collector_options": None,
        }
        if compactor:
            # It does what it is asked for, and nothing by itself; and it cuts its output often.
            values |= {
                "compactor_options.poll_interval": "5ms",
                "compactor_options.commit_compacted_interval": "5ms",
                "compactor_options.scheduler_options.min_compaction_sources": "1000",
                "compactor_options.scheduler_options.max_compaction_sources": "1000",
                "compactor_options.worker.compactions_poll_interval": "5ms",
                "compactor_options.worker.max_sst_size": 2 * self.style.sst.block_size,
                "compactor_options.worker.min_filter_keys": self.style.sst.min_filter_keys,
                "compactor_options.worker.compression_codec": codec,
            }
        else:
            values["compactor_options"] = None
        settings = u.Settings.default()
        for name, value in (values | others).items():
            settings.set(name, json.dumps(value))
        return settings


def _sources(views: Iterable[Any], runs: Iterable[Any]) -> list[Any]:
    return [*(u.SourceId.SST_VIEW(view.id) for view in views), *(u.SourceId.SORTED_RUN(run.id) for run in runs)]


def policy(bloom: Bloom) -> Any:
    options = u.BloomFilterOptions(bits_per_key=bloom.bits_per_key, whole_key_filtering=bloom.whole_keys)
    extractor = None if bloom.extractor is None else _Extractor(bloom.extractor)
    return u.FilterPolicy.bloom_with_options(options, extractor)


def key_range(keys: KeyRange) -> Any:
    return u.KeyRange(
        start=keys.start.key if keys.start.bounded else None,
        start_inclusive=keys.start.type is BoundType.INCLUDED,
        end=keys.end.key if keys.end.bounded else None,
        end_inclusive=keys.end.type is BoundType.INCLUDED,
    )


async def write(db: Any, operations: Iterable[Operation]) -> Commit:
    """One commit, as the original numbered and dated it."""
    batch = u.WriteBatch()
    for operation in operations:
        match operation.kind:
            case Kind.PUT:
                batch.put_with_options(operation.key, operation.value, u.PutOptions(ttl=_ttl(operation)))
            case Kind.MERGE:
                batch.merge_with_options(operation.key, operation.value, u.MergeOptions(ttl=_ttl(operation)))
            case Kind.DELETE:
                batch.delete(operation.key)
    done = await db.write(batch)
    return Commit(done.seqnum(), done.create_ts(), tuple(operations))


async def flush_wal(db: Any) -> None:
    """What was committed becomes durable."""
    await db.flush_with_options(u.FlushOptions(flush_type=u.FlushType.WAL))


async def flush(db: Any) -> None:
    """Everything to L0."""
    await db.flush_with_options(u.FlushOptions(flush_type=u.FlushType.MEM_TABLE))


async def scan(reader: Any, keys: KeyRange = ALL, *, descending: bool = False) -> list[Row]:
    options = u.ScanOptions(
        durability_filter=u.DurabilityLevel.MEMORY,
        dirty=False,
        read_ahead_bytes=1,
        cache_blocks=True,
        max_fetch_tasks=1,
        order=u.IterationOrder.DESCENDING if descending else u.IterationOrder.ASCENDING,
    )
    found = await reader.scan_with_options(key_range(keys), options)
    rows: list[Row] = []
    while batch := await found.next_batch(BATCH):
        rows += map(_row, batch)
    return rows


async def get(reader: Any, key: bytes) -> Row | None:
    found = await reader.get_key_value(key)
    return None if found is None else _row(found)


def _row(found: Any) -> Row:
    return Row(found.key, found.value, found.seq, found.create_ts, found.expire_ts)


def _ttl(operation: Operation) -> Any:
    return u.Ttl.NO_EXPIRY() if operation.expire_ts is None else u.Ttl.EXPIRE_AT_MILLIS(operation.expire_ts)


def plain(record: Any) -> Any:
    """A record of the original as dicts, lists and plain values, so that a difference shows where it is."""
    if isinstance(record, list):
        return [plain(each) for each in record]
    if isinstance(record, enum.Enum) or not hasattr(record, "__dict__"):
        return record
    return {"": type(record).__name__, **{name: plain(value) for name, value in vars(record).items()}}
