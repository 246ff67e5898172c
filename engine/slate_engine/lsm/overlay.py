"""A snapshot seen through writes that are not committed yet: what a transaction reads.

The writes lie above everything that is committed, so a read resolves the snapshot first and then applies them: values and
deletions stand for themselves, merge operands are folded onto what the snapshot shows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import numpy as np

from slate_engine.format.columns import MERGE, TOMBSTONE, Rows
from slate_engine.format.key_range import ALL, KeyRange
from slate_engine.lsm.commit import Change
from slate_engine.lsm.order import lower_bound, take, upper_bound
from slate_engine.lsm.row import Row
from slate_engine.lsm.snapshot import GENTLE_PARTS, PARTS_AHEAD, UNREAD, Snapshot, Unread
from slate_engine.lsm.table import cut
from slate_engine.lsm.visible import MAX_SEQ, MergeOperator, fold, sort_versions, visible


class PendingWrites:
    """The changes of one transaction, in their order. Until they are committed they have no time, and a sequence number
    above all others."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._by_key: dict[bytes, list[Row]] = {}

    def add(self, change: Change) -> None:
        self.changes.append(change)
        row = Row(change.key, change.value, MAX_SEQ, change.flags & (TOMBSTONE | MERGE), 0, 0)
        if change.flags & MERGE:
            self._by_key.setdefault(change.key, []).append(row)
        else:
            self._by_key[change.key] = [row]

    def versions(self, key: bytes) -> Sequence[Row]:
        """What was done to ``key``, newest first: merges down to the put or delete below them, if there was one."""
        return self._by_key.get(key, ())[::-1]

    def rows(self) -> Rows:
        """All of it as a sorted run."""
        return sort_versions(Rows.of([row for rows in self._by_key.values() for row in rows]))


@dataclass(frozen=True)
class Overlay:
    """``base`` with ``pending`` writes above it. ``rows`` are the writes as they were when a scan began."""

    base: Snapshot
    pending: PendingWrites
    rows: Rows

    @property
    def _operator(self) -> MergeOperator | None:
        return self.base.operator

    def peek(self, key: bytes) -> Row | Unread | None:
        """What the snapshot shows, where nothing lies above it: what does is for :meth:`get`."""
        return UNREAD if self.pending.versions(key) else self.base.peek(key)

    async def get(self, key: bytes, *, keep: bool = True) -> Row | None:
        versions = self.pending.versions(key)
        if not versions:
            return await self.base.get(key, keep=keep)
        if versions[0].flags & TOMBSTONE:
            return None
        if not versions[0].flags & MERGE:
            return versions[0]
        if versions[-1].flags & MERGE and (below := await self.base.get(key, keep=keep)) is not None:
            return fold(key, [*versions, below], self._operator)
        return fold(key, versions, self._operator)

    async def scan(
        self,
        wanted: KeyRange = ALL,
        *,
        values: bool = True,
        descending: bool = False,
        parts: Sequence[int] = GENTLE_PARTS,
        ahead: int = PARTS_AHEAD,
        prefix: bytes | None = None,
    ) -> AsyncIterator[Rows]:
        """The rows of ``wanted``. A batch of the snapshot comes with the writes up to its last key; those that lie beyond
        all of it come last. Values are always read: a merge needs them."""
        waiting = cut(self.rows, wanted)
        batches = self.base.scan(wanted, descending=descending, parts=parts, ahead=ahead, prefix=prefix)
        async for batch in batches:
            if descending:
                at = lower_bound(waiting.keys, batch.keys[len(batch) - 1])
                here, waiting = waiting.slice(at, len(waiting)), waiting.slice(0, at)
            else:
                at = upper_bound(waiting.keys, batch.keys[len(batch) - 1])
                here, waiting = waiting.slice(0, at), waiting.slice(at, len(waiting))
            rows = self._applied(here, batch, descending) if len(here) else batch
            if len(rows):
                yield rows
        if len(rows := self._applied(waiting, None, descending)):
            yield rows

    def _applied(self, writes: Rows, batch: Rows | None, descending: bool) -> Rows:
        below = [] if batch is None else [_turned(batch) if descending else batch]
        rows = visible([writes, *below], MAX_SEQ, self._operator)
        return _turned(rows) if descending else rows


def _turned(rows: Rows) -> Rows:
    return take(rows, np.arange(len(rows) - 1, -1, -1))
