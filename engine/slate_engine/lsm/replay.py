"""The part of a database that is only in its write-ahead log yet.

WAL ids are contiguous above the manifest's ``replay_after_wal_id``. A reader takes the first gap for the end: what lies
behind it was not acknowledged in order, or is still being written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from slate_engine.format.columns import EMPTY, Rows
from slate_engine.format.wal import read_wal
from slate_engine.lsm.order import concat, take
from slate_engine.lsm.paths import Paths
from slate_engine.lsm.row import Row, find_versions
from slate_engine.lsm.visible import sort_versions
from slate_engine.runtime import Runtime
from slate_engine.store.protocol import NotFound, ObjectStore

FETCHES = 16
"""WAL files are small, so many are fetched at once."""


class Replayed:
    """Rows of some WAL files as a sorted run in memory."""

    def __init__(self, in_commit_order: Rows) -> None:
        self._rows = sort_versions(in_commit_order)

    def rows(self) -> Rows:
        return self._rows

    def versions(self, key: bytes, max_seq: int) -> list[Row]:
        return find_versions(self._rows, key, max_seq)


async def wal_ids(store: ObjectStore, paths: Paths, after: int) -> list[int]:
    """All WAL ids above ``after`` that exist, in order."""
    directory = paths.wal_directory + "/"
    ids: list[int] = []
    async for page in store.list(directory, start_after=paths.wal(after)):
        stems = ((meta.key, meta.key.removeprefix(directory).partition(".")[0]) for meta in page)
        # Only the very name counts: a copy of a file beside it must not look like the file again, nor end the WAL.
        ids += [int(stem) for key, stem in stems if stem.isdecimal() and key == paths.wal(int(stem))]
    return ids


async def wal_frontier(store: ObjectStore, paths: Paths, after: int) -> int:
    """The last WAL id that follows ``after`` without a gap; ``after`` itself if there is none."""
    last = after
    for id in await wal_ids(store, paths, after):
        if id != last + 1:
            break
        last = id
    return last


async def replay(store: ObjectStore, paths: Paths, ids: Sequence[int], after_seq: int, runtime: Runtime) -> Replayed:
    """The rows of these WAL files that are newer than ``after_seq``, to read from."""
    return Replayed(await replay_in_order(store, paths, ids, after_seq, runtime))


async def replay_in_order(
    store: ObjectStore, paths: Paths, ids: Sequence[int], after_seq: int, runtime: Runtime
) -> Rows:
    """The same rows in the order in which they were committed. What is not newer than ``after_seq`` is in an SST."""
    slots = asyncio.Semaphore(FETCHES)

    async def fetch(id: int) -> Rows | None:
        async with slots:
            try:
                found = await store.get(paths.wal(id))
            except NotFound:
                return None
            return await runtime.run(_rows_after, found.data, paths.wal(id), after_seq)

    fetched = await asyncio.gather(*(fetch(id) for id in ids))
    return concat([EMPTY, *_until_gap(fetched)])


def _until_gap(files: Iterable[Rows | None]) -> Iterator[Rows]:
    for rows in files:
        if rows is None:
            return
        yield rows


def _rows_after(data: bytes | memoryview, key: str, after_seq: int) -> Rows:
    rows = read_wal(data, object=key)
    newer = np.flatnonzero(rows.seq > np.uint64(after_seq))
    return rows if len(newer) == len(rows) else take(rows, newer)
