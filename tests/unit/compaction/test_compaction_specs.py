"""Jobs that must not be done, and what a finished one makes of a manifest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slate_engine.format.ids import Ids
from slate_engine.format.key_range import KeyRange
from slate_engine.lsm.compaction.result import has_result, movable, with_drain, with_move, with_result
from slate_engine.lsm.compaction.specs import describe, find_flaw, input_bytes, is_deepest
from slate_engine.runtime import SystemRuntime, uuid4
from slate_engine.state.compactions import Compactions, CompactionStatus, DrainSpec, Spec, TieredSpec
from slate_engine.state.manifest import ExternalDb, Manifest
from slate_engine.state.ssts import Ssts
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import SstView, Views
from tests.unit.compaction.trees import book, handle, job, l0_spec, manifest, runs_spec, tree, ulid, views

SUBMITTED, COMPACTED = CompactionStatus.SUBMITTED, CompactionStatus.COMPACTED
STATE = manifest(tree(l0=[1] * 4, runs=[(5, 9), (4, 9), (2, 9)]), s=tree(l0=[1], runs=[(7, 9)], at=50))


def flaw(spec: Spec, status: CompactionStatus = SUBMITTED, known: Compactions | None = None) -> str | None:
    return find_flaw(job(9, spec, status), STATE, known or book())


@pytest.mark.parametrize(
    "spec",
    [
        l0_spec([2, 1], 8),
        l0_spec([4, 3, 2, 1], 8),
        l0_spec([51], 8, b"s"),
        runs_spec([5, 4]),
        runs_spec([4]),
        runs_spec([7], b"s"),
        TieredSpec(views(1), (5, 4), 4),
        DrainSpec(b"s", views(51), (7,)),
        DrainSpec(b"s", (), (7,)),
    ],
)
def test_sound_jobs(spec: Spec) -> None:
    assert flaw(spec) is None


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (TieredSpec((), (), 8), "no sources"),
        (l0_spec([51], 8, b"x"), "no segment"),
        (l0_spec([4, 3], 8), "not the oldest"),
        (l0_spec([1, 2], 8), "not the oldest"),
        (l0_spec([99], 8), "not the oldest"),
        (l0_spec([51], 8), "not the oldest"),
        (runs_spec([5, 2]), "not neighbours"),
        (TieredSpec((), (4, 5), 4), "not neighbours"),
        (runs_spec([3]), "does not exist"),
        (runs_spec([7]), "does not exist"),
        (TieredSpec(views(1), (4, 2), 2), "lies between"),
        (TieredSpec((), (5, 4), 5), "not its oldest run"),
        (l0_spec([1], 4), "exists already"),
        (l0_spec([1], 7), "exists already"),
        (l0_spec([1], 6), "greater number"),
        (DrainSpec(b"s", views(99), ()), "not the oldest"),
        (DrainSpec(b"s", (), (5,)), "does not exist"),
    ],
)
def test_flawed_jobs(spec: Spec, reason: str) -> None:
    assert reason in (flaw(spec) or "")


@pytest.mark.parametrize("status", [CompactionStatus.SCHEDULED, CompactionStatus.RUNNING, COMPACTED])
def test_a_job_that_was_found_sound_may_find_greater_runs_in_other_trees_only(status: CompactionStatus) -> None:
    assert flaw(l0_spec([1], 6), status) is None
    assert "greater number" in (flaw(l0_spec([1], 3), status) or "")


def test_of_two_jobs_that_want_the_same_the_one_that_is_further_goes_on() -> None:
    mine, other = l0_spec([1], 8), l0_spec([4, 3, 2, 1], 9)
    for status in (CompactionStatus.SCHEDULED, CompactionStatus.RUNNING, COMPACTED):
        assert "works on the same" in (flaw(mine, known=book(job(10, other, status))) or "")
    assert flaw(mine, known=book(job(10, other, SUBMITTED))) is None, "of two that wait, the older one"
    assert "works on the same" in (flaw(mine, known=book(job(8, other, SUBMITTED))) or "")
    assert flaw(mine, known=book(job(8, other, CompactionStatus.FAILED))) is None
    assert flaw(mine, COMPACTED, book(job(8, other))) is None
    assert "works on the same" in (flaw(runs_spec([5, 4]), known=book(job(8, runs_spec([4, 2])))) or "")
    assert flaw(runs_spec([5, 4]), known=book(job(8, runs_spec([2])))) is None


def test_deepest() -> None:
    assert is_deepest(runs_spec([4, 2]), STATE.root)
    assert not is_deepest(runs_spec([5, 4]), STATE.root)
    assert not is_deepest(l0_spec([1], 8), STATE.root)
    assert is_deepest(l0_spec([1], 8), tree(l0=[1]))


def test_a_job_in_words() -> None:
    assert describe(TieredSpec(views(1), (5, 4), 4, b"s")) == "1 SSTs of L0 and run 5, run 4 of segment b's' to run 4"
    assert describe(DrainSpec(b"s", views(51), ())) == "drain 1 SSTs of L0 of segment b's'"


# --- results ---------------------------------------------------------------------------------------------------------


def test_outputs_take_the_place_of_the_sources() -> None:
    outputs = Ssts.of([handle(200, 5, b"a", b"m"), handle(201, 5, b"m", b"z")])
    done = replace(job(9, TieredSpec(views(2, 1), (5, 4), 4), COMPACTED), outputs=outputs)
    after = with_result(STATE, done).root
    assert list(after.l0.ids) == list(views(4, 3))
    assert [run.id for run in after.runs] == [4, 2]
    assert after.runs[0].views == Views.of_ssts(outputs)
    assert after.last_compacted_l0_view == ulid(2), "the newest of L0 that was compacted"
    assert has_result(with_result(STATE, done), done)
    assert not has_result(STATE, done)


def test_a_merge_of_runs_leaves_the_mark_alone_and_an_empty_result_no_run() -> None:
    marked = STATE.with_root(replace(STATE.root, last_compacted_l0_view=ulid(0)))
    after = with_result(marked, job(9, runs_spec([5, 4]), COMPACTED)).root
    assert [run.id for run in after.runs] == [2]
    assert after.last_compacted_l0_view == ulid(0)


def test_ids_of_a_parent_go_with_its_ssts() -> None:
    runtime = SystemRuntime()
    parent = ExternalDb("parent", uuid4(runtime), uuid4(runtime), Ids.of([ulid(1), ulid(3)]))
    after = with_result(replace(STATE, external_dbs=(parent,)), job(9, l0_spec([2, 1], 8), COMPACTED))
    assert list(after.external_dbs[0].sst_ids) == [ulid(3)]


def test_a_drain_leaves_an_empty_segment() -> None:
    after = with_drain(STATE, DrainSpec(b"s", views(51), (7,))).trees.tree(b"s")
    assert after is not None
    assert after.is_empty
    assert after.last_compacted_l0_view == ulid(51)


def with_l0(*ssts: SstView) -> Manifest:
    return manifest(Tree(l0=Views.of(ssts), runs=(SortedRun(0, Views.of([view(90, b"p", b"q")])),)))


def view(number: int, first: bytes, last: bytes, seen: KeyRange | None = None) -> SstView:
    return SstView(ulid(number), handle(number, 1, first, last), seen)


def test_what_does_not_overlap_is_moved_as_it_is() -> None:
    state = with_l0(view(2, b"x", b"z"), view(1, b"a", b"c"))
    spec = TieredSpec(views(2, 1), (0,), 0)
    after = with_move(state, spec).root
    assert [each.id for each in after.runs[0].views] == [ulid(1), ulid(90), ulid(2)], "in the order of keys"
    assert not len(after.l0)
    assert movable(with_l0(view(2, b"c", b"z"), view(1, b"a", b"c")), spec) is None, "they share a key"
    cut_off = KeyRange.half_open(None, b"c")
    assert movable(with_l0(view(2, b"r", b"z"), view(1, b"a", b"s", cut_off)), spec) is not None


def test_what_a_job_reads() -> None:
    assert input_bytes(l0_spec([2, 1], 8), STATE) == 2
    assert input_bytes(TieredSpec(views(1), (5, 4), 4), STATE) == 1 + 9 + 9
    assert input_bytes(runs_spec([7], b"s"), STATE) == 9
    assert input_bytes(runs_spec([6, 2]), STATE) == 9, "what is not there any more does not count"
    assert input_bytes(runs_spec([7], b"elsewhere"), STATE) == 0
    assert input_bytes(DrainSpec(b"s", views(51), (7,)), STATE) == 0, "it is not read"
