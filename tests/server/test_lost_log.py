"""Services on a database of which the WAL is missing: they are not ready, say why, and show no old rows."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.enums import FlushType
from slate_engine.api.object_store import ObjectStore
from slate_engine.api.options import CloseOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import WalTruncated
from slate_engine.runtime import SystemRuntime
from slate_engine.server.config import Config, ReaderConfig, RespConfig, StoreConfig
from slate_engine.server.health import Health
from slate_engine.server.process import _start
from slate_engine.server.roles.reader import ReaderRole
from slate_engine.server.roles.role import Surroundings
from slate_engine.server.roles.writer import WriterRole
from slate_engine.store.open import open_store

ELSEWHERE = "probably in another store"


async def write(folder: Path, key: bytes) -> None:
    """A row that is in the log only."""
    runtime = SystemRuntime()
    store = ObjectStore.of(open_store(f"file://{folder}", runtime=runtime), runtime)
    db = await DbBuilder("db", store).build()
    await db.put(key, b"1")
    await db.shutdown_with_options(CloseOptions(flush_type=FlushType.WAL))


def surroundings(folder: Path) -> Surroundings:
    config = Config(
        store=StoreConfig(url=f"file://{folder}"),
        path="db",
        resp=RespConfig(port=0),
        reader=ReaderConfig(poll_seconds=0.05, checkpoint_seconds=60),
    )
    return Surroundings(config, SystemRuntime(), CollectorRegistry(), Health(starting=None))


@pytest.mark.parametrize("role", [ReaderRole, WriterRole])
async def test_a_service_does_not_start_without_the_log(tmp_path: Path, role: Any) -> None:
    await write(tmp_path, b"a")
    shutil.rmtree(tmp_path / "db" / "wal")
    around = surroundings(tmp_path)
    with pytest.raises(WalTruncated, match=ELSEWHERE):
        await _start(role(around), around)


async def lose_a_file(files: DatabaseFiles) -> None:
    """The manifest knows of one more file, which is in no store that we know of."""
    await files.manifests.update(lambda old: replace(old, wal_id_last_seen=old.wal_id_last_seen + 1))


async def test_a_reader_that_loses_the_log_is_not_ready_and_shows_nothing(tmp_path: Path) -> None:
    await write(tmp_path, b"a")
    around = surroundings(tmp_path)
    role = ReaderRole(around)
    await role.start()
    reader = role._reader
    assert reader is not None
    assert await reader.get(b"a") == b"1"
    assert around.health.not_ready() == []
    # What it has read is not needed again; what comes next is.
    shutil.rmtree(tmp_path / "db" / "wal")
    await lose_a_file(around.open_files())
    # The reader looks by itself as well; who looks at the same time waits for the other.
    with pytest.raises(WalTruncated, match=ELSEWHERE):
        await reader._refresh()
    [told] = around.health.not_ready()
    assert told.startswith("it refuses reads")
    assert ELSEWHERE in told
    with pytest.raises(WalTruncated, match=ELSEWHERE):
        await reader.get(b"a")
    assert ELSEWHERE in str(role.status()["trouble"])
    await role.drain(5)
