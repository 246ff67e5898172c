"""What each policy wants of a state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.errors import InvalidError
from slate_engine.lsm.compaction.plan import Leveled, Major, Policy, SizeTiered, next_run_id
from slate_engine.lsm.compaction.specs import find_flaw, sources
from slate_engine.state.compactions import Compactions, CompactionStatus, DrainSpec, TieredSpec
from slate_engine.state.manifest import Manifest
from tests.unit.compaction.trees import book, job, l0_spec, manifest, runs_spec, tree, views

MANY = 100


def proposed(policy: Policy, state: Manifest, known: Compactions | None = None, limit: int = MANY) -> list[TieredSpec]:
    return [proposal.spec for proposal in policy.propose(state, known or Compactions(), limit)]


# --- size-tiered, case for case as SlateDB decides -------------------------------------------------------------------


def test_four_l0s_become_a_new_run() -> None:
    assert proposed(SizeTiered(), manifest(tree(l0=[1] * 3))) == []
    assert proposed(SizeTiered(), manifest(tree(l0=[1] * 4))) == [l0_spec([4, 3, 2, 1], 0)]


def test_the_oldest_l0s_are_taken_when_there_are_too_many() -> None:
    assert proposed(SizeTiered(), manifest(tree(l0=[1] * 11))) == [l0_spec(range(8, 0, -1), 0)]


def test_a_new_run_gets_a_number_above_all_runs_of_all_trees_and_all_jobs() -> None:
    state = manifest(tree(l0=[1] * 4), s=tree(runs=[(7, 100)], at=100))
    assert proposed(SizeTiered(), state) == [l0_spec([4, 3, 2, 1], 8)]
    busy = book(job(1, l0_spec([300], 9, b"s")))
    assert proposed(SizeTiered(), state, busy) == [l0_spec([4, 3, 2, 1], 10)]
    ended = book(job(1, l0_spec([300], 9, b"s"), CompactionStatus.COMPLETED))
    assert next_run_id(state, ended) == 8


def test_one_compaction_of_l0_at_a_time() -> None:
    state = manifest(tree(l0=[1] * 12))
    assert proposed(SizeTiered(), state, book(job(1, l0_spec([4, 3, 2, 1], 0)))) == []


def test_runs_of_similar_size_are_merged_into_the_oldest() -> None:
    state = manifest(tree(runs=[(9, 4), (8, 2), (7, 2), (6, 2), (5, 100)]))
    assert proposed(SizeTiered(), state) == [runs_spec([9, 8, 7, 6])]


def test_a_large_run_divides_similar_ones() -> None:
    state = manifest(tree(runs=[(9, 2), (8, 2), (7, 9), (6, 2), (5, 2)]))
    assert proposed(SizeTiered(), state) == []


def test_size_is_measured_against_the_smallest_so_far() -> None:
    # 4 is within four times 1, 16 would be within four times 4 but not within four times 1.
    state = manifest(tree(runs=[(9, 1), (8, 4), (7, 4), (6, 16)]))
    assert proposed(SizeTiered(), state) == []
    assert proposed(SizeTiered(include_size_threshold=16), state) == [runs_spec([9, 8, 7, 6])]


def test_at_most_so_many_runs_the_oldest_of_them() -> None:
    state = manifest(tree(runs=[(id, 2) for id in range(9, -1, -1)]))
    assert proposed(SizeTiered(), state) == [runs_spec(range(7, -1, -1))]


def test_runs_in_use_are_left_alone() -> None:
    state = manifest(tree(runs=[(id, 2) for id in range(7, -1, -1)]))
    assert proposed(SizeTiered(), state, book(job(1, runs_spec([3, 2, 1, 0])))) == [runs_spec([7, 6, 5, 4])]


def test_l0_waits_when_its_result_would_join_a_full_queue() -> None:
    """Eight runs of its own size are waiting, as many as a merge takes: first those, then the next."""
    state = manifest(tree(l0=[1] * 4, runs=[(id, 4) for id in range(8, 0, -1)]))
    assert proposed(SizeTiered(), state) == [runs_spec(range(8, 0, -1))]
    shorter = manifest(tree(l0=[1] * 4, runs=[(id, 4) for id in range(7, 0, -1)]))
    assert proposed(SizeTiered(), shorter) == [l0_spec([4, 3, 2, 1], 8), runs_spec(range(7, 0, -1))]


def test_runs_wait_for_larger_ones_that_are_being_merged() -> None:
    small, large = [(id, 2) for id in range(11, 7, -1)], [(id, 9) for id in range(7, -1, -1)]
    running = book(job(1, runs_spec(range(7, -1, -1))))
    assert proposed(SizeTiered(), manifest(tree(runs=small + large)), running) == []
    assert proposed(
        SizeTiered(), manifest(tree(runs=small + large[1:])), book(job(1, runs_spec(range(6, -1, -1))))
    ) == [runs_spec([11, 10, 9, 8])]


def test_each_tree_gets_its_turn_the_fullest_l0_first() -> None:
    state = manifest(
        tree(l0=[1] * 4, runs=[(id, 2) for id in range(3, -1, -1)]),
        a=tree(l0=[1] * 6, at=50),
        b=tree(l0=[1] * 5, at=90),
    )
    segments = [spec.segment for spec in proposed(SizeTiered(), state)]
    assert segments == [b"a", b"b", b"", b""]
    assert [spec.segment for spec in proposed(SizeTiered(), state, limit=2)] == [b"a", b"b"]


def test_sizes_are_reckoned_in_32_bits_as_the_original_does() -> None:
    # 2**24 + 1 is not a 32-bit float: four times it is 2**26 for the original.
    state = manifest(tree(runs=[(3, 2**24 + 1), (2, 2**26 + 2), (1, 1), (0, 1)]))
    assert proposed(SizeTiered(min_compaction_sources=2), state)[0] == runs_spec([2, 1, 0])


# --- leveled and major -----------------------------------------------------------------------------------------------


def test_leveled_takes_the_levels_that_it_would_fill() -> None:
    state = manifest(tree(l0=[1] * 4, runs=[(3, 30), (2, 200), (1, 9000)]))
    assert proposed(Leveled(), state) == [TieredSpec(views(4, 3, 2, 1), (3, 2), 2)]
    assert proposed(Leveled(fanout=5), state) == [l0_spec([4, 3, 2, 1], 4)]
    assert proposed(Leveled(min_l0=5), state) == []
    assert proposed(Leveled(), state, book(job(1, runs_spec([1])))) == []


def test_major_makes_one_run_of_a_tree() -> None:
    state = manifest(tree(l0=[1, 1], runs=[(3, 30), (2, 200)]), s=tree(l0=[1], at=50), t=tree(runs=[(1, 5)], at=90))
    assert proposed(Major(), state) == [TieredSpec(views(2, 1), (3, 2), 2), l0_spec([51], 4, b"s")]
    assert proposed(Major(rewrite=True), state)[2] == runs_spec([1], b"t")
    assert proposed(Major(segments=frozenset([b"s"])), state) == [l0_spec([51], 4, b"s")]
    assert proposed(Major(), state, book(job(1, DrainSpec(b"s", views(51), ())))) == [proposed(Major(), state)[0]]


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong in (lambda: SizeTiered(9, 8), lambda: SizeTiered(0, 8), lambda: Leveled(fanout=1), lambda: Leveled(0)):
        with pytest.raises(InvalidError):
            wrong()


# --- whatever the state ----------------------------------------------------------------------------------------------


@st.composite
def states(draw: st.DrawFn) -> Manifest:
    ids = iter(sorted(draw(st.sets(st.integers(0, 60), max_size=24)), reverse=True))
    made = {}
    for number, name in enumerate(["", "s", "t"]):
        runs = [(id, draw(st.integers(1, 50))) for _, id in zip(range(draw(st.integers(0, 12))), ids, strict=False)]
        made[name] = tree(draw(st.lists(st.integers(1, 9), max_size=12)), runs, at=100 * number)
    return manifest(made.pop(""), **made)


POLICIES = st.one_of(
    st.builds(SizeTiered, st.integers(1, 4), st.integers(4, 8), st.sampled_from([1.0, 2.5, 4.0])),
    st.builds(Leveled, st.integers(1, 4), st.floats(1.5, 10)),
    st.builds(Major, st.booleans()),
)


@given(states(), POLICIES, st.integers(0, 6))
def test_whatever_is_proposed_can_be_done_side_by_side(state: Manifest, policy: Policy, limit: int) -> None:
    specs = proposed(policy, state, limit=limit)
    assert len(specs) <= limit
    known = book()
    taken: set[object] = set()
    for number, spec in enumerate(specs):
        new = job(number, spec, CompactionStatus.SUBMITTED)
        assert find_flaw(new, state, known) is None
        assert not taken & {*sources(spec)}
        taken |= {*sources(spec)}
        known = known.with_job(job(number, spec))
    # Nor does it want any of it a second time while it is under way.
    for again in proposed(policy, state, known):
        assert not taken & {*sources(again)}
