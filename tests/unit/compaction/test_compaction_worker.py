"""A worker among others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction import book
from slate_engine.lsm.compaction.options import WorkerOptions
from slate_engine.lsm.compaction.worker import CompactionWorker
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    DrainSpec,
    Spec,
    TieredSpec,
    Worker,
)
from slate_engine.store.memory import MemoryStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.compaction.databases import MERGE_OPTIONS, Mortal, Scribe, book_of, open_files

SCHEDULED, RUNNING, COMPACTED = CompactionStatus.SCHEDULED, CompactionStatus.RUNNING, CompactionStatus.COMPACTED
OPTIONS = WorkerOptions(MERGE_OPTIONS, max_concurrent_compactions=2)


async def make(runtime: SimulatedRuntime, *, l0: int = 4) -> tuple[MemoryStore, DatabaseFiles]:
    store = MemoryStore(runtime)
    files = open_files(store, runtime)
    scribe = await Scribe(files).create()
    for _ in range(l0):
        await scribe.flush()
    return store, files


async def schedule(files: DatabaseFiles, *specs: Spec) -> list[Ulid]:
    """Jobs as a coordinator leaves them for workers."""
    await book_of(files).create_first(Compactions())
    ids = [Ulid.new(files.runtime, files.runtime.now_ms() + place) for place in range(len(specs))]

    def added(old: Compactions) -> Compactions:
        for id, spec in zip(ids, specs, strict=True):
            old = old.with_job(Compaction(id, spec, SCHEDULED))
        return old

    await book_of(files).update(added)
    return ids


async def everything(files: DatabaseFiles) -> TieredSpec:
    return TieredSpec(tuple((await files.manifest()).root.l0.ids), (), 0)


async def job_of(files: DatabaseFiles, id: Ulid) -> Compaction:
    found = (await book_of(files).read_latest()).value.job(id)
    assert found is not None
    return found


def crawling(store: MemoryStore, runtime: SimulatedRuntime, seconds: float) -> Mortal:
    mortal = Mortal(store, runtime)

    async def crawl(operation: str, key: str) -> None:
        if operation == "put_stream":
            await runtime.sleep(seconds)

    mortal.before = crawl
    return mortal


def test_claims_merges_and_says_what_it_wrote() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        _, files = await make(runtime)
        before = await files.manifest()
        worker = CompactionWorker(files, book_of(files), OPTIONS)
        assert await worker.claim() == 0, "there is no book yet"
        (id,) = await schedule(files, await everything(files))
        worker.start()
        await runtime.sleep(10)
        job = await job_of(files, id)
        assert job.status is COMPACTED
        assert len(job.outputs)
        assert job.worker is not None
        assert job.worker.id == worker.id
        assert await files.manifest() == before, "the manifest is not a worker's business"
        await worker.close()

    simulate(scenario, 1)


def test_a_worker_that_was_given_up_stops_and_does_not_interfere() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store, files = await make(runtime)
        (id,) = await schedule(files, await everything(files))
        mortal = crawling(store, runtime, 100)
        slow = open_files(mortal, runtime)
        worker = CompactionWorker(slow, book_of(slow), OPTIONS)
        worker.start()
        await runtime.sleep(12)
        assert (await job_of(files, id)).status is RUNNING
        other = Worker("other", runtime.now_ms())
        await book_of(files).update(lambda old: book.reclaim(old, now_ms=runtime.now_ms() + 60_000, timeout_ms=1))
        await book_of(files).update(lambda old: book.claim(old, other, 1, [id]))
        taken = await job_of(files, id)
        await runtime.sleep(30)
        requests = len(mortal.requests)
        await runtime.sleep(200)
        assert "put_stream" not in {operation for operation, _ in mortal.requests[requests:]}, "it has left off"
        assert await job_of(files, id) == taken
        await worker.close()
        assert await job_of(files, id) == taken

    simulate(scenario, 2)


def test_progress_is_told_with_every_heartbeat() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store, files = await make(runtime)
        (id,) = await schedule(files, await everything(files))
        slow = open_files(crawling(store, runtime, 25), runtime)
        options = replace(OPTIONS, merge=replace(MERGE_OPTIONS, max_sst_size=1))
        worker = CompactionWorker(slow, book_of(slow), options)
        worker.start()
        beats, outputs = [], []
        await runtime.sleep(1)
        for _ in range(4):
            await runtime.sleep(10)
            job = await job_of(files, id)
            assert job.worker is not None
            beats.append(job.worker.last_heartbeat_ms)
            assert job.context is not None
            outputs.append(sum(len(part.outputs) for part in job.context.subcompactions))
        assert beats == sorted(set(beats))
        assert outputs[0] == 0 < outputs[-1]
        assert outputs == sorted(outputs)
        await worker.close()
        left = await job_of(files, id)
        assert left.status is SCHEDULED
        assert left.context is not None, "others go on from here"

    simulate(scenario, 3)


def test_what_it_cannot_do_is_left_to_others() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store, files = await make(runtime)
        l0 = (await files.manifest()).root.l0.ids
        damaged = files.paths.compacted(l0[1])
        data = bytearray((await store.get(damaged)).data)
        data[9] ^= 4
        await store.put(damaged, bytes(data))
        gone, drain, corrupt = await schedule(
            files,
            TieredSpec((l0[0],), (), 1),
            DrainSpec(b"s", (l0[0],), ()),
            await everything(files),
        )
        worker = CompactionWorker(files, book_of(files), OPTIONS)
        worker.start()
        await runtime.sleep(120)
        for id in (gone, drain, corrupt):
            job = await job_of(files, id)
            assert (job.status, job.worker) == (SCHEDULED, None)
        # A coordinator that never looks at them again is not asked at every poll: each was claimed and released once.
        assert (await book_of(files).read_latest()).id <= 2 + 2 * 3
        await worker.close()

    simulate(scenario, 4)


@pytest.mark.parametrize(("ranges", "lanes"), [(1, 2), (3, 3)])
def test_many_jobs_take_turns_in_few_lanes(ranges: int, lanes: int) -> None:
    """However many jobs there are, no more ranges are under way than processors, and one to spare; or all of one job."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        store, files = await make(runtime)
        ids = await schedule(files, *[await everything(files) for _ in range(4)])
        uploads = most = 0
        mortal = Mortal(store, runtime)

        async def begin(operation: str, key: str) -> None:
            nonlocal uploads, most
            if operation == "put_stream":
                uploads += 1
                most = max(most, uploads)
                await runtime.sleep(1)

        async def end(operation: str, key: str) -> None:
            nonlocal uploads
            uploads -= operation == "put_stream"

        mortal.before, mortal.after = begin, end
        slow = open_files(mortal, runtime)
        merge = replace(MERGE_OPTIONS, max_sst_size=1 << 20, max_subcompactions=ranges)
        options = replace(OPTIONS, merge=merge, max_concurrent_compactions=4, max_threads=1)
        worker = CompactionWorker(slow, book_of(slow), options)
        assert await worker.claim() == 4
        await runtime.sleep(60)
        assert [(await job_of(files, id)).status for id in ids] == [COMPACTED] * 4
        assert most == lanes
        await worker.close()

    simulate(scenario, 5)
