"""Checkpoints that an open database makes (RFC-0004): what each scope promises, and that it is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


def options(ours: Any, **changes: Any) -> Any:
    return ours.lib.CheckpointOptions(**{"lifetime_ms": None, "source": None, "name": None, **changes})


async def rows_at(ours: Any, store: Any, id: str) -> list[tuple[bytes, bytes]]:
    async with ours.reader(store, reader_mode=ours.lib.ReaderMode.CHECKPOINT(id)) as reader:
        found: list[tuple[bytes, bytes]] = await ours.rows(reader)
        return found


@pytest.mark.parametrize("wal", [True, False])
async def test_all_includes_every_write_before_the_call(ours: Any, wal: bool) -> None:
    store, scope = ours.memory(), ours.lib.CheckpointScope.All(force_flush=True)
    async with ours.db(store, settings=ours.settings(flush_interval=None, wal_enabled=wal)) as db:
        await db.put(b"a", b"1")
        await ours.flush_memtable(db)
        await db.put(b"b", b"2")
        made = await db.create_checkpoint(scope, options(ours, name="all"))
        await db.put(b"c", b"3")
        await db.flush()
        assert await rows_at(ours, store, made.id) == [(b"a", b"1"), (b"b", b"2")]
        admin = ours.lib.AdminBuilder("db", store).build()
        (listed,) = await admin.list_checkpoints("all")
        assert (listed.id, listed.manifest_id) == (made.id, made.manifest_id)
        kept = await admin.read_manifest(made.manifest_id)
        assert [each.id for each in kept.checkpoints] == [made.id], "it rides on the very manifest that it keeps"


async def test_all_without_force_waits_for_the_interval(ours: Any) -> None:
    store, scope = ours.memory(), ours.lib.CheckpointScope.All(force_flush=False)
    async with ours.db(store, settings=ours.settings(flush_interval="200ms")) as db:
        await db.put(b"a", b"1")
        started = asyncio.get_running_loop().time()
        made = await db.create_checkpoint(scope, options(ours))
        assert asyncio.get_running_loop().time() - started > 0.1
        assert await rows_at(ours, store, made.id) == [(b"a", b"1")]


async def test_durable_includes_what_is_stored(ours: Any) -> None:
    store, scope = ours.memory(), ours.lib.CheckpointScope.Durable()
    async with ours.db(store, settings=ours.settings(flush_interval=None)) as db:
        await db.put(b"a", b"1")
        await db.flush()
        await db.put(b"b", b"2")
        made = await asyncio.wait_for(db.create_checkpoint(scope, options(ours, lifetime_ms=60_000)), 5)
        assert await rows_at(ours, store, made.id) == [(b"a", b"1")]
        assert db.status().durable_seq == 1, "nothing was flushed for it"


async def test_the_original_reads_them(original: Any, ours: Any, tmp_path: Any) -> None:
    def folder(kit: Any) -> Any:
        builder = kit.lib.ObjectStoreBuilder(kit.lib.ObjectStoreType.LOCAL)
        builder.with_config("local_path", str(tmp_path))
        return builder.build()

    async with ours.db(folder(ours)) as db:
        await db.put(b"a", b"1")
        made = await db.create_checkpoint(ours.lib.CheckpointScope.All(force_flush=True), options(ours))
        await db.put(b"a", b"2")
        await ours.flush_memtable(db)
        assert await rows_at(original, folder(original), made.id) == [(b"a", b"1")]


async def test_from_another_checkpoint(ours: Any) -> None:
    store, scope = ours.memory(), ours.lib.CheckpointScope.All(force_flush=True)
    async with ours.db(store) as db:
        await db.put(b"a", b"1")
        first = await db.create_checkpoint(scope, options(ours))
        await db.put(b"a", b"2")
        second = await db.create_checkpoint(scope, options(ours, source=first.id))
        assert second.manifest_id == first.manifest_id
        assert await rows_at(ours, store, second.id) == [(b"a", b"1")]


async def test_refusals(ours: Any) -> None:
    scope = ours.lib.CheckpointScope.Durable()
    async with ours.db() as db:
        with pytest.raises(TypeError):
            await db.create_checkpoint("all", options(ours))
        with pytest.raises(ours.lib.Error.Invalid, match="invalid checkpoint_id UUID"):
            await db.create_checkpoint(scope, options(ours, source="x"))
        await db.shutdown()
        assert (await ours.failure(db.create_checkpoint(scope, options(ours))))[0] == "Closed"
    with pytest.raises(RuntimeError, match=r"CheckpointScope\.All, CheckpointScope\.Durable"):
        ours.lib.CheckpointScope()
