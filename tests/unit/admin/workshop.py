"""Databases made by hand, request by request: real SSTs and WAL files in a store in memory, on virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slate_engine.format.columns import HAS_CREATE, Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import ALL, KeyRange
from slate_engine.format.sst_build import build_sst
from slate_engine.format.wal import FENCE, build_wal_sst
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.runtime import Runtime
from slate_engine.state.commit import Versioned
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, TieredSpec
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.state.stores import CompactionsStore
from slate_engine.state.tree import SortedRun
from slate_engine.state.views import SstView, Views
from slate_engine.store.cost import Request, Tally
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import CREATE, ObjectStore

Values = dict[bytes, bytes]


class Database:
    """A database, and what its writer and its compactor would do to it, as separate steps."""

    def __init__(self, store: ObjectStore, runtime: Runtime, path: str = "db") -> None:
        self.store = store
        self.runtime = runtime
        self.path = path
        self.seq = 0

    @property
    def files(self) -> DatabaseFiles:
        """As a process sees it that has just started."""
        return DatabaseFiles(self.store, self.path, self.runtime)

    @property
    def books(self) -> CompactionsStore:
        return CompactionsStore.open(self.store, self.path, self.runtime)

    async def make(self) -> Database:
        await self.files.manifests.create_first(Manifest())
        return self

    async def manifest(self) -> Manifest:
        return (await self.files.manifests.read_latest()).value

    # --- the writer ----------------------------------------------------------------------------------------------

    def rows(self, values: Mapping[bytes, bytes]) -> Rows:
        self.seq += 1
        now = self.runtime.now_ms()
        return Rows.of([(key, value, self.seq, HAS_CREATE, now, 0) for key, value in sorted(values.items())])

    async def upload(self, rows: Rows, *, ms: int = 0) -> SstHandle:
        """An SST that is in no manifest yet."""
        built = build_sst(rows)
        id = Ulid.new(self.runtime, ms)
        await self.store.put(self.files.paths.compacted(id), built.tobytes())
        return SstHandle(id, built.info, built.version)

    async def publish(self, sst: SstHandle, seq: int, *, wal_id: int | None = None) -> Versioned[Manifest]:
        """Commit an SST to level 0."""
        view = Views.of([SstView(sst.id, sst)])

        def change(old: Manifest) -> Manifest:
            replayed = old.replay_after_wal_id if wal_id is None else wal_id
            return replace(
                old.with_root(old.root.with_l0(view)),
                last_l0_seq=max(old.last_l0_seq, seq),
                last_l0_clock_tick=max(old.last_l0_clock_tick, self.runtime.now_ms()),
                replay_after_wal_id=replayed,
                wal_id_last_seen=max(old.wal_id_last_seen, replayed),
            )

        return await self.files.manifests.update(change)

    async def flush(self, values: Mapping[bytes, bytes]) -> SstHandle:
        rows = self.rows(values)
        sst = await self.upload(rows)
        await self.publish(sst, self.seq)
        return sst

    async def log(self, id: int, values: Mapping[bytes, bytes] | None) -> None:
        """A WAL file; a fence if it has no values."""
        data = FENCE if values is None else build_wal_sst(self.rows(values)).tobytes()
        await self.store.put(self.files.paths.wal(id), data, CREATE)

    # --- the compactor -------------------------------------------------------------------------------------------

    async def begin_job(self) -> Ulid:
        await self.books.create_first(Compactions())
        job = Compaction(Ulid.new(self.runtime), TieredSpec((), (), 0), CompactionStatus.RUNNING)
        await self.books.update(lambda book: book.with_job(job))
        return job.id

    async def merged(self) -> tuple[SstHandle, Manifest]:
        """All rows of the newest state in one SST that is in no manifest yet; and the manifest that it was made from."""
        manifest = await self.manifest()
        snapshot = await self.files.at(manifest, manifest.replay_after_wal_id)
        rows = [row async for part in snapshot.scan(ALL) for row in part.tuples()]
        return await self.upload(Rows.of(rows)), manifest

    async def commit_job(self, output: SstHandle, made_from: Manifest, *, destination: int = 0) -> None:
        def change(old: Manifest) -> Manifest:
            views = [view.id for view in made_from.root.l0]
            tree = old.root.without_oldest_l0(len(views)).without_runs(run.id for run in made_from.root.runs)
            tree = tree.with_run(SortedRun(destination, Views.of([SstView(output.id, output)])))
            if views:
                tree = replace(tree, last_compacted_l0_view=views[0])
            return old.with_root(tree).with_external_ids_pruned()

        await self.files.manifests.update(change)

    async def end_job(self, job: Ulid) -> None:
        def change(book: Compactions) -> Compactions:
            found = book.job(job)
            assert found is not None
            return book.with_job(replace(found, status=CompactionStatus.COMPLETED)).pruned()

        await self.books.update(change)

    async def compact(self) -> SstHandle:
        job = await self.begin_job()
        output, made_from = await self.merged()
        await self.commit_job(output, made_from)
        await self.end_job(job)
        return output

    async def compact_nothing(self) -> None:
        """A job that begins and ends: from now on it is the oldest in the book."""
        await self.end_job(await self.begin_job())

    # --- looking -------------------------------------------------------------------------------------------------

    async def values(self, keys: KeyRange = ALL) -> Values:
        """What a reader that opens the database now sees."""
        return await scan(await self.files.latest(), keys)

    async def names(self, directory: str) -> list[str]:
        return await names(self.store, f"{self.path}/{directory}/")


async def scan(snapshot: Snapshot, keys: KeyRange = ALL) -> Values:
    return {row[0]: row[1] async for rows in snapshot.scan(keys) for row in rows.tuples()}


async def names(store: ObjectStore, prefix: str) -> list[str]:
    return [meta.key.rpartition("/")[2] async for page in store.list(prefix) for meta in page]


class CountingStore(MemoryStore):
    """Says how many requests it got."""

    def __init__(self, runtime: Runtime) -> None:
        self.tally = Tally()
        super().__init__(runtime, meter=self.tally)

    def take(self) -> dict[str, int]:
        """The requests since the last time, by kind, without those that were not made."""
        counted = {request.value: times for request, times in self.tally.requests.items() if times}
        self.tally.requests = dict.fromkeys(Request, 0)
        return counted
