"""The end of the log, as a reader follows it: rows that are in no SST yet, in a few sorted tables in memory.

WAL files come one by one and are small, so each becomes a small table, and neighbours of like size are merged: a read
looks at few tables, and a row is copied a few times only. No table grows beyond a limit, and what a manifest has taken
over into SSTs is dropped.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from slate_engine.format.columns import Rows
from slate_engine.lsm.order import take
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import FETCHES, WalTable, newer_than, read_file, truncated
from slate_engine.lsm.visible import merge_sources
from slate_engine.state.manifest import Manifest


@dataclass(frozen=True)
class WalTail:
    """The rows of all WAL files up to ``last_id`` that are newer than ``after_seq``; ``tables`` begins with the newest."""

    last_id: int
    after_seq: int
    max_table_bytes: int
    tables: tuple[WalTable, ...] = ()

    @property
    def last_seq(self) -> int:
        return self.tables[0].last_seq if self.tables else self.after_seq

    def above(self, manifest: Manifest) -> WalTail:
        """What is left when ``manifest`` counts: rows that it has in SSTs must not be here, too, or a merge operand would
        be applied twice."""
        if manifest.last_l0_seq <= self.after_seq and manifest.replay_after_wal_id <= self.last_id:
            return self
        kept = (_newer(table, manifest.last_l0_seq) for table in self.tables)
        return replace(
            self,
            last_id=max(self.last_id, manifest.replay_after_wal_id),
            after_seq=max(self.after_seq, manifest.last_l0_seq),
            tables=tuple(table for table in kept if table is not None),
        )

    def with_file(self, id: int, in_commit_order: Rows) -> WalTail:
        """The same and the next file."""
        rows = newer_than(in_commit_order, self.after_seq)
        if not len(rows):
            return replace(self, last_id=id)
        tables = [WalTable.of(rows), *self.tables]
        while len(tables) > 1 and self._belong_together(tables[0].sorted.nbytes, tables[1].sorted.nbytes):
            tables[:2] = [_merged(tables[0], tables[1])]
        return replace(self, last_id=id, tables=tuple(tables))

    def _belong_together(self, newer: int, older: int) -> bool:
        return 2 * newer >= older and newer + older <= self.max_table_bytes


async def follow(files: DatabaseFiles, tail: WalTail, until: int | None = None) -> WalTail:
    """``tail`` with the files that come after it: up to ``until``, all of which must be there, or to the first gap."""
    beginning = tail.last_id + 1
    at_once = 1 if until is None else FETCHES
    while until is None or tail.last_id < until:
        first = tail.last_id + 1
        stop = first + at_once if until is None else min(first + at_once, until + 1)
        fetched = await asyncio.gather(*(read_wal_file(files, id) for id in range(first, stop)))
        for id, rows in zip(range(first, stop), fetched, strict=True):
            if rows is None:
                if until is not None:
                    raise await truncated(files.log_store, files.paths, id, range(beginning, until + 1))
                return tail
            tail = tail.with_file(id, rows)
        # Whoever is far behind catches up in large steps; whoever is not asks for the next file only.
        at_once = min(2 * at_once, FETCHES)
    return tail


async def read_wal_file(files: DatabaseFiles, id: int) -> Rows | None:
    """The rows of one WAL file in commit order; None if there is no such file."""
    return await read_file(files.log_store, files.paths, id, files.runtime)


def _merged(newer: WalTable, older: WalTable) -> WalTable:
    rows, order = merge_sources([newer.sorted, older.sorted])
    return WalTable(take(rows, order), newer.last_seq)


def _newer(table: WalTable, seq: int) -> WalTable | None:
    if table.last_seq <= seq:
        return None
    rows = newer_than(table.sorted, seq)
    return table if rows is table.sorted else WalTable(rows, table.last_seq)
