"""A database that SlateDB's own collector has been at: we read its boundaries, write on, and it opens what we leave."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
import slatedb.uniffi as slatedb

from slate_engine.runtime import SystemRuntime
from slate_engine.store.boundary import Boundary
from slate_engine.store.files import FileStore
from slate_engine.store.numbered import NumberedObjects

SAMPLE = Path(__file__).parents[2] / "data" / "store" / "main_gc"
RUNTIME = SystemRuntime()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(SAMPLE, tmp_path / "db")
    return tmp_path


async def test_the_wheel_opens_what_we_wrote_and_collected(folder: Path) -> None:
    store = FileStore(folder, RUNTIME)
    for name, newest_id in (("manifest", 23), ("compactions", 13)):
        text = (SAMPLE / "gc" / f"{name}.boundary").read_text()
        boundary = Boundary(store, "db", name, RUNTIME)
        assert await boundary.read() == int(text) < newest_id
        objects = NumberedObjects(store, f"db/{name}", name, boundary, RUNTIME)
        newest = await objects.latest()
        assert newest is not None
        assert newest.id == newest_id
        assert await objects.create_next(newest_id, newest.data) == newest_id + 1
        assert await objects.advance_boundary(newest_id) == newest_id
        assert (folder / "db" / "gc" / f"{name}.boundary").read_text() == str(newest_id)
        await objects.delete([newest_id])

    builder = slatedb.ObjectStoreBuilder(slatedb.ObjectStoreType.LOCAL)
    builder.with_config("local_path", str(folder))
    database = slatedb.DbBuilder("db", builder.build())
    settings = slatedb.Settings.default()
    settings.set("compactor_options", "null")
    settings.set("garbage_collector_options", "null")
    database.with_settings(settings)
    opened = await asyncio.wait_for(database.build(), 60)
    await opened.put(b"written after us", b"yes")
    assert await opened.get(b"written after us") == b"yes"
    await opened.shutdown_with_options(slatedb.CloseOptions(flush_type=slatedb.FlushType.WAL))

    manifests = NumberedObjects(store, "db/manifest", "manifest", Boundary(store, "db", "manifest", RUNTIME), RUNTIME)
    newest = await manifests.latest()
    assert newest is not None
    assert newest.id > 24
