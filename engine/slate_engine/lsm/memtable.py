"""Rows that are not in an SST yet.

The newest rows are Python objects in a dictionary, where a put costs next to nothing. Once there are some hundreds they are
*settled* into columns, which are small, can be searched, sorted and written out without the interpreter, and leave nothing
behind when the memtable has been flushed.

A scan sees them through a :class:`~slate_engine.lsm.sorted_log.SortedLog`, which stays as it is while more is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from slate_engine.format.columns import EMPTY, Rows
from slate_engine.lsm.order import concat
from slate_engine.lsm.row import Row
from slate_engine.lsm.row_log import RowLog
from slate_engine.lsm.sorted_log import Run, SortedLog
from slate_engine.runtime import Runtime

ROW_OVERHEAD = 100
"""What one row costs in memory beyond its key and value: its numbers, and its place in the index, which is at least a third
full. Back-pressure counts it, so that the limit people set is the memory they get."""

OBJECT_OVERHEAD = 300
"""What it costs as long as it is a Python object: the tuple, the dictionary's slot, the objects' headers."""

SETTLED_ROWS, SETTLED_BYTES = 512, 1 << 20
"""So many rows, or so many bytes of them, are made into columns at once: few calls for many rows, and no long pause."""

MANY = 64
"""The rows of a commit as large as this are settled without having been in the dictionary."""

INLINE_ROWS = 10_000
"""Fewer rows than this are sorted or merged at once: handing them to a thread would take longer."""

PIECE_BYTES = 2 << 20
"""So much is copied at a time when a memtable is written out."""


class Memtable:
    """Rows in the order of their commits. Not safe for threads: one event loop owns it, until it is settled for good and
    only read."""

    def __init__(self) -> None:
        self._settled = RowLog()
        self._recent: list[Row] = []
        self._recent_by_key: dict[bytes, list[Row]] = {}
        self._unsettled_bytes = 0
        self._runs: tuple[Run, ...] = ()
        """The settled rows that somebody has scanned, in order; see :class:`SortedLog`."""
        self._sorting = asyncio.Lock()
        self.payload_bytes = 0
        self.first_seq = self.last_seq = 0
        self.max_create_ts = 0
        """Commits carry times that never go back, so the last one has the greatest."""

    def __len__(self) -> int:
        return len(self._settled) + len(self._recent)

    @property
    def memory_bytes(self) -> int:
        in_order = sum(run.nbytes for run in self._runs)
        return self.payload_bytes + ROW_OVERHEAD * len(self) + OBJECT_OVERHEAD * len(self._recent) + in_order

    def insert(self, rows: Sequence[Row]) -> None:
        """Add the rows of one commit. Their sequence number is greater than any here."""
        payload = sum(len(row[0]) + len(row[1]) for row in rows)
        self._note(rows[0].seq, rows[-1].seq, rows[-1].create_ts, payload)
        self._unsettled_bytes += payload
        self._recent += rows
        if len(rows) >= MANY or len(self._recent) >= SETTLED_ROWS or self._unsettled_bytes >= SETTLED_BYTES:
            self.settle()
            return
        for row in rows:
            self._recent_by_key.setdefault(row[0], []).append(row)

    def take_commits(self, rows: Rows, start: int, limit: int) -> int:
        """Add the commits from row ``start`` on until there are ``limit`` bytes here, and the first one in any case. Gives
        the number of the row after them."""
        ends = start + np.append(np.flatnonzero(np.diff(rows.seq[start:])) + 1, len(rows) - start)
        sizes = np.cumsum(rows.keys.lengths[start:] + rows.values.lengths[start:])
        enough = int(np.searchsorted(sizes[ends - start - 1], limit - self.payload_bytes))
        end = int(ends[min(enough, len(ends) - 1)])
        self.extend(rows.slice(start, end))
        return end

    def extend(self, rows: Rows) -> None:
        """Add rows of some commits, in their order, that are columns already."""
        self.settle()
        self._note(int(rows.seq[0]), int(rows.seq[-1]), int(rows.create_ts[-1]), rows.keys.nbytes + rows.values.nbytes)
        self._settled.extend(rows)

    def _note(self, first_seq: int, last_seq: int, create_ts: int, payload: int) -> None:
        if not len(self):
            self.first_seq = first_seq
        self.last_seq, self.max_create_ts = last_seq, create_ts
        self.payload_bytes += payload

    def settle(self) -> None:
        """Make columns of the rows that are objects yet. Once that is done and nothing is inserted any more, every thread
        may read."""
        if self._recent:
            self._settled.append(self._recent)
            self._recent, self._recent_by_key, self._unsettled_bytes = [], {}, 0

    def newest(self, key: bytes, max_seq: int) -> Row | None:
        """The newest version of ``key`` at or below ``max_seq``."""
        for row in reversed(self._recent_by_key.get(key, ())):
            if row.seq <= max_seq:
                return row
        place = self._settled.newest(key, max_seq)
        return self._settled.row(key, place) if place >= 0 else None

    def versions(self, key: bytes, max_seq: int) -> Iterator[Row]:
        """The versions of ``key`` at or below ``max_seq``, newest first."""
        for row in reversed(self._recent_by_key.get(key, ())):
            if row.seq <= max_seq:
                yield row
                max_seq = row.seq - 1  # what was given is not given again, should it settle meanwhile
        place = self._settled.newest(key, max_seq)
        while place >= 0:
            yield self._settled.row(key, place)
            place = self._settled.older(key, place)

    def pieces(self, bytes_at_once: int = PIECE_BYTES) -> Iterator[Rows]:
        """All versions as a sorted run, about so many bytes at a time, those of one key always together. To write them out
        needs little memory beside the rows."""
        if not len(self):
            return
        whole = self._in_order().in_one()
        columns, places = whole.columns, whole.places
        sizes = columns.sizes(places)
        begins = np.cumsum(sizes) - sizes
        # A piece starts with the first key at or after its share of the bytes, and goes to the start of the next.
        shares = np.searchsorted(begins, np.arange(0, self.payload_bytes, bytes_at_once))
        edges = sorted({whole.key_begins(int(share)) for share in shares} | {len(sizes)})
        for start, stop in pairwise(edges):
            yield columns.take(places[start:stop])

    def rows(self) -> Rows:
        """All versions as a sorted run."""
        return concat([EMPTY, *self.pieces()])

    async def in_order(self, runtime: Runtime | None) -> SortedLog:
        """All versions that are here now, to be cut into ranges. Much of it is sorted by ``runtime``, if there is one."""
        in_order = self._in_order()
        if runtime is None or in_order.work < INLINE_ROWS:
            in_order = in_order.completed()
        else:
            async with self._sorting:  # whoever comes meanwhile finds most of it done
                in_order = await runtime.run(self._in_order().completed)
        self._runs = in_order.runs
        return in_order

    def _in_order(self) -> SortedLog:
        self.settle()
        return SortedLog(self._settled.columns, self._runs)
