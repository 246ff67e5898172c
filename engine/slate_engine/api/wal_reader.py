"""The write-ahead log as a stream of changes, for those who follow a database from outside."""

from __future__ import annotations

import asyncio

from slate_engine.api import arguments
from slate_engine.api.building import Unmade, instance
from slate_engine.api.db_builder import database_path
from slate_engine.api.enums import RowEntryKind
from slate_engine.api.iterator import items
from slate_engine.api.object_store import ObjectStore
from slate_engine.api.options import SlateDbWalReaderOptions
from slate_engine.api.records import RowEntry, WalRows
from slate_engine.api.wheel_errors import no_database
from slate_engine.errors import DataError, InvalidError
from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, Rows
from slate_engine.lsm.parallelism import read_window
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import wal_frontier, wal_ids
from slate_engine.lsm.wal_tail import read_wal_file

POLL_INTERVAL = 0.1
"""How often to look for the next file at the end of the log, in seconds."""


class SlateDbWalReader:
    """Reads the files of a database's log in their order. Each holds the rows of some commits; those that fence a writer off
    are empty."""

    def __init__(self, path: str, object_store: ObjectStore) -> None:
        self._open(path, object_store, None, SlateDbWalReaderOptions())

    @classmethod
    def with_options(cls, path: str, object_store: ObjectStore, options: SlateDbWalReaderOptions) -> SlateDbWalReader:
        made = cls.__new__(cls)
        made._open(path, object_store, None, options)
        return made

    @classmethod
    def with_wal_object_store(
        cls, path: str, object_store: ObjectStore, wal_object_store: ObjectStore
    ) -> SlateDbWalReader:
        """For a database whose log is in another store."""
        return cls.with_wal_object_store_and_options(path, object_store, wal_object_store, SlateDbWalReaderOptions())

    @classmethod
    def with_wal_object_store_and_options(
        cls, path: str, object_store: ObjectStore, wal_object_store: ObjectStore, options: SlateDbWalReaderOptions
    ) -> SlateDbWalReader:
        made = cls.__new__(cls)
        made._open(path, object_store, instance(wal_object_store, ObjectStore, "wal_object_store"), options)
        return made

    def _open(
        self, path: str, object_store: ObjectStore, wal_store: ObjectStore | None, options: SlateDbWalReaderOptions
    ) -> None:
        wanted = instance(options, SlateDbWalReaderOptions, "options")
        for name in ("max_buffered_bytes", "max_fetch_tasks", "read_ahead_bytes"):
            if arguments.unsigned(getattr(wanted, name), name) == 0:
                raise InvalidError(f"{name} must be greater than zero")
        root, store = database_path(path), instance(object_store, ObjectStore, "object_store")
        self._files: DatabaseFiles = DatabaseFiles(
            store.store, root, store.runtime, wal_store=None if wal_store is None else wal_store.store
        )

    async def last_wal_file_id(self, replay_after_wal_id: int) -> int:
        """The last file that follows ``replay_after_wal_id`` without a gap; that number itself if there is none."""
        after = arguments.unsigned(replay_after_wal_id, "replay_after_wal_id")
        files = self._files
        if await files.manifests.latest() is None:
            raise no_database(files.path, files.store.url)
        return await wal_frontier(files.log_store, files.paths, after)

    async def iterator(self, start_wal_file_id: int) -> SlateDbWalIterator:
        """All files from this one on, those that are yet to be written included."""
        return SlateDbWalIterator.of(self._files, arguments.unsigned(start_wal_file_id, "start_wal_file_id"))


class SlateDbWalIterator(Unmade):
    """Files of the log, one after the other. At the end of the log it waits for the next."""

    _files: DatabaseFiles
    _next_id: int
    _lock: asyncio.Lock

    @classmethod
    def of(cls, files: DatabaseFiles, first_id: int) -> SlateDbWalIterator:
        made = cls.__new__(cls)
        made._files, made._next_id, made._lock = files, first_id, asyncio.Lock()
        return made

    async def next(self) -> WalRows | None:
        """The rows of the next file."""
        async with self._lock:
            id = self._next_id
            while (rows := await read_wal_file(self._files, id)) is None:
                await self._check_is_to_come(id)
                await self._files.runtime.sleep(POLL_INTERVAL)
            self._next_id = id + 1
            return WalRows(rows=_entries(rows), last_consumed_wal_file_id=id)

    async def _check_is_to_come(self, id: int) -> None:
        """A file that is missing is either not written yet, or gone for good: collected when its rows were in SSTs, or
        lost. A writer has a few under way at once, so later ones may be there already."""
        files = self._files
        newest = await files.manifests.latest()
        collected = id == 0 or (newest is not None and id <= newest.value.replay_after_wal_id)
        if newest is not None and id in newest.value.needed_wal_ids:
            await files.check_log(newest.value)
        elif not collected:
            later = await wal_ids(files.log_store, files.paths, id)
            collected = bool(later) and later[-1] > id + await read_window(files)
        # Between the first look and this one it may have been written.
        if collected and await read_wal_file(files, id) is None:
            raise DataError(
                f"WAL was truncated at file {id}: it is not there any more; begin with a later one, or read the database "
                "itself"
            )


def _entries(rows: Rows) -> list[RowEntry]:
    columns = zip(
        items(rows.keys),
        items(rows.values),
        rows.seq.tolist(),
        rows.flags.tolist(),
        rows.create_ts.tolist(),
        rows.expire_ts.tolist(),
        strict=True,
    )
    return [
        RowEntry(
            kind=_kind(flags),
            key=key,
            value=None if flags & TOMBSTONE else value,
            seq=seq,
            create_ts=created if flags & HAS_CREATE else None,
            expire_ts=expires if flags & HAS_EXPIRE else None,
        )
        for key, value, seq, flags, created, expires in columns
    ]


def _kind(flags: int) -> RowEntryKind:
    if flags & TOMBSTONE:
        return RowEntryKind.TOMBSTONE
    return RowEntryKind.MERGE if flags & MERGE else RowEntryKind.VALUE
