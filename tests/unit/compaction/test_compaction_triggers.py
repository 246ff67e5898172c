"""Jobs that are wanted for what is in the rows: expired ones, and tombstones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.errors import InvalidError
from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, TOMBSTONE
from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction.census import Census
from slate_engine.lsm.compaction.compactor import EmbeddedCompactor
from slate_engine.lsm.compaction.plan import Major, SizeTiered
from slate_engine.lsm.compaction.specs import find_flaw
from slate_engine.lsm.compaction.triggers import Counts, Triggers
from slate_engine.lsm.row import Row
from slate_engine.state.compactions import Compactions, CompactionStatus, TieredSpec
from slate_engine.state.manifest import Manifest
from slate_engine.state.views import SstView, Views
from slate_engine.store.memory import MemoryStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.compaction.databases import OPTIONS, Scribe, compact, open_files, rows_of
from tests.unit.compaction.trees import book, job, l0_spec, manifest, runs_spec, tree, ulid, views

SECOND = 1000
WRITTEN = ulid(0).ms
"""When all SSTs of these trees were written."""
LAZY = SizeTiered(min_compaction_sources=99, max_compaction_sources=99)


def proposed(
    triggers: Triggers, state: Manifest, known: Compactions | None = None, counts: Mapping[Ulid, Counts] | None = None
) -> list[TieredSpec]:
    return [proposal.spec for proposal in triggers.propose(state, known or Compactions(), 10, counts or {})]


def at(state: Manifest, seconds: float) -> Manifest:
    return replace(state, last_l0_clock_tick=WRITTEN + int(seconds * SECOND))


# --- age -------------------------------------------------------------------------------------------------------------


def test_nothing_is_wanted_unless_asked_for() -> None:
    state = at(manifest(tree(l0=[1], runs=[(1, 9), (0, 9)])), 1e9)
    counts = {id: Counts(10, 10) for id in state.ssts.id}
    assert proposed(Triggers(), state, counts=counts) == []


def test_what_is_too_old_is_rewritten_down_to_the_oldest_run() -> None:
    state = manifest(tree(l0=[1, 1], runs=[(3, 9), (1, 9)]))
    assert proposed(Triggers(max_age=60), at(state, 60)) == []
    assert proposed(Triggers(max_age=60), at(state, 61)) == [TieredSpec(views(2, 1), (3, 1), 1)]
    assert proposed(Triggers(max_age=60), at(manifest(tree(runs=[(4, 9)])), 61)) == [runs_spec([4])]
    assert proposed(Triggers(max_age=60), at(manifest(tree(l0=[1, 1])), 61)) == [l0_spec([2, 1], 0)]


def test_young_sources_above_are_left_alone() -> None:
    state = manifest(tree(runs=[(0, 9)]))
    fresh = Ulid.of(WRITTEN + 100 * SECOND, 5)
    young = replace(next(iter(tree(l0=[1]).l0)).sst, id=fresh)
    state = state.with_root(state.root.with_l0(Views.of([SstView(fresh, young)])))
    assert proposed(Triggers(max_age=60), at(state, 130)) == [runs_spec([0])]


def test_work_that_is_under_way_is_not_crossed() -> None:
    state = at(manifest(tree(l0=[1, 1], runs=[(3, 9), (1, 9)])), 100)
    assert proposed(Triggers(max_age=60), state, book(job(1, runs_spec([3, 1])))) == []
    assert proposed(Triggers(max_age=60), state, book(job(1, l0_spec([1], 4)))) == []


# --- tombstones ------------------------------------------------------------------------------------------------------


def counted(state: Manifest, *of_runs: tuple[int, int]) -> dict[Ulid, Counts]:
    pairs = zip(state.root.runs, of_runs, strict=True)
    return {id: Counts(*counts) for run, counts in pairs for id in run.views.sst_ids}


def test_runs_with_many_tombstones_are_merged_with_all_below() -> None:
    state = manifest(tree(l0=[1], runs=[(5, 9), (4, 9), (2, 9)]))
    half = Triggers(max_tombstones=0.5)
    assert proposed(half, state, counts=counted(state, (100, 10), (100, 10), (100, 0))) == []
    assert proposed(half, state, counts=counted(state, (100, 0), (100, 90), (60, 0))) == [runs_spec([4, 2])]
    assert proposed(half, state, counts=counted(state, (100, 90), (100, 90), (60, 0))) == [runs_spec([5, 4, 2])]
    # A few tombstones above a large run are not worth writing it anew.
    assert proposed(half, state, counts=counted(state, (10, 10), (10, 10), (1000, 0))) == []


def test_the_oldest_run_keeps_tombstones_that_somebody_needs() -> None:
    """They have outlived a compaction, so another would change nothing: without this, it would go on for ever."""
    state = manifest(tree(runs=[(2, 9)]))
    assert proposed(Triggers(max_tombstones=0.1), state, counts=counted(state, (100, 100))) == []


@pytest.mark.parametrize("wrong", [{"max_age": 0}, {"max_tombstones": 0}, {"max_tombstones": 1.1}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidError):
        Triggers(**wrong)


@given(st.data())
def test_every_job_is_sound(data: st.DataObject) -> None:
    sizes = st.lists(st.integers(1, 50), max_size=6)
    runs = sorted(data.draw(st.sets(st.integers(0, 20), max_size=6)), reverse=True)
    state = manifest(tree(l0=data.draw(sizes), runs=[(id, 5) for id in runs]))
    state = at(state, data.draw(st.integers(0, 100)))
    counts = {id: Counts(10, data.draw(st.integers(0, 10))) for id in state.ssts.id}
    triggers = Triggers(max_age=data.draw(st.sampled_from([None, 50])), max_tombstones=0.4)
    known = Compactions()
    for number, proposal in enumerate(triggers.propose(state, known, 10, counts)):
        wanted = job(number + 1, proposal.spec, CompactionStatus.SCHEDULED)
        assert find_flaw(wanted, state, known) is None
        known = known.with_job(wanted)
        assert proposal.reason


# --- a compactor that has them ---------------------------------------------------------------------------------------


def test_expired_rows_go_although_nobody_writes_much() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        files = open_files(MemoryStore(runtime), runtime)
        scribe = await Scribe(files).create()
        now = runtime.now_ms()
        kept = Row(b"kept", b"v", 1, HAS_CREATE, now, 0)
        gone = Row(b"gone", b"v", 2, HAS_CREATE | HAS_EXPIRE, now, now + 5 * SECOND)
        await scribe.add([gone, kept])
        await compact(files, Major())
        options = replace(OPTIONS, policy=LAZY, triggers=Triggers(max_age=30))
        compactor = EmbeddedCompactor(open_files(files.store, runtime), options)
        await compactor.start()
        await runtime.sleep(20)
        assert [row.key for row in await rows_of(files)] == [b"gone", b"kept"]

        def later(old: Manifest) -> Manifest:
            return replace(old, last_l0_clock_tick=runtime.now_ms())

        await runtime.sleep(20)
        await files.manifests.update(later)
        await runtime.sleep(20)
        assert [row.key for row in await rows_of(files)] == [b"kept"]
        jobs = (await files.manifest()).root.runs[0].views.ids
        await runtime.sleep(25)
        assert (await files.manifest()).root.runs[0].views.ids == jobs, "it is not done again at once"
        await compactor.close()

    simulate(scenario, 1)


def test_tombstones_go_with_what_they_hide() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        files = open_files(MemoryStore(runtime), runtime)
        scribe = await Scribe(files).create()
        keys = [b"key%03d" % i for i in range(50)]
        await scribe.add([Row(key, b"v" * 20, 1, HAS_CREATE, 1, 0) for key in keys])
        await compact(files, Major())
        await scribe.add([Row(key, b"", 2, HAS_CREATE | TOMBSTONE, 2, 0) for key in keys[:45]])
        await compact(files, SizeTiered(min_compaction_sources=1))
        assert len((await files.manifest()).root.runs) == 2
        options = replace(OPTIONS, policy=LAZY, triggers=Triggers(max_tombstones=0.4))
        compactor = EmbeddedCompactor(open_files(files.store, runtime), options)
        await compactor.start()
        await runtime.sleep(20)
        await compactor.close()
        (run,) = (await files.manifest()).root.runs
        counts = await Census(files).of(await files.manifest())
        parts = [counts[id] for id in run.views.sst_ids]
        assert sum(each.rows for each in parts) == 5
        assert not any(each.tombstones for each in parts)
        assert [row.key for row in await rows_of(files)] == keys[45:]

    simulate(scenario, 2)


def test_statistics_that_cannot_be_read_stop_nothing() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        files = open_files(MemoryStore(runtime), runtime)
        scribe = await Scribe(files).create()
        await scribe.flush()
        await compact(files, Major())
        state = await files.manifest()
        first, *_ = state.root.runs[0].views
        path = files.paths.compacted(first.sst.id)
        data = bytearray((await files.store.get(path)).data)
        data[first.sst.info.stats_offset] ^= 1
        await files.store.put(path, bytes(data))
        counts = await Census(open_files(files.store, runtime)).of(state)
        assert counts[first.sst.id] == Counts(0, 0)
        assert len(counts) == len(state.root.runs[0].views)
        assert sum(each.rows for each in counts.values()) > 0

    simulate(scenario, 3)
