"""What a checkpoint holds that is made after a writer of ours has closed: all that was durable. SlateDB makes one, too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import slatedb.uniffi as u

from slate_engine.admin.checkpoints import create_checkpoint
from slate_engine.api.db import Db
from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.enums import FlushType
from slate_engine.api.object_store import ObjectStore
from slate_engine.api.options import CloseOptions, FlushOptions
from slate_engine.api.settings import Settings
from tests.interop import ours
from tests.interop.original import Original
from tests.interop.style import Style
from tests.interop.test_clones import files

KEYS = [b"k%d" % number for number in range(10)]


async def opened(them: Original, **settings: str) -> Db:
    store = ObjectStore.of(ours.folder_store(them.folder), ours.RUNTIME)
    chosen = Settings.default()
    for name, value in {"compactor_options": "null", "garbage_collector_options": "null", **settings}.items():
        chosen.set(name, value)
    builder = DbBuilder("db", store)
    builder.with_settings(chosen)
    return await builder.build()


async def write_ten(db: Db) -> None:
    """Five rows in level 0, and five that are durable in the log only."""
    for key in KEYS:
        await db.put(key, b"v")
        if key == KEYS[4]:
            await db.flush_with_options(FlushOptions(flush_type=FlushType.MEM_TABLE))
    await db.flush_with_options(FlushOptions(flush_type=FlushType.WAL))


async def check_checkpoints(them: Original, expected: list[bytes]) -> None:
    """One of ours and one of the original's, each read by both."""
    made = [str((await create_checkpoint(files(them, "db"))).id)]
    made.append(
        (
            await them.admin("db").create_detached_checkpoint(
                u.CheckpointOptions(lifetime_ms=None, source=None, name=None)
            )
        ).id
    )
    for id in made:
        assert [row.key for row in await them.rows("db", id)] == expected
        snapshot = await files(them, "db").checkpoint(id)
        assert [row.key for row in await ours.scan(snapshot)] == expected


@pytest.mark.parametrize("kind", [None, FlushType.WAL, FlushType.MEM_TABLE])
async def test_a_checkpoint_after_a_close_holds_what_was_durable(tmp_path: Path, kind: FlushType | None) -> None:
    them = Original(tmp_path, Style())
    db = await opened(them)
    await write_ten(db)
    await db.shutdown_with_options(CloseOptions(flush_type=kind))
    await check_checkpoints(them, KEYS)


async def test_rows_that_were_not_durable_stay_lost(tmp_path: Path) -> None:
    them = Original(tmp_path, Style())
    db = await opened(them, flush_interval='"1h"')
    await write_ten(db)
    await db.put(b"never durable", b"v")
    await db.shutdown_with_options(CloseOptions(flush_type=None))
    await check_checkpoints(them, KEYS)
    assert [row.key for row in await them.rows("db")] == KEYS


async def test_a_writer_without_log_records_what_it_has_replayed(tmp_path: Path) -> None:
    them = Original(tmp_path, Style())
    async with them.writer("db") as killed:
        for key in KEYS:
            await killed.put(key, b"v")
        await killed.flush()
        # Its end is not waited for: this is what a kill leaves.
        db = await opened(them, wal_enabled="false")
        await db.put(b"never durable", b"v")
        await db.shutdown_with_options(CloseOptions(flush_type=None))
        await check_checkpoints(them, KEYS)


async def test_a_close_whose_flush_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is told to end gives the flush a share of its time, and then cancels the close."""
    them = Original(tmp_path, Style())
    db = await opened(them)
    await write_ten(db)

    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(db._writer, "flush_memtable", never)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(db.shutdown_with_options(CloseOptions(flush_type=FlushType.MEM_TABLE)), 0.05)
    await check_checkpoints(them, KEYS)


async def test_a_close_whose_companions_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    them = Original(tmp_path, Style())
    db = await opened(them)
    await write_ten(db)

    async def fail() -> None:
        raise RuntimeError("the compactor does not end")

    monkeypatch.setattr(db._companions, "close", fail)
    with pytest.raises(RuntimeError, match="does not end"):
        await db.shutdown_with_options(CloseOptions(flush_type=None))
    await check_checkpoints(them, KEYS)


async def test_a_fenced_writer_records_nothing(tmp_path: Path) -> None:
    them = Original(tmp_path, Style())
    db = await opened(them)
    await write_ten(db)
    async with them.writer("db") as successor:
        before = (await files(them, "db").manifests.read_latest()).id
        await db.shutdown_with_options(CloseOptions(flush_type=None))
        assert (await files(them, "db").manifests.read_latest()).id == before
        await successor.put(b"later", b"v")
    await check_checkpoints(them, [*KEYS, b"later"])
