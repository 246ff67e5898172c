"""What a reader sees of row versions, against a reference that works on one key at a time."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_engine.errors import Error
from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, Rows
from slate_engine.lsm.visible import MAX_SEQ, sort_versions, visible

Row = tuple[bytes, bytes, int, int, int, int]


class Concat:
    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        return (existing_value or b"") + operand


def reference(rows: list[Row], max_seq: int) -> list[Row]:
    seen = []
    for key in sorted({row[0] for row in rows}):
        versions = sorted((r for r in rows if r[0] == key and r[2] <= max_seq), key=lambda r: -r[2])
        if not versions or versions[0][3] & TOMBSTONE:
            continue
        if not versions[0][3] & MERGE:
            seen.append(versions[0])
            continue
        met: list[Row] = []
        for version in versions:
            met.append(version)
            if not version[3] & MERGE:
                break
        value = b"".join(r[1] for r in reversed(met))
        created = [r[4] for r in met if r[3] & HAS_CREATE]
        expires = [r[5] for r in met if r[3] & HAS_EXPIRE]
        flags = (HAS_CREATE if created else 0) | (HAS_EXPIRE if expires else 0)
        seen.append((key, value, met[0][2], flags, max(created, default=0), min(expires, default=0)))
    return seen


def row(key: bytes, value: bytes, seq: int, kind: int, created: int | None, expires: int | None) -> Row:
    flags = kind | (HAS_CREATE if created is not None else 0) | (HAS_EXPIRE if expires is not None else 0)
    return key, b"" if kind == TOMBSTONE else value, seq, flags, created or 0, expires or 0


# Few letters and NUL bytes: many equal keys, prefixes of each other, and keys that differ only in padding.
keys = st.one_of(st.text("a\0b", min_size=1, max_size=4), st.text("ab", min_size=8, max_size=20)).map(str.encode)
times = st.one_of(st.none(), st.integers(0, 100))


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    """Rows in commit order; every commit writes a key once."""
    drawn = draw(
        st.lists(st.tuples(keys, st.binary(max_size=3), st.sampled_from([0, 0, TOMBSTONE, MERGE]), times, times))
    )
    return [row(k, v, seq, kind, c, e) for seq, (k, v, kind, c, e) in enumerate(drawn, 1)]


@settings(max_examples=150)
@given(histories(), st.lists(st.integers(0, 60)), st.one_of(st.integers(0, 60), st.just(MAX_SEQ)))
def test_sees_what_the_reference_sees(history: list[Row], cuts: list[int], max_seq: int) -> None:
    bounds = [0, *sorted(min(cut, len(history)) for cut in cuts), len(history)]
    runs = [sort_versions(Rows.of(history[a:b])) for a, b in itertools.pairwise(bounds)]
    got = list(visible(runs[::-1], max_seq, Concat()).tuples())
    assert got == reference(history, max_seq)


@settings(max_examples=50)
@given(histories())
def test_sort_versions_orders_by_key_then_newest(history: list[Row]) -> None:
    got = list(sort_versions(Rows.of(history)).tuples())
    assert got == sorted(history, key=lambda r: (r[0], -r[2]))


def test_a_single_plain_run_is_handed_through_without_a_copy() -> None:
    rows = Rows.of([(b"a", b"1", 1, 0, 0, 0), (b"b", b"2", 2, 0, 0, 0)])
    assert visible([rows]) is rows
    assert list(visible([rows], max_seq=1).tuples()) == [(b"a", b"1", 1, 0, 0, 0)]


def test_operands_without_an_operator_are_an_error_that_says_what_to_do() -> None:
    with pytest.raises(Error.Invalid, match="merge operator"):
        visible([Rows.of([(b"k", b"1", 1, MERGE, 0, 0)])])
