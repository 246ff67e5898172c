"""The two engines behind one small face: a live writer and a reading of everything, on a local folder."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import slatedb.uniffi as u

import slate_engine
from slate_engine.errors import ClosedError, Error
from slate_engine.format.columns import MERGE, TOMBSTONE
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.runtime import SystemRuntime
from slate_engine.store.open import open_store
from tests.interop.concurrency.book import Join, Row

PATH = "db"
OURS, ORIGINAL = "ours", "original"
LIBRARIES: dict[str, Any] = {OURS: slate_engine, ORIGINAL: u}


@dataclass(frozen=True)
class Ending:
    """What a writer ended with: the class of the error, why the handle is closed, and what it says."""

    error: str
    reason: str
    message: str

    @staticmethod
    def of(error: BaseException) -> Ending:
        if isinstance(error, Error):
            reason = error.reason.name if isinstance(error, ClosedError) else ""
            return Ending(type(error).__name__, reason, error.message)
        kind = type(error).__qualname__.rpartition(".")[2]
        reason = error.reason.name if isinstance(error, u.Error.Closed) else ""
        return Ending(kind, reason, str(error))


@cache
def runtime() -> SystemRuntime:
    """One for each process: made when it is asked for, because its threads would not survive a fork."""
    return SystemRuntime(threads=2)


def files(folder: Path) -> DatabaseFiles:
    return DatabaseFiles(open_store(f"file://{folder}", runtime=runtime()), PATH, runtime(), Join())


def _joining(lib: Any) -> Any:
    class Joining(lib.MergeOperator):  # type: ignore[misc]
        def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
            return Join().merge(key, existing_value, operand)

    return Joining()


def store_of(lib: Any, folder: Path) -> Any:
    builder = lib.ObjectStoreBuilder(lib.ObjectStoreType.LOCAL)
    builder.with_config("local_path", str(folder))
    return builder.build()


class LiveWriter:
    """A database that is open for writing, by the API that both engines share."""

    def __init__(self, lib: Any, db: Any) -> None:
        self._lib = lib
        self._db = db

    @staticmethod
    async def open(engine: str, folder: Path, l0_bytes: int, *, compactor: bool) -> LiveWriter:
        lib = LIBRARIES[engine]
        settings = lib.Settings.default()
        values: dict[str, object] = {
            "flush_interval": "5ms",
            "manifest_poll_interval": "100ms",
            "l0_sst_size_bytes": l0_bytes,
            "l0_max_ssts": 10_000,
            "l0_max_ssts_per_key": 10_000,
            "garbage_collector_options": None,
        }
        if compactor:
            values |= {
                "compactor_options.poll_interval": "20ms",
                "compactor_options.commit_compacted_interval": "20ms",
                "compactor_options.worker.compactions_poll_interval": "20ms",
            }
        else:
            values |= {"compactor_options": None}
        for name, value in values.items():
            settings.set(name, json.dumps(value))
        builder = lib.DbBuilder(PATH, store_of(lib, folder))
        builder.with_settings(settings)
        builder.with_merge_operator(_joining(lib))
        return LiveWriter(lib, await builder.build())

    async def write(self, changes: Sequence[Change]) -> Any:
        batch = self._lib.WriteBatch()
        for change in changes:
            if change.flags & TOMBSTONE:
                batch.delete(change.key)
            elif change.flags & MERGE:
                batch.merge(change.key, change.value)
            else:
                batch.put(change.key, change.value)
        return await self._db.write(batch)

    async def flush(self) -> None:
        await self._db.flush_with_options(self._lib.FlushOptions(flush_type=self._lib.FlushType.MEM_TABLE))

    async def close(self) -> None:
        await self._db.shutdown()


async def rows_of(snapshot: Snapshot) -> list[Row]:
    return [Row(*row[:3]) async for rows in snapshot.scan() for row in rows.tuples()]


async def read(engine: str, folder: Path) -> list[Row]:
    """Everything that is durable, read anew."""
    if engine == OURS:
        return await rows_of(await files(folder).latest())
    async with original_reader(folder, u.ReaderMode.FOLLOW_LATEST()) as reader:
        return await rows_of_original(reader)


@asynccontextmanager
async def original_reader(folder: Path, mode: Any) -> AsyncIterator[Any]:
    builder = u.DbReaderBuilder(PATH, store_of(u, folder))
    builder.with_reader_mode(mode)
    builder.with_options(
        u.ReaderOptions(
            manifest_poll_interval_ms=20,
            checkpoint_lifetime_ms=60_000,
            max_memtable_bytes=1 << 20,
            skip_wal_replay=False,
        )
    )
    builder.with_merge_operator(_joining(u))
    reader = await builder.build()
    try:
        yield reader
    finally:
        await reader.shutdown()


async def rows_of_original(reader: Any) -> list[Row]:
    found = await reader.scan(u.KeyRange(start=None, start_inclusive=True, end=None, end_inclusive=True))
    rows: list[Row] = []
    while batch := await found.next_batch(1000):
        rows += [Row(row.key, row.value, row.seq) for row in batch]
    return rows
