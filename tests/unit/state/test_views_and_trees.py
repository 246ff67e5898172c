"""Views and trees in columns behave like the lists of objects that they stand for."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.format.ids import Ids, Ulid
from slate_engine.format.key_range import ALL, Bound, KeyRange
from slate_engine.format.sst_meta import Codec, FilterFormat, SstInfo, SstType
from slate_engine.runtime import SystemRuntime
from slate_engine.state.manifest import ExternalDb, Manifest
from slate_engine.state.ssts import NO_SSTS, SstHandle, Ssts
from slate_engine.state.tree import Segment, SortedRun, Tree, Trees
from slate_engine.state.views import NO_VIEWS, SstView, Views
from tests.unit.state.drawn import all_trees, key_ranges


def sst(number: int, first: bytes = b"a", last: bytes | None = b"z", size: int = 100) -> SstHandle:
    info = SstInfo(first, last, size, 10, 0, 0, Codec.NONE, SstType.COMPACTED, 0, 0, FilterFormat.COMPOSITE)
    return SstHandle(Ulid.of(number, number), info, 2)


def view(number: int, first: bytes = b"a", last: bytes | None = b"z", visible: KeyRange | None = None) -> SstView:
    return SstView(Ulid.of(number + 1000, 0), sst(number, first, last), visible)


def as_list(trees: Trees) -> list[SstView]:
    return [each for tree in trees for views in tree.views() for each in views]


@given(all_trees(), st.data())
def test_windows_are_slices(trees: Trees, data: st.DataObject) -> None:
    views = Views.concat(views for tree in trees for views in tree.views())
    listed = as_list(trees)
    assert list(views) == listed
    assert len(views) == len(listed)
    start, stop = data.draw(st.integers(-9, 9)), data.draw(st.integers(-9, 9))
    assert list(views[start:stop]) == listed[start:stop]
    assert list(views[start:stop:2]) == listed[start:stop:2]
    for i in range(-len(listed), len(listed)):
        assert views[i] == listed[i]
    with pytest.raises(IndexError):
        views[len(listed)]
    assert Views.of(listed) == views
    assert views.estimated_size == sum(each.estimated_size for each in listed)
    assert list(views.sst_ids) == [each.sst.id for each in listed]
    assert list(views.ssts()) == [each.sst for each in listed]


@given(all_trees(), all_trees(), st.data())
def test_joining_and_filtering(one: Trees, other: Trees, data: st.DataObject) -> None:
    parts = [*(v for tree in one for v in tree.views()), *(v for tree in other for v in tree.views())]
    parts = data.draw(st.permutations(parts))
    parts = [part[data.draw(st.integers(0, 1)) :] for part in parts]
    expected = [each for part in parts for each in part]
    joined = Views.concat(parts)
    assert list(joined) == expected
    keep = np.array([data.draw(st.booleans()) for _ in expected], np.bool_)
    assert list(joined.where(keep)) == [each for each, kept in zip(expected, keep, strict=True) if kept]


@given(all_trees())
def test_the_pool_has_every_sst_once_and_in_order(trees: Trees) -> None:
    expected = {each.sst.id: each.sst for each in as_list(trees)}
    assert list(trees.ssts) == [expected[id] for id in sorted(expected)]
    for id, handle in expected.items():
        assert trees.ssts.find(id) == handle
    assert trees.ssts.find(Ulid(99)) == expected.get(Ulid(99))


@given(all_trees())
def test_joined_tables_forget_ssts_that_no_view_shows(trees: Trees) -> None:
    views = Views.concat([*(v for tree in trees for v in tree.views()), Views.of([view(3), view(4)])])
    last = Views.concat([views[-1:], Views.of([view(5)])])
    assert len(last.table.ssts) == 2
    assert [each.sst.id for each in last] == [view(4).sst.id, view(5).sst.id]


@given(all_trees(), key_ranges())
def test_projection_cuts_every_view_as_one_by_one(trees: Trees, wanted: KeyRange) -> None:
    if wanted.start.bounded and wanted.start != Bound.included(wanted.start.key):
        wanted = KeyRange(Bound.included(wanted.start.key), wanted.end)
    for tree in trees:
        for views in tree.views():
            expected = []
            for each in views:
                visible = wanted if each.visible_range is None else each.visible_range.intersect(wanted)
                cut = SstView(each.id, each.sst, visible)
                if visible is not None and cut.key_range is not None:
                    expected.append((each, cut))
            projected = views.projected(wanted, SystemRuntime())
            assert projected.shows_same(Views.of(cut for _, cut in expected))
            for (before, cut), after in zip(expected, projected, strict=True):
                is_same = (before.visible_range or ALL) == cut.visible_range
                assert (after.id == before.id) is is_same
                assert after.id.ms == before.id.ms


@given(st.lists(st.integers(0, 5)), st.integers(0, 12))
def test_what_has_to_go_with_the_views_from_a_place_on(numbers: list[int], start: int) -> None:
    views = Views.of(SstView(Ulid.of(1, number), sst(place)) for place, number in enumerate(numbers))
    start = min(start, len(numbers))
    apart = [place for place in range(start + 1) if not {*numbers[:place]} & {*numbers[place:]}]
    assert views.whole_from(start) == apart[-1]


@given(st.lists(st.integers(0, 5)))
def test_ids_that_repeat_are_renewed(numbers: list[int]) -> None:
    views = Views.of(SstView(Ulid.of(number, number), sst(place)) for place, number in enumerate(numbers))
    distinct = views.with_distinct_ids(SystemRuntime())
    assert distinct.shows_same(views)
    assert len({*distinct.ids}) == len(numbers)
    for place, (before, after) in enumerate(zip(views.ids, distinct.ids, strict=True)):
        assert (before == after) is (numbers[place] not in numbers[:place])
        assert before.ms == after.ms


def test_changing_a_tree() -> None:
    tree = Tree(Views.of([view(2), view(1)]), (SortedRun(5, NO_VIEWS), SortedRun(3, NO_VIEWS)))
    newer = tree.with_l0(Views.of([view(3)]))
    assert [each.sst.id.ms for each in newer.l0] == [3, 2, 1]
    assert [each.sst.id.ms for each in newer.without_oldest_l0(2).l0] == [3]
    replaced = tree.with_run(SortedRun(4, Views.of([view(9)]))).with_run(SortedRun(3, Views.of([view(8)])))
    assert [(run.id, len(run.views)) for run in replaced.runs] == [(5, 0), (4, 1), (3, 1)]
    assert [run.id for run in replaced.without_runs([5, 3]).runs] == [4]
    assert replaced.run(4) == SortedRun(4, Views.of([view(9)]))
    assert replaced.run(7) is None
    assert tree.newest_l0_ms == 2
    assert replace(tree, l0=NO_VIEWS, last_compacted_l0_view=Ulid.of(77, 0)).newest_l0_ms == 77
    assert Tree().newest_l0_ms is None
    assert Tree().is_empty
    assert not tree.is_empty


def test_trees_by_prefix() -> None:
    trees = Trees().with_tree(b"b", Tree(Views.of([view(1)]))).with_tree(b"a", Tree()).with_tree(b"", Tree(runs=()))
    assert [segment.prefix for segment in trees.segments] == [b"a", b"b"]
    assert trees.tree(b"b") == Tree(Views.of([view(1)]))
    assert trees.tree(b"") == Tree()
    assert trees.tree(b"c") is None
    assert trees.with_tree(b"b", Tree()).segments == (Segment(b"a", Tree()), Segment(b"b", Tree()))
    assert trees.newest_l0_ms == 1


def test_owners_of_ssts_and_their_pruning() -> None:
    trees = Trees(Tree(Views.of([view(3), view(1)])), (Segment(b"s", Tree(Views.of([view(2, b"s", b"t")]))),))
    ours, gone = Ids.of([sst(2).id, sst(9).id]), Ids.of([sst(8).id])
    externals = tuple(ExternalDb(path, UUID(int=1), None, ids) for path, ids in (("p", ours), ("q", gone)))
    manifest = Manifest(trees=trees, external_dbs=externals)
    assert manifest.owners.tolist() == [-1, 0, -1]
    pruned = manifest.with_external_ids_pruned()
    assert [list(external.sst_ids) for external in pruned.external_dbs] == [[sst(2).id], []]
    assert pruned.with_external_ids_pruned().external_dbs[0] is pruned.external_dbs[0]
    assert manifest.estimated_size == 330


def test_two_tables_may_know_the_same_sst() -> None:
    shared = sst(1)
    one, other = Views.of([SstView(Ulid(1), shared)]), Views.of([SstView(Ulid(2), shared), view(2)])
    trees = Trees(Tree(one, (SortedRun(1, other[:1]),)))
    assert list(trees.ssts) == [shared]
    assert as_list(trees) == [SstView(Ulid(1), shared), SstView(Ulid(2), shared)]


def test_nothing_is_fine() -> None:
    assert list(NO_SSTS) == []
    assert Ssts.concat([NO_SSTS, NO_SSTS]) == NO_SSTS
    assert Views.concat([]) is NO_VIEWS
    assert Views.of([]) is NO_VIEWS
    assert list(Trees().ssts) == []
    assert list(Views.of_ssts(Ssts.of([sst(4)]))) == [SstView(sst(4).id, sst(4))]
