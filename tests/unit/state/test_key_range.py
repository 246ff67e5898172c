"""Ranges of keys mean what their definition says, for every mix of bounds."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.format.key_range import ALL, UNBOUNDED, Bound, BoundType, KeyRange
from slate_engine.state.ranges import Ranges

KEYS = [bytes(key) for n in range(4) for key in itertools.product((0, 1), repeat=n)]
keys = st.sampled_from(KEYS)
bounds = st.one_of(st.just(UNBOUNDED), keys.map(Bound.included), keys.map(Bound.excluded))
ranges = st.builds(KeyRange, bounds, bounds)


def holds(range: KeyRange, key: bytes) -> bool:
    above = {
        BoundType.UNBOUNDED: True,
        BoundType.INCLUDED: key >= range.start.key,
        BoundType.EXCLUDED: key > range.start.key,
    }
    below = {
        BoundType.UNBOUNDED: True,
        BoundType.INCLUDED: key <= range.end.key,
        BoundType.EXCLUDED: key < range.end.key,
    }
    return above[range.start.type] and below[range.end.type]


@given(ranges, ranges)
def test_membership_and_intersection(one: KeyRange, other: KeyRange) -> None:
    both = one.intersect(other)
    for key in KEYS:
        assert (key in one) == holds(one, key)
        assert (both is not None and key in both) == (holds(one, key) and holds(other, key))
    assert one.overlaps(other) == (both is not None)
    if one.is_empty:
        assert both is None
        assert not any(key in one for key in KEYS)


@given(st.lists(ranges, max_size=20))
def test_columns_agree(listed: list[KeyRange]) -> None:
    column = Ranges.of(listed)
    assert [column[i] for i in range(len(column))] == listed
    assert column.is_empty.tolist() == [each.is_empty for each in listed]
    assert Ranges.concat([column, column]) == Ranges.of([*listed, *listed])
    assert column.with_unbounded()[-1] == ALL


@given(st.binary(max_size=3), st.binary(max_size=5))
def test_prefixes(prefix: bytes, key: bytes) -> None:
    assert (key in KeyRange.of_prefix(prefix)) == key.startswith(prefix)
    assert prefix + key in KeyRange.of_prefix(prefix)


@pytest.mark.parametrize(
    ("range", "empty"),
    [
        (KeyRange.half_open(b"a", b"a"), True),
        (KeyRange.closed(b"a", b"a"), False),
        (KeyRange.closed(b"b", b"a"), True),
        (KeyRange.half_open(None, b""), False),
        (ALL, False),
    ],
)
def test_emptiness(range: KeyRange, empty: bool) -> None:
    assert range.is_empty == empty
