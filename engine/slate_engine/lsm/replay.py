"""The part of a database that is only in its write-ahead log yet.

WAL ids are contiguous above the manifest's ``replay_after_wal_id``. The first gap in a listing that is above the manifest's
``wal_id_last_seen`` is the end: what lies behind it was not acknowledged in order, or is still being written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slate_engine.errors import DataError
from slate_engine.format.columns import EMPTY, I64, Bytes, Rows
from slate_engine.format.key_range import KeyRange
from slate_engine.format.wal import read_wal
from slate_engine.lsm.cuts import marks
from slate_engine.lsm.order import concat, take, take_bytes
from slate_engine.lsm.paths import Paths
from slate_engine.lsm.row import Row, find_versions
from slate_engine.lsm.table import cut
from slate_engine.lsm.visible import sort_versions
from slate_engine.runtime import Runtime
from slate_engine.store.protocol import NotFound, ObjectStore

FETCHES = 16
"""WAL files are small, so many are fetched at once."""


AHEAD_BYTES = 32 << 20
"""Large files are fetched a few at a time, so that not much more than this waits in memory."""

INLINE_BYTES = 64 * 1024
"""A smaller file is decoded at once: handing it to a thread would take longer."""


class WalTruncated(DataError):
    """A file of the log is missing that a manifest needs. A newer manifest may not need it any more."""

    def __init__(self, id: int, message: str) -> None:
        super().__init__(message)
        self.id = id


@dataclass(frozen=True)
class WalTable:
    """Rows of some neighbouring WAL files as a sorted run in memory."""

    sorted: Rows
    last_seq: int

    @staticmethod
    def of(in_commit_order: Rows) -> WalTable:
        last_seq = int(in_commit_order.seq[-1]) if len(in_commit_order) else 0
        return WalTable(sort_versions(in_commit_order), last_seq)

    def rows(self) -> Rows:
        return self.sorted

    async def in_order(self, runtime: Runtime | None) -> WalTable:
        return self

    def within(self, wanted: KeyRange) -> list[Rows]:
        return [cut(self.sorted, wanted)]

    def marks(self, wanted: KeyRange) -> Iterator[tuple[Bytes, I64]]:
        rows = cut(self.sorted, wanted)
        picks, sizes = marks(len(rows), rows.nbytes)
        yield take_bytes(rows.keys, picks), sizes

    def newest(self, key: bytes, max_seq: int) -> Row | None:
        return next(iter(self.versions(key, max_seq)), None)

    def versions(self, key: bytes, max_seq: int) -> list[Row]:
        return find_versions(self.sorted, key, max_seq)


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


async def truncated(store: ObjectStore, paths: Paths, id: int, needed: Sequence[int]) -> WalTruncated:
    """The error for a file that is missing among those that a state needs. It says which cause is likely, by what else is
    there."""
    first, last = needed[0], needed[-1]
    found = await wal_ids(store, paths, first - 1)
    if any(first <= each <= last for each in found):
        cause = (
            "Other files of these exist, so this one was lost or deleted. Restore the file, or clone or copy a "
            "checkpoint that does not need it"
        )
    else:
        cause = (
            "None of these exists in this store, so the WAL is probably in another store. Give the URL of that store: "
            "--wal-store or SLATE_WAL_STORE for commands, SLATE_STORE__WAL_URL for services, walUrl for Spark, "
            "with_wal_object_store in Python. If the WAL was in this store, restore it, or clone or copy a checkpoint that "
            "does not need it"
        )
    return WalTruncated(
        id,
        f"Data error: wal truncated at wal file {id}: {paths.wal(id)} is missing in {store.url}. The state needs the WAL "
        f"files {first} to {last}. {cause}",
    )


async def check_present(store: ObjectStore, paths: Paths, needed: range) -> None:
    """Raises :class:`WalTruncated` unless all of these files are there. Something has to keep them from the collector."""
    if needed:
        last = await wal_frontier(store, paths, needed.start - 1)
        if last < needed[-1]:
            raise await truncated(store, paths, last + 1, needed)


async def read_file(store: ObjectStore, paths: Paths, id: int, runtime: Runtime) -> Rows | None:
    """The rows of one WAL file in commit order; None if there is no such file."""
    key = paths.wal(id)
    try:
        data = (await store.get(key)).data
    except NotFound:
        return None
    if len(data) < INLINE_BYTES:
        return read_wal(data, object=key)
    return await runtime.run(lambda: read_wal(data, object=key))


async def replay(store: ObjectStore, paths: Paths, ids: Sequence[int], after_seq: int, runtime: Runtime) -> WalTable:
    """The rows of these WAL files that are newer than ``after_seq``, to read from."""
    return WalTable.of(await replay_in_order(store, paths, ids, after_seq, runtime))


async def replay_in_order(
    store: ObjectStore, paths: Paths, ids: Sequence[int], after_seq: int, runtime: Runtime
) -> Rows:
    """The same rows in the order in which they were committed."""
    return concat([EMPTY, *[rows async for rows in replay_files(store, paths, ids, after_seq, runtime)]])


async def replay_files(
    store: ObjectStore, paths: Paths, ids: Sequence[int], after_seq: int, runtime: Runtime
) -> AsyncGenerator[Rows, None]:
    """The same rows, file by file. What is not newer than ``after_seq`` is in an SST. All of the files are known to have
    been there, so one that is missing is a loss, and not the end of the log."""

    async def fetch(id: int) -> Rows:
        rows = await read_file(store, paths, id, runtime)
        if rows is None:
            raise await truncated(store, paths, id, ids)
        return newer_than(rows, after_seq)

    pending: deque[asyncio.Task[Rows]] = deque()
    at_once = 1
    try:
        for id in ids:
            while len(pending) >= at_once:
                rows = await pending.popleft()
                at_once = max(1, min(2 * at_once, FETCHES, AHEAD_BYTES // max(1, rows.nbytes)))
                yield rows
            pending.append(asyncio.ensure_future(fetch(id)))
        while pending:
            yield await pending.popleft()
    finally:
        for task in pending:
            task.cancel()
        # Several may have failed for the same reason, which the first has told.
        await asyncio.gather(*pending, return_exceptions=True)


def newer_than(rows: Rows, seq: int) -> Rows:
    """Those above a sequence number."""
    newer = np.flatnonzero(rows.seq > np.uint64(seq))
    return rows if len(newer) == len(rows) else take(rows, newer)
