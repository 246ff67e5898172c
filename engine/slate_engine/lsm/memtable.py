"""Rows that are not in an SST yet.

A dictionary gives the newest version of a key at once, and each version links to the one before it, so a point read at any
sequence number is a short walk. Scans and flushes want columns: they are made on demand from the rows in commit order, and
kept until the next write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from slate_engine.format.columns import EMPTY, Rows
from slate_engine.lsm.row import Row
from slate_engine.lsm.visible import sort_versions

ROW_OVERHEAD = 360
"""What one row costs in memory beyond its key and value: the tuples, the dictionary's slot, the objects' headers.
Back-pressure counts it, so that the limit people set is the memory they get."""


class Version(NamedTuple):
    """A row and the next older version of the same key in this memtable."""

    row: Row
    older: Version | None


class Memtable:
    """Rows in the order of their commits. Not safe for threads: one event loop owns it."""

    def __init__(self) -> None:
        self._newest: dict[bytes, Version] = {}
        self._rows: list[Row] = []
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

    def insert(self, rows: Iterable[Row]) -> None:
        """Add the rows of one commit. Their sequence number is greater than any here."""
        newest, listed, payload = self._newest, self._rows, 0
        for row in rows:
            newest[row.key] = Version(row, newest.get(row.key))
            listed.append(row)
            payload += len(row.key) + len(row.value)
        self.payload_bytes += payload

    def versions(self, key: bytes, max_seq: int) -> Iterator[Row]:
        """The versions of ``key`` at or below ``max_seq``, newest first."""
        version = self._newest.get(key)
        while version is not None:
            if version.row.seq <= max_seq:
                yield version.row
            version = version.older

    def rows(self) -> Rows:
        """All versions as a sorted run."""
        if len(self._columns) != len(self._rows):
            self._columns = sort_versions(Rows.of(self._rows))
        return self._columns
