"""ULIDs, one by one and in columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.format.ids import Ids, Ulid
from slate_engine.runtime import SystemRuntime

numbers = st.integers(0, 2**128 - 1) | st.integers(0, 40) | st.integers(2**64 - 20, 2**64 + 20)


def test_the_test_vector() -> None:
    ulid = Ulid.parse("01M7GT22VVDBJD9VEAYK93725G")
    assert (ulid.high, ulid.low, ulid.ms) == (0x01A1E1A10B7B6AE4, 0xD4EDCAF4D23388B0, 1794786790267)
    assert str(ulid) == "01M7GT22VVDBJD9VEAYK93725G"
    assert Ulid.of(ulid.ms, ulid.value & (1 << 80) - 1) == ulid


@given(numbers, numbers)
def test_text_is_the_same_and_in_the_same_order(a: int, b: int) -> None:
    assert Ulid.parse(str(Ulid(a))) == Ulid(a)
    assert (Ulid(a) < Ulid(b)) == (str(Ulid(a)) < str(Ulid(b)))


@pytest.mark.parametrize(
    "text", ["", "0" * 25, "0" * 27, "8" + "0" * 25, "0" * 25 + "I", "0" * 25 + "u", "0" * 25 + " "]
)
def test_what_is_no_ulid(text: str) -> None:
    with pytest.raises(ValueError, match="ULID"):
        Ulid.parse(text)


def test_a_new_one_is_of_now_or_of_the_least_time_allowed() -> None:
    runtime = SystemRuntime()
    before = runtime.now_ms()
    fresh = {Ulid.new(runtime) for _ in range(100)}
    assert len(fresh) == 100
    assert all(before <= ulid.ms <= runtime.now_ms() for ulid in fresh)
    assert Ulid.new(runtime, min_ms=before + 10**9).ms == before + 10**9
    with pytest.raises(ValueError, match="48 bits"):
        Ulid.of(2**48, 0)


@given(st.lists(numbers, max_size=30), st.lists(numbers, max_size=30))
def test_columns_sort_and_find_like_lists(some: list[int], wanted: list[int]) -> None:
    ids = Ids.of(map(Ulid, some))
    assert list(ids.values()) == some
    assert ids.ms.tolist() == [number >> 80 for number in some]
    order = ids.order()
    assert (order is None) == (some == sorted(set(some)))
    ids = ids if order is None else ids.take(order)
    assert list(ids.values()) == sorted(some)
    ids = ids.take(np.flatnonzero(ids.distinct()))
    assert list(ids.values()) == sorted(set(some))
    rows = ids.find(Ids.of(map(Ulid, [*wanted, *some]))).tolist()
    listed = sorted(set(some))
    assert rows == [listed.index(number) if number in listed else -1 for number in [*wanted, *some]]
