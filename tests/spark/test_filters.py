"""Filters as ranges: for every kind of key, what Spark would let through is what the ranges hold."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from slate_engine.format.key_range import Bound, KeyRange
from slate_engine.spark.filters import push
from slate_engine.spark.ranges import EVERYTHING, intersect, is_point

KEY = ("key",)
COMPARISONS: list[tuple[type[Any], Callable[[Any, Any], bool]]] = [
    (EqualTo, lambda key, value: key == value),
    (EqualNullSafe, lambda key, value: key == value),
    (GreaterThan, lambda key, value: key > value),
    (GreaterThanOrEqual, lambda key, value: key >= value),
    (LessThan, lambda key, value: key < value),
    (LessThanOrEqual, lambda key, value: key <= value),
]
ENCODE: dict[str, Callable[[Any], bytes]] = {
    "binary": bytes,
    "utf8": str.encode,
    "int32": struct.Struct(">i").pack,
    "int64": struct.Struct(">q").pack,
    "uint32": struct.Struct(">I").pack,
    "uint64": struct.Struct(">Q").pack,
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "binary": st.binary(min_size=1, max_size=3),
    "utf8": st.text(min_size=1, max_size=3),
    "int32": st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 2),
    "int64": st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2),
    "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1),
}


def holds(filters: list[Filter], format: str, key: bytes) -> bool:
    return any(key in each for each in push(filters, format, nulls=False).ranges)


@pytest.mark.parametrize("format", sorted(VALUES))
@given(data=st.data())
def test_comparisons(format: str, data: st.DataObject) -> None:
    key, low, high = (data.draw(VALUES[format]) for _ in range(3))
    (first, accepts_first), (second, accepts_second) = (data.draw(st.sampled_from(COMPARISONS)) for _ in range(2))
    wanted = accepts_first(key, low) and accepts_second(key, high)
    assert holds([first(KEY, low), second(KEY, high)], format, ENCODE[format](key)) == wanted


@pytest.mark.parametrize("format", sorted(VALUES))
@given(data=st.data())
def test_in(format: str, data: st.DataObject) -> None:
    key, values = data.draw(VALUES[format]), data.draw(st.lists(VALUES[format], max_size=5))
    ranges = push([In(KEY, (*values, None))], format, nulls=False).ranges
    assert all(is_point(each) for each in ranges)
    assert list(ranges) == sorted(ranges, key=lambda each: each.start.key)
    assert holds([In(KEY, (*values, None))], format, ENCODE[format](key)) == (key in values)


@given(st.text(max_size=3), st.text(max_size=2))
def test_prefixes(key: str, prefix: str) -> None:
    assert holds([StringStartsWith(KEY, prefix)], "utf8", key.encode()) == key.startswith(prefix)


def test_what_cannot_be_told_is_left_to_spark() -> None:
    others: list[Filter] = [
        EqualTo(("value",), b"x"),
        EqualTo(("key", "inner"), b"x"),
        Not(EqualTo(KEY, b"x")),
        StringContains(KEY, "x"),
        EqualNullSafe(KEY, None),
    ]
    pushed = push([*others, GreaterThan(KEY, b"k"), IsNotNull(KEY)], "binary", nulls=False)
    assert pushed.left == others
    assert pushed.ranges == (KeyRange(Bound.excluded(b"k")),)


@pytest.mark.parametrize("format", ["json", "struct", "arrow", "package:function"])
def test_keys_of_other_formats_are_not_narrowed(format: str) -> None:
    pushed = push([EqualTo(KEY, "x")], format, nulls=False)
    assert pushed.ranges == EVERYTHING
    assert pushed.left == [EqualTo(KEY, "x")]


@pytest.mark.parametrize(("format", "nulls"), [("int64", False), ("utf8", True)])
def test_where_a_range_may_hold_more_spark_looks_again(format: str, nulls: bool) -> None:
    value: Any = 5 if format == "int64" else "x"
    pushed = push([GreaterThan(KEY, value)], format, nulls=nulls)
    assert pushed.ranges != EVERYTHING
    assert pushed.left == [GreaterThan(KEY, value)]


def test_contradictions_leave_nothing() -> None:
    assert push([EqualTo(KEY, b"a"), EqualTo(KEY, b"b")], "binary", nulls=False).ranges == ()


def test_a_number_that_no_key_can_hold_is_left_to_spark() -> None:
    assert push([LessThan(KEY, 2**40)], "int32", nulls=False).ranges == EVERYTHING


@given(
    st.lists(st.binary(max_size=2), max_size=6, unique=True), st.lists(st.binary(max_size=2), max_size=6, unique=True)
)
def test_an_intersection_holds_what_both_hold(first: list[bytes], second: list[bytes]) -> None:
    def ranges(edges: list[bytes]) -> tuple[KeyRange, ...]:
        edges = sorted(edges)
        return tuple(KeyRange.half_open(low, high) for low, high in zip(edges[::2], edges[1::2], strict=False))

    a, b = ranges(first), ranges(second)
    both = intersect(a, b)
    for key in [bytes([x, y]) for x in range(0, 256, 17) for y in (0, 128)] + first + second:
        assert any(key in each for each in both) == (any(key in x for x in a) and any(key in x for x in b))
