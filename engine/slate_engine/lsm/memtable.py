"""Rows that are not in an SST yet.

A dictionary gives the newest version of a key at once, and each version knows the one before it, so a point read at any
sequence number is a short walk. Scans and flushes want columns: they are made on demand from the rows in commit order, and
kept until the next write.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import numpy as np

from slate_engine.format.columns import EMPTY, Bytes, Rows
from slate_engine.lsm.order import key_order
from slate_engine.lsm.row import Row
from slate_engine.lsm.visible import sort_versions

ROW_OVERHEAD = 300
"""What one row costs in memory beyond its key and value: the tuples, the dictionary's slot, the objects' headers.
Back-pressure counts it, so that the limit people set is the memory they get."""

PIECE_KEYS = 16_384
"""So many keys are made into columns at a time when a memtable is written out."""


class Memtable:
    """Rows in the order of their commits. Not safe for threads: one event loop owns it."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._newest: dict[bytes, int] = {}
        """The place in ``_rows`` of the newest version of each key."""
        self._older = array("q")
        """For each row the place of the version before it, or -1. Numbers instead of objects: they take less memory, and
        nothing of Python's collector's time."""
        self._columns: Rows = EMPTY
        self.payload_bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def memory_bytes(self) -> int:
        return self.payload_bytes + ROW_OVERHEAD * len(self._rows)

    @property
    def first_seq(self) -> int:
        return self._rows[0].seq

    @property
    def last_seq(self) -> int:
        return self._rows[-1].seq

    @property
    def max_create_ts(self) -> int:
        """Commits carry times that never go back, so the last one has the greatest."""
        return self._rows[-1].create_ts

    def insert(self, rows: Sequence[Row]) -> None:
        """Add the rows of one commit. Their sequence number is greater than any here."""
        newest, older, payload = self._newest, self._older, 0
        for place, row in enumerate(rows, len(self._rows)):
            key = row[0]
            older.append(newest.get(key, -1))
            newest[key] = place
            payload += len(key) + len(row[1])
        self._rows += rows
        self.payload_bytes += payload

    def versions(self, key: bytes, max_seq: int) -> Iterator[Row]:
        """The versions of ``key`` at or below ``max_seq``, newest first."""
        place = self._newest.get(key, -1)
        while place >= 0:
            row = self._rows[place]
            if row.seq <= max_seq:
                yield row
            place = self._older[place]

    def pieces(self, keys_at_once: int = PIECE_KEYS) -> Iterator[Rows]:
        """All versions as a sorted run, so many keys at a time. To write them out needs little memory beside the rows, and
        no other thread waits long for the interpreter."""
        keys = list(self._newest)
        order = key_order(Bytes.of(keys), np.arange(len(keys) + 1))
        for start in range(0, len(keys), keys_at_once):
            rows: list[Row] = []
            for i in order[start : start + keys_at_once].tolist():
                place = self._newest[keys[i]]
                while place >= 0:
                    rows.append(self._rows[place])
                    place = self._older[place]
            yield Rows.of(rows)

    def rows(self) -> Rows:
        """All versions as a sorted run."""
        if len(self._columns) != len(self._rows):
            self._columns = sort_versions(Rows.of(self._rows))
        return self._columns
