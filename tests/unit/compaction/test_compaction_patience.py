"""Large jobs that a worker leaves to others, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from slate_engine.errors import InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction import book as steps
from slate_engine.lsm.compaction.compactor import EmbeddedCompactor
from slate_engine.lsm.compaction.options import WorkerOptions
from slate_engine.lsm.compaction.patience import Patience
from slate_engine.lsm.compaction.plan import Major, SizeTiered
from slate_engine.lsm.compaction.worker import CompactionWorker
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, TieredSpec, Worker
from slate_engine.store.memory import MemoryStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.compaction.databases import OPTIONS, Mortal, Scribe, book_of, compact, open_files, rows_of
from tests.unit.compaction.trees import book, manifest, runs_spec, tree

SCHEDULED, RUNNING = CompactionStatus.SCHEDULED, CompactionStatus.RUNNING
BEGIN = 1_700_000_000_000
SPEC, SMALL = runs_spec([5, 4]), runs_spec([3, 2])
STATE = manifest(tree(runs=[(5, 60), (4, 60), (3, 10), (2, 10)]))
LEAVING = WorkerOptions(max_job_bytes=100, leave_seconds=900.0)


@dataclass
class Clock:
    seconds: float = 0.0

    def now_ms(self) -> int:
        return BEGIN + int(self.seconds * 1000)


def at(seconds: float, number: int = 1, spec=SPEC, status=SCHEDULED, worker=None) -> Compaction:
    return Compaction(Ulid.of(BEGIN + int(seconds * 1000), number), spec, status, worker=worker)


def chosen(patience: Patience, *jobs: Compaction, at_large_one: bool = False) -> list[Compaction]:
    return patience.chosen(jobs, STATE, at_large_one=at_large_one)


def test_a_large_job_is_left_until_it_has_waited_long_enough() -> None:
    clock = Clock()
    patience = Patience(LEAVING, clock, "me")
    large, small = at(0), at(1, 2, SMALL)
    assert chosen(patience, large, small) == [small]
    clock.seconds = 899
    assert chosen(patience, large, small) == [small]
    assert chosen(Patience(LEAVING, clock, "me"), large) == []
    clock.seconds = 901
    assert chosen(patience, large, small) == [large, small]
    assert chosen(Patience(LEAVING, clock, "me"), large) == [large], "a restart does not prolong it"
    exactly = replace(LEAVING, max_job_bytes=120)
    assert chosen(Patience(exactly, Clock(), "me"), large) == [large]


def test_large_ones_are_taken_one_at_a_time() -> None:
    patience = Patience(LEAVING, Clock(2000), "me")
    first, second, small = at(0), at(1, 2), at(2, 3, SMALL)
    assert chosen(patience, first, second, small) == [first, small]
    assert chosen(patience, first, second, small, at_large_one=True) == [small]


def test_what_somebody_lost_waits_anew_but_once() -> None:
    clock = Clock()
    patience = Patience(LEAVING, clock, "me")
    waits, works = at(0), at(0, status=RUNNING, worker=Worker("spark", BEGIN))
    for seconds, seen, expected in [
        (10, works, None),
        (5000, works, None),
        (5030, waits, []),
        (5900, waits, []),
        (5901, works, None),
        (5920, waits, []),
        (5931, waits, [waits]),
    ]:
        clock.seconds = seconds
        patience.note(book(seen))
        if expected is not None:
            assert chosen(patience, seen) == expected, seconds
    assert chosen(Patience(LEAVING, Clock(5030), "me"), waits) == [waits], "one that has not seen it goes by its id"


def test_what_this_worker_puts_off_itself_does_not_wait_anew() -> None:
    clock = Clock(1000)
    patience = Patience(LEAVING, clock, "me")
    patience.note(book(at(0, status=RUNNING, worker=Worker("me", BEGIN))))
    patience.note(book(at(0)))
    assert chosen(patience, at(0)) == [at(0)]


@pytest.mark.parametrize(("seconds", "taken"), [(-1, False), (-899, False), (-901, True), (-1e9, True)])
def test_an_id_from_the_future_does_not_hold_a_job_back_for_ever(seconds: float, taken: bool) -> None:
    job = at(0)
    assert bool(chosen(Patience(LEAVING, Clock(seconds), "me"), job)) is taken


def test_what_has_ended_is_forgotten() -> None:
    patience = Patience(LEAVING, Clock(), "me")
    patience.note(book(at(0, status=RUNNING, worker=Worker("spark", BEGIN))))
    patience.note(book(at(0)))
    chosen(patience, at(0))
    patience.note(book())
    assert not patience._claimed | patience._lost.keys() | patience._told


def test_options_that_make_no_sense() -> None:
    for wrong in ({"max_job_bytes": -1}, {"leave_seconds": -1.0}):
        with pytest.raises(InvalidError):
            WorkerOptions(**wrong)


# --- a compactor that leaves large jobs ------------------------------------------------------------------------------

POLICY = SizeTiered(min_compaction_sources=3)


def leaving(limit: int, seconds: float, *, slots: int = 1) -> EmbeddedCompactor:
    assert OPTIONS.worker is not None
    worker = replace(OPTIONS.worker, max_job_bytes=limit, leave_seconds=seconds)
    return replace(OPTIONS, policy=POLICY, worker=worker, max_concurrent_compactions=slots)


async def make(runtime: SimulatedRuntime) -> tuple[DatabaseFiles, Scribe]:
    """A tree with one large job to do, and a segment for small ones."""
    files = open_files(MemoryStore(runtime), runtime)
    scribe = await Scribe(files).create()
    for _ in range(3):
        await scribe.flush(keys=90)
    for _ in range(3):
        await scribe.flush(keys=5, segment=b"s")
    return files, scribe


async def jobs(files: DatabaseFiles) -> list[Compaction]:
    return [job for job in (await book_of(files).read_latest()).value.jobs if job.is_active]


async def l0(files: DatabaseFiles, segment: bytes = b"") -> int:
    found = (await files.manifest()).trees.tree(segment)
    assert found is not None
    return len(found.l0)


async def compact_segment(files: DatabaseFiles) -> None:
    """So that the root alone has anything to do."""
    await compact(files, Major(segments=frozenset({b"s"})))


async def large_bytes(files: DatabaseFiles) -> int:
    """More than any job of the segment reads, and less than that of the root."""
    return sum(int(size) for size in (await files.manifest()).root.l0.sizes) // 2


def test_small_jobs_go_on_beside_a_large_one_that_waits_and_then_it_is_done_after_all() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        files, scribe = await make(runtime)
        before = await rows_of(files)
        compactor = EmbeddedCompactor(files, leaving(await large_bytes(files), 900.0))
        await compactor.start()
        await runtime.sleep(60)
        assert (await l0(files), await l0(files, b"s")) == (3, 0)
        (left,) = await jobs(files)
        assert (left.status, left.worker, left.spec.segment) == (SCHEDULED, None, b"")
        for _ in range(3):
            await scribe.flush(keys=5, segment=b"s")
            before = await rows_of(files)
        await runtime.sleep(60)
        assert (await l0(files), await l0(files, b"s")) == (3, 0), "the only slot is not the large one's"
        await runtime.sleep(770)
        assert [job.id for job in await jobs(files)] == [left.id], "it is the same job all the time"
        await runtime.sleep(30)
        assert (await l0(files), await jobs(files)) == (0, [])
        assert await rows_of(files) == before
        await compactor.close()

    simulate(scenario, 1)


def test_a_restart_of_the_compactor_does_not_prolong_the_wait() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        files, _ = await make(runtime)
        await compact_segment(files)
        for seconds, expected in [(300, 3), (300, 3), (290, 3), (30, 0)]:
            compactor = EmbeddedCompactor(files, leaving(await large_bytes(files), 900.0))
            await compactor.start()
            await runtime.sleep(seconds)
            assert await l0(files) == expected
            await compactor.close()

    simulate(scenario, 4)


def test_what_a_worker_for_large_jobs_lost_is_left_once_more() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        files, _ = await make(runtime)
        compactor = EmbeddedCompactor(files, leaving(await large_bytes(files), 900.0))
        await compactor.start()
        await runtime.sleep(30)
        (left,) = await jobs(files)

        def claimed(old: Compactions) -> Compactions:
            return steps.claim(old, Worker("spark", runtime.now_ms()), 1, [left.id])

        await book_of(files).update(claimed)
        for _ in range(200):
            await runtime.sleep(10)
            beat = Worker("spark", runtime.now_ms())
            await book_of(files).update(lambda old, beat=beat: steps.heartbeat(old, beat, {left.id: None}))
        assert [job.status for job in await jobs(files)] == [RUNNING]
        await runtime.sleep(60)
        assert [job.worker for job in await jobs(files)] == [None], "the dead one has lost it"
        await runtime.sleep(800)
        assert [job.worker for job in await jobs(files)] == [None], "and another may come"
        await runtime.sleep(100)
        assert (await l0(files), await jobs(files)) == (0, [])
        await compactor.close()

    simulate(scenario, 2)


def test_a_job_that_comes_between_the_look_and_the_claim_is_not_taken_unweighed() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = MemoryStore(runtime)
        files = open_files(store, runtime)
        scribe = await Scribe(files).create()
        await scribe.flush()
        large = Compaction(Ulid.new(runtime), TieredSpec(tuple((await files.manifest()).root.l0.ids), (), 0), SCHEDULED)
        await book_of(files).create_first(Compactions())
        # Something small, so that the worker has a manifest to read; and the large one is entered while it does.
        small = Compaction(Ulid.new(runtime), TieredSpec((), (7,), 7), SCHEDULED)
        await book_of(files).update(lambda old: old.with_job(small))
        mortal = Mortal(store, runtime)

        async def enter(operation: str, key: str) -> None:
            if "/manifest/" in key:
                mortal.before = None
                await book_of(files).update(lambda old: old.with_job(large))

        mortal.before = enter
        slow = open_files(mortal, runtime)
        assert OPTIONS.worker is not None
        worker = CompactionWorker(slow, book_of(slow), replace(OPTIONS.worker, max_job_bytes=1))
        await worker.claim()
        assert mortal.before is None
        found = (await book_of(files).read_latest()).value.job(large.id)
        assert (found, worker.progress.jobs) == (large, 0)
        await worker.close()

    simulate(scenario, 3)
