"""Which views a reader looks at, against going through all of them."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import UNBOUNDED, Bound, KeyRange
from slate_engine.format.sst_meta import Codec, FilterFormat, SstInfo, SstType
from slate_engine.lsm.levels import Level, Levels
from slate_engine.state.ssts import SstHandle
from slate_engine.state.tree import Segment, SortedRun, Tree, Trees
from slate_engine.state.views import SstView, Views

_ids = itertools.count(1)


def sst(first: bytes, last: bytes | None) -> SstHandle:
    info = SstInfo(first, last, 100, 10, 100, 0, Codec.NONE, SstType.COMPACTED, 0, 0, FilterFormat.COMPOSITE)
    return SstHandle(Ulid(next(_ids)), info, 2)


def view(first: bytes, last: bytes | None, visible: KeyRange | None = None) -> SstView:
    return SstView(Ulid(next(_ids)), sst(first, last), visible)


def may_hold(view: SstView, wanted: KeyRange) -> bool:
    keys = view.key_range
    return keys is not None and keys.overlaps(wanted)


SHORT = st.text("abc", min_size=1, max_size=3).map(str.encode)
BOUNDS = st.one_of(st.just(UNBOUNDED), SHORT.map(Bound.included), SHORT.map(Bound.excluded))
RANGES = st.builds(KeyRange, BOUNDS, BOUNDS).filter(lambda keys: not keys.is_empty)


@st.composite
def runs(draw: Any) -> list[SstView]:
    """Views of a sorted run. Neighbours may share a key, a view may show only a part of its SST, and the last SST may be
    of a version that does not know its last key."""
    edges = draw(st.lists(SHORT, min_size=2, max_size=16).map(sorted))
    views = []
    for first, last in zip(edges[::2], edges[1::2], strict=False):
        whole = view(first, last)
        visible = draw(st.none() | RANGES.filter(lambda keys: keys.start.type is not Bound.excluded(b"").type))
        cut = view(first, last, visible)
        views.append(cut if cut.key_range is not None else whole)
    if draw(st.booleans()):
        views.append(view(edges[-1], None))
    return views


@given(runs(), st.lists(SHORT, min_size=1), st.lists(RANGES, min_size=1))
def test_a_level_finds_the_views_of_keys_and_ranges(
    views: list[SstView], keys: list[bytes], wanted: list[KeyRange]
) -> None:
    level = Level(Views.of(views))
    for key in keys:
        expected = [each.id for each in views if may_hold(each, KeyRange.closed(key, key))]
        assert [each.id for each in level.of_key(key)] == expected
    for each in wanted:
        found = [view.id for view in level.overlapping(each)]
        expected = [view.id for view in views if may_hold(view, each)]
        # One view too many costs a read; one too few loses rows.
        assert set(expected) <= set(found)
        assert len(found) <= len(expected) + 1
        assert found == sorted(found)


def test_the_newest_versions_of_a_straddling_key_come_first() -> None:
    left, middle, right = view(b"a", b"k"), view(b"k", b"k"), view(b"k", b"z")
    level = Level(Views.of([left, middle, right]))
    assert [each.id for each in level.of_key(b"k")] == [left.id, middle.id, right.id]
    assert [each.id for each in level.of_key(b"j")] == [left.id]


def test_l0_comes_before_runs_and_the_newest_first() -> None:
    newest, oldest, high, low = (view(b"a", b"z") for _ in range(4))
    tree = Tree(Views.of([newest, oldest]), (SortedRun(7, Views.of([high])), SortedRun(3, Views.of([low]))))
    assert [each.id for each in Levels(Trees(tree)).of_key(b"k")] == [newest.id, oldest.id, high.id, low.id]


def test_a_run_without_tables_is_passed_over() -> None:
    only = view(b"a", b"z")
    tree = Tree(runs=(SortedRun(7, Views.of([])), SortedRun(3, Views.of([only]))))
    assert [each.id for each in Levels(Trees(tree)).of_key(b"k")] == [only.id]


@given(st.lists(st.sampled_from([b"a", b"b", b"ca", b"cb", b"\xff"]), unique=True).map(sorted), SHORT)
def test_a_key_is_looked_for_in_its_segment(prefixes: list[bytes], key: bytes) -> None:
    """Every segment holds an SST of the whole key space here, so that only the prefix can tell where a key belongs."""
    segments = [Segment(prefix, Tree(Views.of([view(b"\0", b"\xff\xff")]))) for prefix in prefixes]
    levels = Levels(Trees(segments=tuple(segments)))
    expected = [segment.tree.l0[0].id for segment in segments if key.startswith(segment.prefix)]
    assert [each.id for each in levels.of_key(key)] == expected


@given(RANGES)
def test_a_range_goes_through_all_trees(wanted: KeyRange) -> None:
    trees = Trees(
        Tree(Views.of([view(b"a", b"b")])),
        (
            Segment(b"b", Tree(Views.of([view(b"ba", b"bb")]))),
            Segment(b"c", Tree(runs=(SortedRun(1, Views.of([view(b"ca", b"cb"), view(b"cb", b"cc")])),))),
        ),
    )
    every = [each for tree in trees for views in tree.views() for each in views]
    found = [each.id for level in Levels(trees).overlapping(wanted) for each in level.overlapping(wanted)]
    assert {each.id for each in every if may_hold(each, wanted)} <= set(found)
