"""A compactor that dies at any request leaves a sound database, and the next one finishes what it began."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction.options import WorkerOptions
from slate_engine.lsm.compaction.plan import Major, SizeTiered
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.row import Row
from slate_engine.store.memory import MemoryStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.compaction.databases import (
    MERGE_OPTIONS,
    OPTIONS,
    WRITES,
    Mortal,
    Scribe,
    book_of,
    compact,
    open_files,
    rows_of,
)

POLICY = SizeTiered(min_compaction_sources=4)
FLUSHES = 5
MANY_OUTPUTS = replace(OPTIONS, worker=WorkerOptions(replace(MERGE_OPTIONS, max_sst_size=1), memory_bytes=1))


async def make(store: MemoryStore, runtime: SimulatedRuntime) -> list[Row]:
    scribe = await Scribe(open_files(store, runtime)).create()
    for _ in range(FLUSHES):
        await scribe.flush()
    await compact(scribe.files, Major())
    for _ in range(FLUSHES):
        await scribe.flush()
        await runtime.sleep(1)
    return await rows_of(scribe.files)


async def run_until_death(mortal: Mortal, runtime: SimulatedRuntime) -> None:
    """Whatever a dead process still tries does not get through, so it does not matter how it ends."""
    running = asyncio.ensure_future(compact(open_files(mortal, runtime), POLICY))
    await asyncio.wait([running], timeout=5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def check_sound(files: DatabaseFiles, expected: list[Row]) -> None:
    """Everything that the manifest shows is there, and readers see what they saw before."""
    for id in (await files.manifest()).ssts.id:
        await files.store.head(files.paths.compacted(id))
    assert await rows_of(files) == expected


async def orphans(files: DatabaseFiles) -> list[Ulid]:
    """SSTs that no manifest shows which is kept."""
    manifest = await files.manifest()
    kept = [manifest, *[await files.manifests.read(each.manifest_id) for each in manifest.checkpoints]]
    live = {id for each in kept for id in each.ssts.id}
    pages = [page async for page in files.store.list(files.paths.compacted_directory + "/")]
    found = [Ulid.parse(meta.key.rpartition("/")[2].removesuffix(".sst")) for page in pages for meta in page]
    return [id for id in found if id not in live]


async def dies(runtime: SimulatedRuntime, request: int, late: float, counts: frozenset[str] = WRITES) -> bool:
    """Kill a compactor after this many requests, of those that count; False if it did not make as many."""
    store = MemoryStore(runtime)
    expected = await make(store, runtime)
    mortal = Mortal(store, runtime, request, counts=counts, late=late)
    await run_until_death(mortal, runtime)
    fresh = open_files(store, runtime)
    await check_sound(fresh, expected)
    report = await compact(open_files(store, runtime), POLICY)
    assert not report.errors
    await runtime.sleep(late)
    await check_sound(open_files(store, runtime), expected)
    root = (await fresh.manifest()).root
    assert len(root.l0) < POLICY.min_compaction_sources
    assert len(root.runs) == 2
    book = (await book_of(fresh).read_latest()).value
    assert not [job for job in book.jobs if job.is_active]
    await check_orphans_can_be_collected(store, runtime)
    return mortal.dead


async def check_orphans_can_be_collected(store: MemoryStore, runtime: SimulatedRuntime) -> None:
    """Once the database has moved on, all that a crash left behind is older than what garbage collection goes by."""
    files = open_files(store, runtime)
    left = await orphans(files)
    await runtime.sleep(1)
    scribe = Scribe(files, seq=10_000)
    await scribe.flush()
    await runtime.sleep(1)
    await compact(files, Major())
    oldest_job, newest_l0 = (
        (await book_of(files).read_latest()).value.oldest_ms,
        (await files.manifest()).trees.newest_l0_ms,
    )
    assert oldest_job is not None
    assert newest_l0 is not None
    assert all(id.ms < min(oldest_job, newest_l0) for id in left)


@pytest.mark.parametrize("late", [0.0, 2.0, 45.0])
def test_death_after_every_write(late: float) -> None:
    request = 0
    alive = True
    while alive:
        request += 1
        alive = simulate(lambda runtime, n=request: dies(runtime, n, late), f"{request}/{late}")  # type: ignore[misc]
    # Epoch, book, name, job, claim, outputs, result, checkpoint, manifest, end: or this has tested little.
    assert request > 14


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("late", [0.0, 2.0, 45.0])
def test_death_after_every_request(late: float) -> None:
    request = 0
    alive = True
    while alive:
        request += 1
        alive = simulate(lambda runtime, n=request: dies(runtime, n, late, frozenset()), f"{request}/{late}")  # type: ignore[misc]
    assert request > 60


def test_a_job_that_was_left_is_gone_on_with_not_begun_again() -> None:
    """What a dead worker has stored, and told of in a heartbeat, is not merged a second time."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        store = MemoryStore(runtime)
        expected = await make(store, runtime)
        whole = Mortal(store, runtime)
        state = dict(store._objects), list(store._keys)
        await compact(open_files(whole, runtime), POLICY, MANY_OUTPUTS)
        outputs = [key for operation, key in whole.requests if operation == "put_stream"]
        assert len(outputs) > 4
        store._objects, store._keys = dict(state[0]), list(state[1])
        await _die_after_a_heartbeat(store, runtime)
        files = open_files(store, runtime)
        (job,) = [job for job in (await book_of(files).read_latest()).value.jobs if job.is_active]
        assert job.context is not None
        stored = sum(len(part.outputs) for part in job.context.subcompactions)
        assert stored > 0
        again = Mortal(store, runtime)
        await compact(open_files(again, runtime), POLICY, MANY_OUTPUTS)
        rest = [key for operation, key in again.requests if operation == "put_stream"]
        assert len(rest) <= len(outputs) - stored + len(job.context.subcompactions)
        await check_sound(open_files(store, runtime), expected)
        kept = set((await files.manifest()).ssts.id)
        assert all(id in kept for part in job.context.subcompactions for id in part.outputs.id)

    simulate(scenario, 1)


async def _die_after_a_heartbeat(store: MemoryStore, runtime: SimulatedRuntime) -> None:
    """Uploads become slow, so that a heartbeat comes in the middle; then the process dies."""
    mortal = Mortal(store, runtime)

    async def crawl(operation: str, key: str) -> None:
        if operation == "put_stream":
            await runtime.sleep(6)

    mortal.before = crawl
    running = asyncio.ensure_future(compact(open_files(mortal, runtime), POLICY, MANY_OUTPUTS))
    await asyncio.wait([running], timeout=11)
    assert not running.done()
    mortal.kill()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
