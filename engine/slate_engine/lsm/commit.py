"""From the changes that a caller asks for to the rows of one commit: one row for each key, in key order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from slate_engine.errors import InvalidError
from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE
from slate_engine.lsm.row import Row
from slate_engine.lsm.visible import MergeOperator

FOREVER = 2**63
"""An expiry time at or past the end of 64 bits is none."""


class Change(NamedTuple):
    """A put (``flags`` 0), a delete (``TOMBSTONE``) or a merge (``MERGE``). ``ttl_ms`` counts from the commit."""

    key: bytes
    value: bytes
    flags: int = 0
    ttl_ms: int | None = None
    expire_at_ms: int | None = None


def commit_rows(changes: Sequence[Change], seq: int, now_ms: int, operator: MergeOperator | None) -> list[Row]:
    """The rows that ``changes``, applied in their order, come to at ``seq``. A put or a delete of a key undoes what was
    before it; merges gather, and are folded, because a commit has one version of a key only."""
    if any(change.flags & MERGE for change in changes):
        return _with_merges(changes, seq, now_ms, operator)
    last = {change[0]: change for change in changes}
    if any(change[3] is not None or change[4] is not None for change in changes):
        return [_row(last[key], seq, now_ms) for key in sorted(last)]
    # What most batches are made of, for which a call for each row would be much.
    new, kind = tuple.__new__, Row
    in_order = map(last.__getitem__, sorted(last))
    return [new(kind, (key, value, seq, flags | HAS_CREATE, now_ms, 0)) for key, value, flags, _, _ in in_order]


def _row(change: Change, seq: int, now_ms: int) -> Row:
    expires = change.expire_at_ms
    if expires is None and change.ttl_ms is not None:
        expires = now_ms + change.ttl_ms
    if expires is None or expires >= FOREVER or change.flags & TOMBSTONE:
        return Row(change.key, change.value, seq, change.flags | HAS_CREATE, now_ms, 0)
    return Row(change.key, change.value, seq, change.flags | HAS_CREATE | HAS_EXPIRE, now_ms, expires)


def _with_merges(changes: Sequence[Change], seq: int, now_ms: int, operator: MergeOperator | None) -> list[Row]:
    if operator is None:
        raise InvalidError(
            "Invalid error: merge operator missing. A merge operator is required to read merge operands: open the database "
            "with_merge_operator(...)"
        )
    by_key: dict[bytes, list[Change]] = {}
    for change in changes:
        if change.flags & MERGE:
            by_key.setdefault(change.key, []).append(change)
        else:
            by_key[change.key] = [change]
    return [_folded([_row(change, seq, now_ms) for change in by_key[key]], operator) for key in sorted(by_key)]


def _folded(rows: list[Row], operator: MergeOperator) -> Row:
    """One row of several in the order of their writing, of which at most the first is not a merge: the operands are
    folded with each other, and then onto what they build on."""
    base = rows[0]
    # A lone operand is shown to the operator, too: what it refuses must not get into the database.
    if len(rows) == 1 and not base.flags & MERGE:
        return base
    if len({row.expire_ts for row in rows if not row.flags & TOMBSTONE}) > 1:
        raise InvalidError(
            f"Invalid error: only one merge TTL per-key allowed in a batch: those of key {base.key!r} differ; write them in "
            "batches of their own"
        )
    operand: bytes | None = None
    for row in rows:
        if row.flags & MERGE:
            operand = operator.merge(row.key, operand, row.value)
    assert operand is not None
    flags = rows[-1].flags
    if base.flags & MERGE:
        return rows[-1]._replace(value=operand)
    value = operator.merge(base.key, None if base.flags & TOMBSTONE else base.value, operand)
    return rows[-1]._replace(value=value, flags=flags & ~MERGE)
