"""What a writer has done so far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tally:
    """Numbers that only grow."""

    bytes_written: int
    waits_for_room: int
    memtables_flushed: int
    l0_bytes: int
    wal_files: int
    wal_bytes: int
