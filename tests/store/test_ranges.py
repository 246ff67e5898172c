"""Ranges close together are fetched at once, and each caller's bytes are cut out again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.errors import InvalidError
from slate_engine.store.ranges import coalesce, fetch_ranges

DATA = bytes(range(256)) * 40
spans = st.tuples(st.integers(0, 12_000), st.integers(0, 12_000)).map(lambda span: (min(span), max(span)))


def test_neighbours_become_one_span() -> None:
    assert coalesce([(0, 10), (10, 20), (25, 30)], gap=5) == [(0, 30)]
    assert coalesce([(0, 10), (16, 20)], gap=5) == [(0, 10), (16, 20)]
    assert coalesce([(16, 20), (0, 10), (2, 4)], gap=0) == [(0, 10), (16, 20)]
    assert coalesce([(5, 5), (7, 7)]) == []
    assert coalesce([]) == []


def test_spans_stay_short_enough_to_be_fetched_side_by_side() -> None:
    assert coalesce([(0, 8), (8, 16), (16, 20)], gap=5, longest=10) == [(0, 8), (8, 16), (16, 20)]
    assert coalesce([(0, 4), (4, 8), (8, 12), (12, 16)], gap=5, longest=8) == [(0, 8), (8, 16)]
    assert coalesce([(0, 100), (20, 30), (90, 100), (95, 120)], gap=5, longest=10) == [(0, 100), (95, 120)]


@given(st.lists(spans, max_size=20), st.integers(0, 500), st.integers(1, 5000))
async def test_every_range_gets_its_own_bytes(ranges: list[tuple[int, int]], gap: int, longest: int) -> None:
    fetched: list[tuple[int, int]] = []

    async def fetch(start: int, end: int) -> bytes:
        fetched.append((start, end))
        assert start < end
        return DATA[start:end]

    found = await fetch_ranges(ranges, fetch, gap, longest)
    assert [bytes(part) for part in found] == [DATA[start:end] for start, end in ranges]
    assert len(fetched) <= len(ranges)


@pytest.mark.parametrize("wrong", [(-1, 5), (5, 4)])
async def test_what_is_no_range_is_refused(wrong: tuple[int, int]) -> None:
    async def fetch(start: int, end: int) -> bytes:
        raise AssertionError

    with pytest.raises(InvalidError):
        await fetch_ranges([(0, 1), wrong], fetch)
