"""SlateDB's rules for a compaction, one key and one row at a time: slow, and right by inspection."""

from __future__ import annotations

from itertools import groupby

from hypothesis import strategies as st

from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE
from slate_engine.lsm.compaction.inputs import Rules
from slate_engine.lsm.row import Row


class Concat:
    """A merge operator whose result shows the order of its operands."""

    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        return (existing_value or b"") + operand


def compacted(rows: list[Row], rules: Rules, *, operator: bool) -> list[Row]:
    """What is left of all versions that a job has."""
    kept: list[Row] = []
    for _, versions in groupby(sorted(rows, key=lambda row: (row.key, -row.seq)), key=lambda row: row.key):
        of_key = list(versions)
        if operator:
            of_key = folded(of_key, rules.min_seq)
        kept += retained(of_key, rules)
    return kept


def folded(versions: list[Row], min_seq: int) -> list[Row]:
    result: list[Row] = []
    while versions:
        row = versions.pop(0)
        if not row.flags & MERGE or row.seq > min_seq:
            result.append(row)
            continue
        group = [row]
        while versions and group[-1].flags & MERGE and expiry(versions[0]) == expiry(row):
            group.append(versions.pop(0))
        value = b"".join(each.value for each in reversed(group))
        created = [each.create_ts for each in group if each.flags & HAS_CREATE]
        flags = (row.flags & HAS_EXPIRE) | (HAS_CREATE if created else 0) | (group[-1].flags & MERGE)
        result.append(Row(row.key, value, row.seq, flags, max(created, default=0), row.expire_ts))
    return result


def expiry(row: Row) -> int | None:
    return row.expire_ts if row.flags & HAS_EXPIRE else None


def retained(versions: list[Row], rules: Rules) -> list[Row]:
    kept: list[Row] = []
    for row in versions:
        if row.flags & HAS_EXPIRE and row.expire_ts <= rules.now_ms:
            if row.flags & MERGE:
                continue
            row = row._replace(value=b"", flags=(row.flags & ~HAS_EXPIRE) | TOMBSTONE, expire_ts=0)
        kept.append(row)
        if not row.flags & MERGE and row.seq <= rules.min_seq:
            break
    while rules.deepest and kept and kept[-1].flags & TOMBSTONE:
        kept.pop()
    return kept


KEYS = [b"a", b"aa", b"b", b"b\0", b"c" * 20, b"\xff"]
EXPIRY = st.sampled_from([None, None, 5, 10, 11, 30])


@st.composite
def levels(draw: st.DrawFn) -> list[list[Row]]:
    """Sorted levels, newest first: every version in one is newer than those of its key in the next."""
    count = draw(st.integers(1, 5))
    drawn: list[list[Row]] = [[] for _ in range(count)]
    for key in sorted(draw(st.sets(st.sampled_from(KEYS), min_size=1))):
        seqs = sorted(draw(st.sets(st.integers(1, 40), min_size=1, max_size=9)), reverse=True)
        level = 0
        for seq in seqs:
            level = draw(st.integers(level, count - 1))
            drawn[level].append(row(draw, key, seq))
    return drawn


def row(draw: st.DrawFn, key: bytes, seq: int) -> Row:
    kind = draw(st.sampled_from([0, 0, TOMBSTONE, MERGE, MERGE]))
    expires = draw(EXPIRY)
    created = draw(st.sampled_from([HAS_CREATE, HAS_CREATE, 0]))
    flags = kind | created | (HAS_EXPIRE if expires is not None else 0)
    value = b"" if kind == TOMBSTONE else b"%d," % seq
    return Row(key, value, seq, flags, seq % 7 if created else 0, expires or 0)


RULES = st.builds(Rules, st.integers(0, 41), st.sampled_from([0, 5, 10, 20]), st.booleans())
