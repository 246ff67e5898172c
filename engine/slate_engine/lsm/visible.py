"""From row versions to the rows that a reader sees.

Sources come newest first; for any key, every version in an earlier source is newer than every version in a later one
(an invariant of the manifest). What a reader at sequence number S sees of a key is its newest version at or below S: a
value as it is, a tombstone as nothing, merge operands folded onto what lies below them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from slate_engine.errors import InvalidError
from slate_engine.format.columns import EMPTY, HAS_CREATE, HAS_EXPIRE, I64, MERGE, TOMBSTONE, U8, U64, Rows
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import readonly
from slate_engine.lsm.order import (
    concat,
    first_of_key,
    is_strictly_ascending,
    key_order,
    newest_first,
    run_bounds,
    take,
)
from slate_engine.lsm.row import Row, row_at

MAX_SEQ = 2**64 - 1


class MergeOperator(Protocol):
    """The user's rule for merge operands: gives the value that ``operand`` makes of ``existing_value``."""

    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes: ...


def visible(sources: Sequence[Rows], max_seq: int = MAX_SEQ, operator: MergeOperator | None = None) -> Rows:
    """The rows that a reader at ``max_seq`` sees, each key once, in key order. Merge operands are folded into values."""
    filled = [rows for rows in sources if len(rows)]
    if not filled:
        return EMPTY
    if len(filled) == 1 and _is_plain(filled[0], max_seq):
        return filled[0]
    rows, order = merge_sources(filled)
    picks = _newest(first_of_key(rows.keys, order), readonly(rows.seq[order]), np.uint64(max_seq))
    newest = order[picks]
    seen = take(rows, newest[(rows.flags[newest] & (TOMBSTONE | MERGE)) == 0])
    operands = picks[(rows.flags[newest] & MERGE) != 0]
    if not len(operands):
        return seen
    folded = [_fold(rows, order, int(pick), operator) for pick in operands]
    both, both_order = merge_sources([seen, Rows.of(folded)])
    return take(both, both_order)


def merge_sources(sources: Sequence[Rows]) -> tuple[Rows, I64]:
    """All versions of all sources as one batch, and the order that sorts it by key, newest version first."""
    rows = concat(sources)
    return rows, key_order(rows.keys, run_bounds([len(source) for source in sources]))


def _is_plain(rows: Rows, max_seq: int) -> bool:
    """Whether every row is a value that the reader sees: then the batch is its own answer, without a copy."""
    return (
        not (rows.flags & (TOMBSTONE | MERGE)).any()
        and int(rows.seq.max()) <= max_seq
        and is_strictly_ascending(rows.keys)
    )


@kernel
def _newest(first: U8, seq: U64, max_seq: np.uint64) -> I64:
    """The places of each key's newest version at or below ``max_seq``, in rows sorted by key, newest version first."""
    places = np.empty(len(seq), np.int64)
    count = 0
    searching = False
    for i in range(len(seq)):
        if first[i]:
            searching = True
        if searching and seq[i] <= max_seq:
            places[count] = i
            count += 1
            searching = False
    return places[:count]


def _fold(rows: Rows, order: I64, place: int, operator: MergeOperator | None) -> Row:
    """The value that the operands from ``place`` on make."""
    key = rows.keys[int(order[place])]
    versions: list[Row] = []
    for row in order[place:].tolist():
        if rows.keys[row] != key:
            break
        versions.append(row_at(rows, row))
        if not versions[-1].flags & MERGE:
            break
    return fold(key, versions, operator)


def fold(key: bytes, versions: Sequence[Row], operator: MergeOperator | None) -> Row:
    """What merge operands (newest first, with the value or tombstone below them as the last, if there is one) come to,
    with the metadata that SlateDB gives it."""
    if operator is None:
        raise InvalidError(
            "Invalid error: merge operator missing. A merge operator is required to read merge operands: open the database "
            f"with the one that key {key!r} was written with"
        )
    base = versions[-1]
    value = None if base.flags & (MERGE | TOMBSTONE) else base.value
    for version in reversed(versions if base.flags & MERGE else versions[:-1]):
        value = operator.merge(key, value, version.value)
    assert value is not None
    created = [version.create_ts for version in versions if version.flags & HAS_CREATE]
    expires = [version.expire_ts for version in versions if version.flags & HAS_EXPIRE]
    flags = (HAS_CREATE if created else 0) | (HAS_EXPIRE if expires else 0)
    return Row(key, value, versions[0].seq, flags, max(created, default=0), min(expires, default=0))


def sort_versions(rows: Rows) -> Rows:
    """Rows in commit order (a WAL, a memtable) as a sorted run: key ascending, newest version first."""
    if len(rows) < 2:
        return rows
    return take(rows, newest_first(rows.keys))
