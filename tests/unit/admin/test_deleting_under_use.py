"""A database is deleted for good while processes use it. Each of them notices, none acknowledges a write into nothing, and
nothing of what they had on their way is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slate_engine.admin.deletion import Deletion
from slate_engine.admin.destroying import destroy_hard, destroy_softly, objects_of
from slate_engine.errors import ClosedError, CloseReason, DatabaseDeleted, Error, Fenced
from slate_engine.gc.loop import collect_forever
from slate_engine.gc.options import GcOptions, Task
from slate_engine.gc.report import Report
from slate_engine.lsm.commit import Change
from slate_engine.lsm.compaction.compactor import EmbeddedCompactor
from slate_engine.lsm.compaction.options import CompactorOptions, WorkerOptions
from slate_engine.lsm.compaction.plan import SizeTiered
from slate_engine.lsm.compaction.worker import CompactionWorker
from slate_engine.lsm.fencing import close_log
from slate_engine.lsm.reader import Reader, ReaderOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import wal_ids
from slate_engine.lsm.tenure import Tenure
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.commit import NothingStored
from slate_engine.state.destroy import LINGER, claimed_for_deletion
from slate_engine.state.stores import CompactionsStore
from slate_engine.store.boundary import BoundaryLost
from slate_engine.store.files import FileStore
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import ObjectStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.gc.stalling import StallingStore

BLIND = WriterOptions(manifest_poll_interval=1e6)
"""It does not look by itself."""
DAY = 86_400.0


class Stage:
    """A bucket with one database in it, and what a test does to that."""

    def __init__(self, runtime: SimulatedRuntime, bucket: ObjectStore, bounded: bool) -> None:
        self.runtime = runtime
        self.bucket = bucket
        self.bounded = bounded
        self.acknowledged: list[float] = []

    def files(self, store: Any = None) -> DatabaseFiles:
        return DatabaseFiles(store or self.bucket, "db", self.runtime)

    async def fill(self) -> None:
        """With an SST, and with a boundary if ``bounded``."""
        writer = await Writer.open(self.files(), WriterOptions())
        for number in range(3):
            await self.put(writer, b"%d" % number)
            await writer.flush_memtable()
        await writer.close()
        if self.bounded:
            await self.files().manifests.objects.advance_boundary(2)
        self.acknowledged.clear()

    async def put(self, writer: Writer, key: bytes) -> None:
        await (await writer.write([Change(key, b"value")])).durable()
        self.acknowledged.append(self.runtime.monotonic())

    async def deleted(self) -> tuple[float, float]:
        """Delete it; gives when the first object was deleted, and when all were."""
        times: list[float] = []
        await destroy_hard(self.files(), lambda keys: times.append(self.runtime.monotonic()))
        return times[0], self.runtime.monotonic()

    async def delete_under(self, store: StallingStore, held: str, work: Callable[[], Awaitable[object]]) -> None:
        """Delete it while the first request for a key with ``held`` is under way. The work must fail."""
        store.stall(lambda key: held in key)
        working = asyncio.ensure_future(work())
        await store.stalled.wait()
        await self.deleted()
        store.go_on()
        with pytest.raises(DatabaseDeleted):
            await working

    async def check_nothing_is_left(self) -> None:
        # Whatever ends because of it, ends in this time.
        await self.runtime.sleep(60)
        assert [meta.key async for page in self.bucket.list("") for meta in page] == []
        with pytest.raises(NothingStored):
            await self.files().manifests.read_latest()


Scenario = Callable[[Stage], Awaitable[None]]


@pytest.fixture(params=["memory", "files"])
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Scenario, bool], None]:
    def played(scenario: Scenario, bounded: bool) -> None:
        async def run(runtime: SimulatedRuntime) -> None:
            bucket: ObjectStore = MemoryStore(runtime) if request.param == "memory" else FileStore(tmp_path, runtime)
            stage = Stage(runtime, bucket, bounded)
            await stage.fill()
            await scenario(stage)
            await stage.check_nothing_is_left()

        simulate(run, 1)

    return played


Play = Callable[[Scenario, bool], None]
both = pytest.mark.parametrize("bounded", [False, True], ids=["without a boundary", "with a boundary"])


def ended(writer: Writer) -> None:
    assert isinstance(writer.error, DatabaseDeleted), writer.error
    assert writer.error.reason is CloseReason.FENCED
    assert "the database at 'db' was deleted" in writer.error.message


# --- writers ---------------------------------------------------------------------------------------------------------


@both
def test_an_idle_writer_notices_by_itself(play: Play, bounded: bool) -> None:
    async def scenario(stage: Stage) -> None:
        writer = await Writer.open(stage.files(), WriterOptions())
        await stage.deleted()
        ended(writer)
        with pytest.raises(DatabaseDeleted):
            await writer.write([Change(b"late", b"")])

    play(scenario, bounded)


@both
def test_a_writer_that_has_not_looked_looks_before_it_acknowledges(play: Play, bounded: bool) -> None:
    async def scenario(stage: Stage) -> None:
        writer = await Writer.open(stage.files(), BLIND)
        await stage.deleted()
        for _ in range(3):
            with pytest.raises(DatabaseDeleted):
                await stage.put(writer, b"late")
        assert stage.acknowledged == []
        ended(writer)

    play(scenario, bounded)


@both
@pytest.mark.parametrize("options", [WriterOptions(), BLIND, WriterOptions(max_parallel_writes=4)])
def test_a_writer_at_work(play: Play, bounded: bool, options: WriterOptions) -> None:
    """What is asked for when the first object is deleted is not acknowledged: the log is closed by then."""

    async def scenario(stage: Stage) -> None:
        writer = await Writer.open(stage.files(), options)
        asked: list[float] = []

        async def write() -> None:
            while True:
                asked.append(now := stage.runtime.monotonic())
                await stage.put(writer, b"k")
                acknowledged.append(now)
                await stage.runtime.sleep(stage.runtime.uniform(0, 0.02))

        acknowledged: list[float] = []
        writing = [asyncio.ensure_future(write()) for _ in range(3)]
        await stage.runtime.sleep(3)
        first, _ = await stage.deleted()
        for each in await asyncio.gather(*writing, return_exceptions=True):
            assert isinstance(each, DatabaseDeleted)
        assert len(acknowledged) > 100
        assert max(acknowledged) < first

    play(scenario, bounded)


@both
@pytest.mark.parametrize("options", [WriterOptions(), BLIND])
def test_a_wal_file_that_arrives_when_all_is_gone(play: Play, bounded: bool, options: WriterOptions) -> None:
    async def scenario(stage: Stage) -> None:
        store = StallingStore(stage.bucket)  # type: ignore[arg-type]
        writer = await Writer.open(stage.files(store), options)
        await stage.delete_under(store, "/wal/", lambda: stage.put(writer, b"late"))
        ended(writer)

    play(scenario, bounded)


@both
@pytest.mark.parametrize("held", ["/compacted/", "/manifest/"])
@pytest.mark.parametrize("options", [BLIND, WriterOptions(wal_enabled=False, manifest_poll_interval=1e6)])
def test_a_flush_that_arrives_when_all_is_gone(play: Play, bounded: bool, held: str, options: WriterOptions) -> None:
    async def scenario(stage: Stage) -> None:
        store = StallingStore(stage.bucket)  # type: ignore[arg-type]
        writer = await Writer.open(stage.files(store), options)
        await writer.write([Change(b"k", b"v")])
        await stage.delete_under(store, held, writer.flush_memtable)
        ended(writer)

    play(scenario, bounded)


def test_a_commit_that_arrives_where_a_new_database_is(play: Play) -> None:
    """The path is used again. The old writer, which has slept, takes nothing of that for its own, and leaves it alone."""

    async def scenario(stage: Stage) -> None:
        old = await Writer.open(stage.files(), BLIND)
        await stage.deleted()
        new = await Writer.open(stage.files(), WriterOptions())
        for number in range(7):
            await stage.put(new, b"%d" % number)
            await new.flush_memtable()
        with pytest.raises(DatabaseDeleted):
            await stage.put(old, b"late")
        await stage.put(new, b"last")
        assert await (await stage.files().latest()).get(b"late") is None
        await new.close()
        await stage.deleted()

    play(scenario, False)


@pytest.mark.parametrize("flushes", [1, 7], ids=["as many manifests", "more manifests"])
def test_a_process_that_sleeps_until_the_next_database_has_a_boundary(play: Play, flushes: int) -> None:
    """The boundary that it has seen is not missing, but it is the next database's."""

    async def scenario(stage: Stage) -> None:
        old = await Writer.open(stage.files(), BLIND)
        reader = await Reader.latest(stage.files(), ReaderOptions(poll_interval=1e6))
        await stage.deleted()
        # No epoch tells the two databases apart.
        for _ in range(old.epoch - 1):
            await (await Writer.open(stage.files(), WriterOptions())).close()
        new = await Writer.open(stage.files(), WriterOptions())
        for number in range(flushes):
            await stage.put(new, b"%d" % number)
            await new.flush_memtable()
        assert new.epoch == old.epoch
        await stage.files().manifests.objects.advance_boundary(3)
        await stage.runtime.sleep(61)
        with pytest.raises(DatabaseDeleted):
            await stage.put(old, b"late")
        with pytest.raises(DatabaseDeleted):
            await reader.refresh()
        assert await (await stage.files().latest()).get(b"late") is None
        await stage.put(new, b"last")
        await new.close()
        await stage.deleted()

    play(scenario, True)


def test_a_writer_whose_epoch_is_not_known_to_the_manifest_stops(play: Play) -> None:
    """The next database has come past every manifest that the writer remembers, and has given out fewer epochs."""

    async def scenario(stage: Stage) -> None:
        old = await Writer.open(stage.files(), BLIND)
        remembered = (await stage.files().manifests.read_latest()).id
        await stage.deleted()
        new = await Writer.open(stage.files(), WriterOptions())
        for _ in range(remembered):
            await new.update_manifest(lambda manifest: replace(manifest))
        await stage.files().manifests.objects.advance_boundary(remembered)
        assert new.epoch < old.epoch
        await stage.runtime.sleep(61)
        with pytest.raises(Fenced, match="another database was made"):
            await stage.put(old, b"late")
        await stage.put(new, b"last")
        await new.close()
        await stage.deleted()

    play(scenario, True)


@both
def test_objects_that_are_gone_without_a_word(play: Play, bounded: bool) -> None:
    """As after `rm -r`: one poll later every process knows."""

    async def scenario(stage: Stage) -> None:
        writer = await Writer.open(stage.files(), WriterOptions(manifest_poll_interval=2.0))
        reader = await Reader.latest(stage.files(), ReaderOptions(poll_interval=2.0))
        await stage.runtime.sleep(5)
        await stage.bucket.delete(await objects_of(stage.files()))
        await stage.runtime.sleep(3)
        ended(writer)
        with pytest.raises(ClosedError, match="the database at 'db' was deleted"):
            reader.snapshot()

    play(scenario, bounded)


# --- the others ------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("kind", [Reader.latest, Reader.managed])
def test_a_reader(play: Play, bounded: bool, kind: Callable[..., Awaitable[Reader]]) -> None:
    async def scenario(stage: Stage) -> None:
        reader = await kind(stage.files(), ReaderOptions(poll_interval=10.0, checkpoint_lifetime=30.0))
        assert await reader.snapshot().get(b"1") is not None
        if kind == Reader.managed:
            # Its checkpoint keeps the database while it runs; deleting that comes first, as the refusal says.
            await stage.files().manifests.update(lambda old: replace(old, checkpoints=()))
        await stage.deleted()
        await stage.runtime.sleep(11)
        with pytest.raises(ClosedError, match="the database at 'db' was deleted"):
            reader.snapshot()
        assert reader._poller is not None
        assert reader._poller.done()
        await reader.close()

    play(scenario, bounded)


@both
def test_a_writer_that_missed_the_last_manifests(play: Play, bounded: bool) -> None:
    """The manifests after the one that it remembers are deleted before it looks again."""

    async def scenario(stage: Stage) -> None:
        writer = await Writer.open(stage.files(), WriterOptions())
        await stage.runtime.sleep(1.5)
        for _ in range(2):
            await stage.files().manifests.update(
                lambda old: replace(old, last_l0_clock_tick=old.last_l0_clock_tick + 1)
            )
        deleting = asyncio.ensure_future(stage.deleted())
        await stage.runtime.sleep(1)
        assert isinstance(writer.error, DatabaseDeleted)
        assert not deleting.done()
        await deleting

    play(scenario, bounded)


@both
def test_a_worker_that_waits_for_jobs(play: Play, bounded: bool) -> None:
    async def scenario(stage: Stage) -> None:
        failures: list[Error] = []
        planner = EmbeddedCompactor(stage.files(), CompactorOptions(worker=None), failed=failures.append)
        await planner.start()
        files = stage.files()
        books = CompactionsStore.open(files.store, "db", stage.runtime)
        if bounded:
            await CompactionsStore.open(files.store, "db", stage.runtime).objects.advance_boundary(1)
        worker = CompactionWorker(files, books, WorkerOptions(compactions_poll_interval=1.0), failed=failures.append)
        worker.start()
        await stage.runtime.sleep(20)
        deleting = asyncio.ensure_future(stage.deleted())
        await stage.runtime.sleep(LINGER - 1)
        assert [type(each) for each in failures] == [DatabaseDeleted] * 2
        assert not deleting.done()
        await deleting
        await planner.close()
        await worker.close()

    play(scenario, bounded)


@both
@pytest.mark.parametrize("merging", [False, True], ids=["idle", "merging"])
@pytest.mark.parametrize("embedded", [False, True], ids=["worker", "compactor"])
def test_a_compactor(play: Play, bounded: bool, merging: bool, embedded: bool) -> None:
    async def scenario(stage: Stage) -> None:
        store = StallingStore(stage.bucket)  # type: ignore[arg-type]
        failures: list[Error] = []
        policy = SizeTiered(min_compaction_sources=2) if merging else SizeTiered()
        planner = EmbeddedCompactor(
            stage.files(store if embedded else None),
            CompactorOptions(policy=policy, worker=WorkerOptions() if embedded else None),
            failed=failures.append,
        )
        if merging:
            store.stall(lambda key: "/compacted/" in key)
        await planner.start()
        worker: CompactionWorker | None = None
        if not embedded:
            files = stage.files(store)
            books = CompactionsStore.open(files.store, "db", stage.runtime)
            worker = CompactionWorker(files, books, WorkerOptions(), failed=failures.append)
            worker.start()
        if merging:
            await store.stalled.wait()
        else:
            await stage.runtime.sleep(20)
        await stage.deleted()
        store.go_on()
        await stage.runtime.sleep(20)
        assert [type(each) for each in failures] == [DatabaseDeleted] * (1 if embedded else 2)
        for each in (planner, worker):
            if each is not None:
                await each.close()

    play(scenario, bounded)


@both
def test_a_collector(play: Play, bounded: bool) -> None:
    async def scenario(stage: Stage) -> None:
        reports: list[Report] = []
        every = Task(interval=7.0, min_age=DAY)
        options = GcOptions(manifests=every, wal=every, compacted=every, compactions=every, checkpoints=every)
        collecting = asyncio.ensure_future(collect_forever(stage.files(), options, reports.append))
        await stage.runtime.sleep(20)
        await stage.deleted()
        await asyncio.wait_for(collecting, 20)
        assert reports[-1].gone
        assert [report.errors for report in reports] == [[]] * len(reports)

    play(scenario, bounded)


# --- the deletion itself ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def timed(runtime: SimulatedRuntime) -> AsyncIterator[list[float]]:
    began, taken = runtime.monotonic(), []
    yield taken
    taken.append(runtime.monotonic() - began)


def test_it_waits_only_for_processes_that_may_be_there() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        async def database() -> Stage:
            stage = Stage(runtime, MemoryStore(runtime), False)
            await stage.fill()
            return stage

        stage = await database()
        async with timed(runtime) as at_once:
            await destroy_hard(stage.files())
        assert LINGER <= at_once[0] < LINGER + 1
        stage = await database()
        await destroy_softly(stage.files())
        await runtime.sleep(2)
        async with timed(runtime) as soon:
            await destroy_hard(stage.files())
        assert soon[0] >= LINGER
        stage = await database()
        await destroy_softly(stage.files())
        await runtime.sleep(LINGER + 2)
        async with timed(runtime) as later:
            await destroy_hard(stage.files())
        assert later[0] < 1

    simulate(scenario, 1)


def test_the_log_and_the_epochs_are_fenced_before_the_first_object_goes() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        stage = Stage(runtime, MemoryStore(runtime), False)
        await stage.fill()
        writer = await Writer.open(stage.files(), BLIND)
        before = (await stage.files().manifests.read_latest()).value
        looked: list[bool] = []

        async def look() -> None:
            marked = (await stage.files().manifests.read_latest()).value
            assert marked.writer_epoch == before.writer_epoch + 1
            assert marked.compactor_epoch == before.compactor_epoch + 1
            with pytest.raises(Fenced):
                await stage.put(writer, b"late")
            looked.append(True)

        delete, bucket = stage.bucket.delete, stage.bucket

        async def after_a_look(keys: Any) -> None:
            if not looked:
                await look()
            await delete(keys)

        bucket.delete = after_a_look  # type: ignore[method-assign]
        await destroy_hard(stage.files())
        assert looked

    simulate(scenario, 1)


def test_a_boundary_that_is_lost_is_no_deletion() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        stage = Stage(runtime, MemoryStore(runtime), True)
        await stage.fill()
        files = stage.files()
        await files.manifests.read_latest()
        await stage.bucket.delete(["db/gc/manifest.boundary"])
        with pytest.raises(BoundaryLost):
            await files.manifests.read_latest()
        with suppress(Error):
            await files.manifests.read_latest()
        assert [entry.id for entry in await files.manifests.objects.list()]

    simulate(scenario, 1)


def test_a_deletion_that_is_repeated_keeps_the_end_of_the_log(play: Play) -> None:
    """An attempt that was interrupted has closed the log. If the next one swept that away, a writer that looked before the
    mark was there could store a file, and acknowledge it."""

    async def scenario(stage: Stage) -> None:
        await stage.fill()
        files = stage.files()
        marked = await files.manifests.update(lambda old: claimed_for_deletion(old, now_ms=files.runtime.now_ms()))
        tenure = Tenure(files, marked.value.writer_epoch)
        closed = await close_log(tenure)
        assert closed
        again = Deletion(files, lambda keys: None)
        await again.close(marked.value)
        await again.sweep()
        left = set(await wal_ids(files.log_store, files.paths, 0))
        assert left
        assert max(left) >= max(closed)
        await again.finish()
        await stage.check_nothing_is_left()

    play(scenario, False)
