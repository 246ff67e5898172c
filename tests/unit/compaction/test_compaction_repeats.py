"""L0 views with the same id, as unions of SlateDB 0.17 have them: a job takes and removes all of them, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import KeyRange
from slate_engine.lsm.compaction import commit, result
from slate_engine.lsm.compaction.book import OURS
from slate_engine.lsm.compaction.execution import Execution
from slate_engine.lsm.compaction.inputs import Inputs, SourcesGone
from slate_engine.lsm.compaction.options import MergeOptions
from slate_engine.lsm.compaction.plan import Leveled, Major, Policy, SizeTiered
from slate_engine.lsm.compaction.resources import Resources
from slate_engine.lsm.compaction.result import movable, with_drain, with_move, with_result
from slate_engine.lsm.compaction.specs import find_flaw, input_bytes
from slate_engine.lsm.compaction.triggers import Triggers
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.compactions import (
    Compactions,
    CompactionStatus,
    Context,
    DrainSpec,
    Spec,
    Subcompaction,
    SubcompactionStatus,
    TieredSpec,
    Worker,
)
from slate_engine.state.invariants import InvalidManifest
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import Ssts
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import SstView, Views
from slate_engine.store.memory import MemoryStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.compaction.trees import book, handle, job, manifest, ulid, views

SUBMITTED, COMPACTED = CompactionStatus.SUBMITTED, CompactionStatus.COMPACTED
LOW, HIGH = KeyRange.half_open(None, b"m"), KeyRange.half_open(b"m", None)


def twins(numbers: list[int]) -> list[SstView]:
    """Views of the SSTs of these numbers, under the ids of the SSTs; the second one of an SST shows its upper half."""
    ids = views(*numbers)
    return [
        SstView(id, handle(number), HIGH if number in numbers[:place] else LOW)
        for place, (id, number) in enumerate(zip(ids, numbers, strict=True))
    ]


def state(numbers: list[int]) -> Manifest:
    run = SortedRun(0, Views.of_ssts(Ssts.of([handle(1000, 9)])))
    return manifest(Tree(Views.of(twins(numbers)), (run,)))


UNION = state([9, 4, 3, 2, 1, 4, 3, 2, 1])
"""Four SSTs of a parent twice, and one of the union's own writer."""
NESTED = state([9, 8, 2, 1, 2, 7, 1, 6, 5])
"""The last two have no twins; the four before them overlap."""


@pytest.mark.parametrize(
    ("policy", "taken"),
    [(SizeTiered(2, 2), 2), (SizeTiered(2, 3), 7), (SizeTiered(), 8), (Leveled(2), 9), (Major(), 9)],
)
def test_policies_take_all_views_of_an_id_or_none(policy: Policy, taken: int) -> None:
    (first, *_) = policy.propose(NESTED, Compactions(), 1)
    assert len(first.spec.l0_views) == taken
    assert find_flaw(job(50, first.spec, SUBMITTED), NESTED, book()) is None
    for numbers in ([9, 4, 3, 2, 1, 4, 3, 2, 1], [4, 3, 2, 1, 4, 3, 2, 1]):
        (first, *_) = policy.propose(state(numbers), Compactions(), 1)
        assert len(first.spec.l0_views) in (8, len(numbers), 9)
        assert find_flaw(job(50, first.spec, SUBMITTED), state(numbers), book()) is None


def test_triggers_too() -> None:
    """What is too old begins in the middle of the twins."""
    young = replace(handle(9), id=Ulid.of(1_700_000_009_000, 9))
    newest = [SstView(ulid(3), young, LOW), SstView(ulid(8), young, HIGH)]
    mixed = manifest(Tree(Views.of([*newest, SstView(ulid(1), handle(1)), SstView(ulid(3), handle(2))])))
    mixed = replace(mixed, last_l0_clock_tick=1_700_000_010_000)
    (proposal,) = Triggers(max_age=5.0).propose(mixed, Compactions(), 1, {})
    assert proposal.spec.l0_views == views(3, 8, 1, 3)
    assert find_flaw(job(50, proposal.spec, SUBMITTED), mixed, book()) is None


def part(of: Manifest, count: int) -> TieredSpec:
    return TieredSpec(tuple(of.root.l0.ids)[-count:], (), 7)


@pytest.mark.parametrize(("count", "wanted"), [(1, 8), (4, 8), (5, 8), (7, 8)])
def test_a_job_that_would_take_one_of_two_is_refused(count: int, wanted: int) -> None:
    spec = part(UNION, count)
    for status in CompactionStatus:
        found = find_flaw(job(50, spec, status), UNION, book())
        assert found is not None
        assert f"submit one with the {wanted} oldest views, not {count}" in found
    drained = manifest(s=UNION.root)
    found = find_flaw(job(50, DrainSpec(b"s", spec.l0_views, ()), SUBMITTED), drained, book())
    assert found is not None
    assert f"the {wanted} oldest views" in found
    assert find_flaw(job(50, part(UNION, wanted), SUBMITTED), UNION, book()) is None


def test_a_drain_names_an_id_as_often_as_it_is_there() -> None:
    drained = manifest(s=state([2, 1, 2, 1]).root)
    spec = DrainSpec(b"s", views(1, 2, 1, 2), ())
    assert find_flaw(job(50, spec, SUBMITTED), drained, book()) is None
    assert find_flaw(job(50, DrainSpec(b"s", views(2, 1), ()), SUBMITTED), drained, book()) is not None
    left = with_drain(drained, spec).trees.tree(b"s")
    assert left is not None
    assert (len(left.l0), [run.id for run in left.runs]) == (0, [0])


def test_a_worker_does_not_begin_it() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = MemoryStore(runtime)
        with pytest.raises(SourcesGone, match="the 8 oldest views"):
            Inputs.of(part(UNION, 4), UNION, lambda view: pytest.fail("nothing is read"), store)
        whole = Inputs.of(part(UNION, 8), UNION, lambda view: pytest.fail("nothing is read"), store)
        assert whole.l0 == 8

    simulate(scenario, 1)


def test_a_job_that_was_begun_before_is_not_committed() -> None:
    """By a compactor that did not mind: its book has it as running, and later as finished."""
    done = replace(job(50, part(UNION, 4), COMPACTED), outputs=Ssts.of([handle(77)]))
    manifest, outcome = commit._applied(UNION, [done], book(done))
    assert manifest is UNION
    assert outcome == {done.id: CompactionStatus.FAILED}


@pytest.mark.parametrize(
    ("worker", "taken"),
    [(None, False), (Worker("01KZZZZZZZZZZZZZZZZZZZZZZZ", 1), False), (Worker(OURS + "1", 1), True)],
)
def test_only_a_worker_of_ours_is_trusted_with_it(worker: Worker | None, taken: bool) -> None:
    """One of SlateDB 0.17 takes one view for all that have its id."""
    done = replace(job(50, part(UNION, 8), COMPACTED), outputs=Ssts.of([handle(77)]), worker=worker)
    manifest, outcome = commit._applied(UNION, [done], book(done))
    assert outcome == {done.id: CompactionStatus.COMPLETED if taken else CompactionStatus.FAILED}
    assert (manifest is not UNION) == taken
    # Where no id repeats, every worker is.
    distinct = replace(job(50, part(NESTED, 2), COMPACTED), outputs=Ssts.of([handle(77)]), worker=worker)
    assert commit._applied(NESTED, [distinct], book(distinct))[1] == {distinct.id: CompactionStatus.COMPLETED}


@pytest.mark.parametrize(("state", "count", "kept"), [(UNION, 8, False), (NESTED, 2, True)])
def test_what_another_worker_has_begun_is_not_gone_on_with(state: Manifest, count: int, kept: bool) -> None:
    """The ranges stay: Spark's executors get theirs like this."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        files = DatabaseFiles(MemoryStore(runtime), "db", runtime)
        halves = [
            Subcompaction(LOW, Ssts.of([handle(77)]), SubcompactionStatus.COMPLETED),
            Subcompaction(HIGH, Ssts.of([handle(78)]), SubcompactionStatus.IN_PROGRESS),
        ]
        running = replace(job(50, part(state, count)), context=Context(tuple(halves), 5))
        execution = Execution(files, running, state, MergeOptions(), Resources(1, 1 << 20, 1))
        left = halves if kept else [Subcompaction(LOW), Subcompaction(HIGH)]
        assert execution.context == Context(tuple(left), 5)

    simulate(scenario, 1)


def test_what_was_merged_is_what_goes() -> None:
    whole = part(UNION, 8)
    assert input_bytes(whole, UNION) == 8
    after = with_result(UNION, replace(job(50, whole, COMPACTED), outputs=Ssts.of([handle(77)]))).root
    assert list(after.l0) == list(UNION.root.l0)[:1]
    assert after.last_compacted_l0_view == UNION.root.l0[1].id
    assert [run.id for run in after.runs] == [7, 0]


def test_what_is_moved_is_what_goes() -> None:
    pair = state([1, 1])
    spec = part(pair, 2)
    assert movable(pair, spec) is not None
    after = with_move(pair, spec).root
    assert len(after.l0) == 0
    moved = after.run(7)
    assert moved is not None
    assert {*map(repr, moved.views)} == {*map(repr, pair.root.l0)}


def by_id(self: Tree, n: int) -> Tree:
    taken = {*self.l0[len(self.l0) - n :].ids}
    return replace(self, l0=Views.of(view for view in self.l0 if view.id not in taken))


def another(self: Tree, n: int) -> Tree:
    return replace(self, l0=self.l0[n:])


def too_few(self: Tree, n: int) -> Tree:
    return replace(self, l0=self.l0[: len(self.l0) - n + 1])


@pytest.mark.parametrize("removal", [by_id, another, too_few])
def test_a_commit_that_would_remove_other_views_fails(removal: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tree, "without_oldest_l0", removal)
    monkeypatch.setattr(result, "flaw_of_repeats", lambda tree, spec: None)
    spec = part(UNION, 4)
    done = replace(job(50, spec, COMPACTED), outputs=Ssts.of([handle(77)]))
    for attempt in (lambda: with_result(UNION, done), lambda: with_drain(UNION, DrainSpec(b"", spec.l0_views, ()))):
        with pytest.raises(InvalidManifest, match="other L0 views than it merged"):
            attempt()


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        (part(UNION, 4), "leave an L0 view with the id"),
        (replace(part(UNION, 8), l0_views=views(*range(20, 28))), "other L0 views"),
        (replace(part(UNION, 8), destination=0), "write over run 0"),
    ],
)
def test_a_commit_that_was_not_judged_fails(spec: Spec, match: str) -> None:
    with pytest.raises(InvalidManifest, match=match):
        with_result(UNION, replace(job(50, spec, COMPACTED), outputs=Ssts.of([handle(77)])))


def test_a_commit_that_would_remove_another_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tree, "without_runs", lambda self, ids: replace(self, runs=()))
    with pytest.raises(InvalidManifest, match="other sorted runs"):
        with_result(UNION, replace(job(50, part(UNION, 8), COMPACTED), outputs=Ssts.of([handle(77)])))
