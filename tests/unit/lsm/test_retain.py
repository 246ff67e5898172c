"""Retention against the rule as SlateDB states it, one key at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, Rows
from slate_engine.lsm.retain import retain

Row = tuple[bytes, bytes, int, int, int, int]


def rule(versions: list[Row], min_seq: int, now: int, deepest: bool) -> list[Row]:
    kept: list[Row] = []
    for key, value, seq, flags, created, expires in versions:
        if flags & HAS_EXPIRE and expires <= now:
            if flags & MERGE:
                continue
            value, flags, expires = b"", (flags & ~HAS_EXPIRE) | TOMBSTONE, 0
        kept.append((key, value, seq, flags, created, expires))
        if not flags & MERGE and seq <= min_seq:
            break
    while deepest and kept and kept[-1][3] & TOMBSTONE:
        kept.pop()
    return kept


@st.composite
def sorted_rows(draw: st.DrawFn) -> list[Row]:
    rows: list[Row] = []
    for key in sorted(draw(st.sets(st.sampled_from([b"a", b"b", b"bb", b"c"])))):
        for seq in sorted(draw(st.sets(st.integers(1, 30), min_size=1, max_size=8)), reverse=True):
            kind = draw(st.sampled_from([0, TOMBSTONE, MERGE]))
            expires = draw(st.one_of(st.none(), st.integers(1, 20)))
            flags = kind | HAS_CREATE | (HAS_EXPIRE if expires is not None else 0)
            rows.append((key, b"" if kind == TOMBSTONE else b"v%d" % seq, seq, flags, seq, expires or 0))
    return rows


@given(sorted_rows(), st.integers(0, 31), st.integers(0, 21), st.booleans())
def test_keeps_exactly_what_the_rule_keeps(rows: list[Row], min_seq: int, now: int, deepest: bool) -> None:
    got = retain(Rows.of(rows), np.arange(len(rows)), min_seq=min_seq, now_ms=now, deepest=deepest)
    keys = sorted({row[0] for row in rows})
    want = [kept for key in keys for kept in rule([r for r in rows if r[0] == key], min_seq, now, deepest)]
    assert list(got.tuples()) == want
