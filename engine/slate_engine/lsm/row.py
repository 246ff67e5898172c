"""One row as a Python object, for the edges of the engine where rows are handled one by one."""

from __future__ import annotations

from typing import NamedTuple

from slate_engine.format.columns import HAS_EXPIRE, Rows
from slate_engine.lsm.order import equal_range


class Row(NamedTuple):
    """One version of one key, in the order of the columns of :class:`Rows`."""

    key: bytes
    value: bytes
    seq: int
    flags: int
    create_ts: int
    expire_ts: int

    @property
    def expires_ms(self) -> int | None:
        """When it expires, if it ever does."""
        return self.expire_ts if self.flags & HAS_EXPIRE else None


def row_at(rows: Rows, at: int) -> Row:
    """Row number ``at`` of a batch."""
    return Row(
        rows.keys[at],
        rows.values[at],
        int(rows.seq[at]),
        int(rows.flags[at]),
        int(rows.create_ts[at]),
        int(rows.expire_ts[at]),
    )


def find_versions(rows: Rows, key: bytes, max_seq: int) -> list[Row]:
    """The versions of ``key`` at or below ``max_seq`` in a sorted batch, newest first."""
    first, last = equal_range(rows.keys, key)
    return [row_at(rows, at) for at in range(first, last) if rows.seq[at] <= max_seq]
