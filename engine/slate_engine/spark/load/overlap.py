"""Where parts of a load lie over one another: there no key may be in two of them.

All rows of a load have one sequence number, so of two rows with one key nobody could say which counts: a read, a scan and a
compaction would each choose for themselves. A task knows its own rows only. So before the commit the driver goes through the
keys once more, a piece at a time, wherever there is more than one part. Parts that are ranges of keys cost nothing here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from slate_engine.errors import InvalidError
from slate_engine.format.columns import Rows
from slate_engine.format.key_range import ALL, KeyRange
from slate_engine.lsm.levels import Levels
from slate_engine.lsm.order import first_of_key, take_bytes
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.visible import merge_sources
from slate_engine.spark.planning import plan, weigh
from slate_engine.spark.ranges import EVERYTHING
from slate_engine.spark.reading import part_bytes
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import Ssts
from slate_engine.state.tree import SortedRun, Tree, Trees
from slate_engine.state.views import Views

WINDOW_BYTES = 4 << 30
"""The indexes of so much are looked into at a time, to cut it into pieces."""


async def check_no_key_twice(files: DatabaseFiles, runs: Sequence[Ssts], memory: int) -> None:
    """Raises if two runs of a load have a key in common. ``memory`` bounds, roughly, what is held of them at once."""
    if len(runs) < 2:
        return
    tree = Tree(runs=tuple(SortedRun(number, Views.of_ssts(run)) for number, run in enumerate(runs)))
    # What is not committed lies in the database's own folder, whatever its manifest says of others.
    snapshot = Snapshot((), Levels(Trees(tree)), files.tables.opener(Manifest()))
    piece = part_bytes(snapshot, ALL, memory)
    for window in plan(await weigh(snapshot, EVERYTHING, WINDOW_BYTES), EVERYTHING, WINDOW_BYTES):
        for part in plan(await weigh(snapshot, window.ranges, piece), window.ranges, piece):
            for wanted in part.ranges:
                await _check(files, snapshot, wanted)


async def _check(files: DatabaseFiles, snapshot: Snapshot, wanted: KeyRange) -> None:
    levels = snapshot.levels.overlapping(wanted)
    if len(levels) < 2:
        return
    views = [view for level in levels for view in level.overlapping(wanted)]
    read = await asyncio.gather(*(snapshot.open_table(view).rows_in(wanted, values=False) for view in views))
    twice = await files.runtime.run(_key_of_two, [rows for rows in read if len(rows)])
    if twice is not None:
        raise InvalidError(
            f"two partitions have a row with the key {twice!r}. A load is one commit, which has one row a key; nothing was "
            'loaded. Drop duplicates before it, or use load(), which brings them together, with duplicates="any"'
        )


def _key_of_two(sources: Sequence[Rows]) -> bytes | None:
    if len(sources) < 2:
        return None
    rows, order = merge_sources(sources)
    again = order[first_of_key(rows.keys, order) == 0]
    return take_bytes(rows.keys, again[:1])[0] if len(again) else None
