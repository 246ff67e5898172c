"""The rows of one chunk of keys: merged, folded, and without what nobody can see any more. Columns in, columns out.

The order of the steps is SlateDB's: all versions sorted, merge operands folded as far as no reader could tell, rows whose
time has come turned into tombstones, and then each key's versions cut off below the oldest that somebody may still read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slate_engine.errors import DataError
from slate_engine.format.columns import HAS_EXPIRE, I64, MERGE, U8, U64, Rows
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import readonly
from slate_engine.lsm.compaction.inputs import Rules
from slate_engine.lsm.order import concat, equal_range, first_of_key, is_sorted_by_version
from slate_engine.lsm.retain import retain
from slate_engine.lsm.row import Row, row_at
from slate_engine.lsm.visible import MergeOperator, fold, merge_sources


@dataclass(frozen=True)
class Mark:
    """The last row that an earlier attempt has written."""

    key: bytes
    seq: int


def merge_chunk(
    sources: Sequence[Rows], rules: Rules, operator: MergeOperator | None, after: Mark | None = None
) -> Rows:
    """What stays of ``sources``, which come newest first and hold all versions of their keys that the job has.

    Without an operator merge operands stay as they are; SlateDB's next compaction with one folds them. ``after`` leaves
    out what was written already."""
    rows, order = merge_sources(sources)
    del sources  # they are all in ``rows`` now
    if operator is not None and (rows.flags & MERGE).any():
        rows, order = fold_operands(rows, order, rules.min_seq, operator)
    kept = retain(rows, order, min_seq=rules.min_seq, now_ms=rules.now_ms, deepest=rules.deepest)
    if not is_sorted_by_version(kept):
        raise DataError(
            "a level holds a version of a key that is newer than those in the levels above it, somewhere from "
            f"{kept.keys[0]!r} to {kept.keys[-1]!r}. Nothing was changed; `slate read-manifest` shows the trees"
        )
    return kept if after is None else _rest(kept, after)


def fold_operands(rows: Rows, order: I64, min_seq: int, operator: MergeOperator) -> tuple[Rows, I64]:
    """The same versions with neighbouring merge operands folded into one.

    An operand above ``min_seq`` stays, since somebody may read between it and the next. Others are folded with those below
    them that expire at the same time, and with the value or tombstone that ends them if that does too; what comes out is
    a value then, and else one operand."""
    flags, seq, expire = rows.flags[order], rows.seq[order], rows.expire_ts[order]
    first = first_of_key(rows.keys, order)
    starts, ends = _groups(readonly(first), readonly(seq), readonly(flags), readonly(expire), np.uint64(min_seq))
    if not len(starts):
        return rows, order
    folded: list[Row] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        versions = [row_at(rows, place) for place in order[start:end].tolist()]
        row = fold(versions[0].key, versions, operator)
        folded.append(row._replace(flags=row.flags | (versions[-1].flags & MERGE)))
    changed = order.copy()
    changed[starts] = np.arange(len(rows), len(rows) + len(starts))
    gone = np.zeros(len(order) + 1, np.int64)
    # Each group keeps its first place, which now stands for all of it.
    np.add.at(gone, starts + 1, 1)
    np.add.at(gone, ends, -1)
    return concat([rows, Rows.of(folded)]), changed[np.cumsum(gone[:-1]) == 0]


@kernel
def _groups(first: U8, seq: U64, flags: U8, expire: I64, min_seq: np.uint64) -> tuple[I64, I64]:
    """The places ``[start, end)`` of versions that fold into one row, two or more each: or an operand alone on a base."""
    count = len(seq)
    starts = np.empty(count, np.int64)
    ends = np.empty(count, np.int64)
    found = 0
    i = 0
    while i < count:
        if not flags[i] & MERGE or seq[i] > min_seq:
            i += 1
            continue
        end = i + 1
        while end < count and not first[end] and flags[end - 1] & MERGE:
            if expire[end] != expire[i] or (flags[end] ^ flags[i]) & HAS_EXPIRE:
                break
            end += 1
        if end > i + 1:
            starts[found] = i
            ends[found] = end
            found += 1
        i = end
    return starts[:found], ends[:found]


def _rest(rows: Rows, after: Mark) -> Rows:
    """The rows behind ``after``."""
    first, last = equal_range(rows.keys, after.key)
    older = np.flatnonzero(rows.seq[first:last] < np.uint64(after.seq))
    return rows.slice(first + int(older[0]) if len(older) else last, len(rows))
