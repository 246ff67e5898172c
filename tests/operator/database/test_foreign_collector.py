"""A collector runs before its database is claimed, to do the claiming. Until then it must leave the path alone: told of a
shorter grace than the owner's, it would delete what can still be brought back."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from slate_engine.admin.destroying import destroy_softly
from slate_engine.admin.ownership import Owner, claim, release
from slate_engine.admin.parents import newest_or_none
from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.object_store import ObjectStore as ApiStore
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.server.config import Config, GcConfig, StoreConfig
from slate_engine.server.health import Health
from slate_engine.server.roles.gc import GcRole
from slate_engine.server.roles.role import Surroundings
from slate_engine.store.open import open_store

STORE = "memory:///foreign-collector"
OWNER, OTHER = Owner("owner", "shop", "orders"), Owner("other", "shop", "mistake")


async def is_there() -> bool:
    """Looked at afresh: who has seen a database remembers it."""
    return await newest_or_none(DatabaseFiles(open_store(STORE), "orders", SystemRuntime()).manifests) is not None


async def test_what_is_somebody_elses_is_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slate_engine.server.roles.gc.LOOK_FOR_OWNER", 0.05)
    runtime = SystemRuntime()
    db = await DbBuilder("orders", ApiStore.of(open_store(STORE), runtime)).build()
    await db.put(b"a", b"1")
    await db.shutdown()
    files = DatabaseFiles(open_store(STORE), "orders", runtime)
    await claim(files, OWNER, "database")
    await destroy_softly(files)

    hasty = GcConfig(owner=OTHER.uid, interval=0.05, min_age=0, delete_grace=0)
    config = Config(store=StoreConfig(url=STORE), path="orders", gc=hasty)
    role = GcRole(Surroundings(config, runtime, CollectorRegistry(), Health(runtime)))
    await role.start()
    try:
        await asyncio.sleep(0.5)
        assert await is_there(), "it was deleted by a collector that has no claim"
        await release(files, OWNER.uid)
        await claim(files, OTHER, "destroyed")
        for _ in range(2400):
            await asyncio.sleep(0.05)
            if not await is_there():
                break
        else:
            raise AssertionError("it does not collect what it has claimed")
    finally:
        await role.drain(1)
