"""Variants: equality, pickling, and what they refuse."""

from __future__ import annotations

import copy
import pickle

import pytest

from slate_engine.api.choices import CacheTarget, PrefixTarget, ReaderMode, Ttl
from slate_engine.api.compactions import CompactionSpec, SourceId
from slate_engine.api.keys import KeyRange
from slate_engine.api.shapes import Variant
from slate_engine.errors import InvalidError


def everything() -> KeyRange:
    return KeyRange(start=None, start_inclusive=False, end=None, end_inclusive=False)


SOME = [
    Ttl.DEFAULT(),
    Ttl.NO_EXPIRY(),
    Ttl.EXPIRE_AFTER_MILLIS(5),
    Ttl.EXPIRE_AFTER_MILLIS(6),
    Ttl.EXPIRE_AT_MILLIS(5),
    ReaderMode.CHECKPOINT("5"),
    ReaderMode.FOLLOW_LATEST(),
    PrefixTarget.POINT(b"a"),
    PrefixTarget.PREFIX(b"a"),
    PrefixTarget.PREFIX(b"b"),
    CacheTarget.INDEX(),
    CacheTarget.DATA(everything()),
    CompactionSpec.TIERED(b"", [SourceId.SORTED_RUN(1), SourceId.SST_VIEW("x")], 3),
    CompactionSpec.DRAIN_SEGMENT(b"", [SourceId.SORTED_RUN(1)]),
]


@pytest.mark.parametrize("one", SOME, ids=str)
def test_equal_to_a_copy_of_itself_and_to_nothing_else(one: Variant) -> None:
    for same in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert same == one
        assert type(same) is type(one)
    assert [other for other in SOME if other == one] == [one]
    assert one != 5
    assert one is not None


def test_a_family_has_no_instances_of_its_own() -> None:
    with pytest.raises(RuntimeError, match=r"Ttl cannot be instantiated directly.*Ttl\.EXPIRE_AT_MILLIS"):
        Ttl()


@pytest.mark.parametrize("values", [(), (1, 2)])
def test_a_variant_with_one_value_takes_one(values: tuple[int, ...]) -> None:
    with pytest.raises(TypeError, match=r"Ttl\.EXPIRE_AFTER_MILLIS takes 1 argument"):
        Ttl.EXPIRE_AFTER_MILLIS(*values)


def test_values_are_reached_by_index_or_by_name() -> None:
    after = Ttl.EXPIRE_AFTER_MILLIS(5)
    assert after[0] == after[-1] == 5
    assert list(after) == [5]
    with pytest.raises(IndexError):
        after[1]
    assert PrefixTarget.POINT(key=b"k").key == b"k"
    with pytest.raises(TypeError):
        PrefixTarget.POINT(b"k")[0]  # type: ignore[index]


def test_variants_match_in_a_match_statement() -> None:
    def name(ttl: Ttl) -> str:
        match ttl:
            case Ttl.NO_EXPIRY():
                return "never"
            case Ttl.EXPIRE_AFTER_MILLIS():
                return f"after {ttl[0]}"
            case _:
                return "other"

    assert [name(Ttl.NO_EXPIRY()), name(Ttl.EXPIRE_AFTER_MILLIS(3)), name(Ttl.DEFAULT())] == [
        "never",
        "after 3",
        "other",
    ]


@pytest.mark.parametrize(
    ("start", "start_inclusive", "end", "end_inclusive", "complaint"),
    [
        (b"z", True, b"a", True, "range start must not be greater than range end"),
        (b"a", True, b"a", False, "range must be non-empty"),
        (b"a", False, b"a", True, "range must be non-empty"),
        (b"", False, b"", False, "range must be non-empty"),
        (b"a", True, b"a", True, None),
        (b"", True, None, False, None),
        (None, False, b"", True, None),
        (bytearray(b"a"), True, b"b", False, None),
    ],
)
def test_a_range_that_no_key_is_in_is_refused(
    start: bytes | None, start_inclusive: bool, end: bytes | None, end_inclusive: bool, complaint: str | None
) -> None:
    keys = KeyRange(start=start, start_inclusive=start_inclusive, end=end, end_inclusive=end_inclusive)
    if complaint is None:
        keys.check()
    else:
        with pytest.raises(InvalidError, match=complaint):
            keys.check()


def test_a_range_of_text_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes-like"):
        KeyRange(start="a", start_inclusive=True, end=None, end_inclusive=True).check()  # type: ignore[arg-type]
