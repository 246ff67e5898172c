"""What keeps a handle useful when the world does not stand still: objects that vanish, calls that are given up, a level 0
that is full, a second event loop, a cache that is shared."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

import slate_engine
from slate_engine.format.ids import Ulid
from slate_engine.runtime import SystemRuntime
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import ManifestStore
from slate_engine.store.memory import MemoryStore

RUNTIME = SystemRuntime()


class Slow(MemoryStore):
    """A store in which reading parts of objects takes a while."""

    pause = 0.0

    async def get_ranges(self, key: str, ranges: Any) -> Any:
        await asyncio.sleep(self.pause)
        return await super().get_ranges(key, ranges)


def store_of(memory: MemoryStore) -> Any:
    return slate_engine.ObjectStore.of(memory, RUNTIME)


async def rewrite_level_0(memory: MemoryStore) -> None:
    """What a compaction and a merciless collector do: the same rows in other objects, and the old ones deleted."""
    manifests = ManifestStore.open(memory, "db", RUNTIME)
    l0 = (await manifests.read_latest()).value.root.l0
    names = {view.id: Ulid.new(RUNTIME, view.sst.id.ms + 1) for view in l0}
    for view in l0:
        await memory.copy(f"db/compacted/{view.sst.id}.sst", f"db/compacted/{names[view.id]}.sst")

    def change(old: Manifest) -> Manifest:
        moved = [replace(view, id=names[view.id], sst=replace(view.sst, id=names[view.id])) for view in old.root.l0]
        return old.with_root(replace(old.root, l0=type(old.root.l0).of(moved)))

    await manifests.update(change)
    await memory.delete([f"db/compacted/{view.sst.id}.sst" for view in l0])


async def fill(ours: Any, db: Any, count: int = 3000) -> None:
    batch = ours.lib.WriteBatch()
    for i in range(count):
        batch.put(b"%06d" % i, b"x" * 100)
    await db.write(batch)
    await ours.flush_memtable(db)


@pytest.mark.parametrize("descending", [False, True])
async def test_a_scan_goes_on_in_the_objects_that_replaced_its_own(ours: Any, descending: bool) -> None:
    memory = MemoryStore(RUNTIME)
    async with ours.db(store_of(memory)) as db:
        await fill(ours, db)
        before = await ours.rows(db)
        scan = await db.scan_with_options(ours.everything, ours.scan_options(descending=descending))
        first = await scan.next_batch(10)
        await db.put(b"000000", b"later")
        await rewrite_level_0(memory)
        rows = [(row.key, row.value) for row in first + await scan.next_batch(10_000)]
        assert rows == (before[::-1] if descending else before)


@pytest.mark.parametrize("durable_only", [False, True])
async def test_so_do_those_of_snapshots_and_transactions(ours: Any, durable_only: bool) -> None:
    memory = MemoryStore(RUNTIME)
    options = ours.scan_options(durable=durable_only)
    async with ours.db(store_of(memory), settings=ours.settings(flush_interval=None)) as db:
        await fill(ours, db)
        durable = await ours.rows(db)
        await db.put(b"000000", b"not durable yet")
        sources = [await db.snapshot(), await db.begin(ours.lib.IsolationLevel.SNAPSHOT)]
        scans = [await source.scan_with_options(ours.everything, options) for source in sources]
        await db.put(b"000001", b"later")
        await db.flush()
        await rewrite_level_0(memory)
        for scan in scans:
            rows = [(row.key, row.value) for row in await scan.next_batch(10_000)]
            assert rows == (durable if durable_only else [(b"000000", b"not durable yet"), *durable[1:]])


async def test_reads_look_again_where_an_object_has_gone(ours: Any) -> None:
    memory = MemoryStore(RUNTIME)
    settings = ours.settings(manifest_poll_interval="1h")
    async with ours.db(store_of(memory), settings=settings) as db:
        await fill(ours, db)
        snapshot = await db.snapshot()
        mode, options = ours.lib.ReaderMode.FOLLOW_LATEST(), ours.reader_options(manifest_poll_interval_ms=3_600_000)
        async with ours.reader(store_of(memory), reader_mode=mode, options=options) as reader:
            await rewrite_level_0(memory)
            for source in (db, snapshot, reader):
                assert await source.get(b"000007") == b"x" * 100
            await rewrite_level_0(memory)
            scan = await reader.scan(ours.everything)
            kind, message, _ = await ours.failure(scan.next())
            assert kind == "Data"
            assert "was deleted while it was being read" in message


async def test_an_object_that_is_really_lost_is_an_error(ours: Any) -> None:
    memory = MemoryStore(RUNTIME)
    async with ours.db(store_of(memory)) as db:
        await fill(ours, db)
        lost = [meta.key async for page in memory.list("db/compacted/") for meta in page]
        await memory.delete(lost)
        for action in (db.get(b"000007"), (await db.scan(ours.everything)).next()):
            kind, message, _ = await ours.failure(action)
            assert kind == "Data"
            assert lost[0] in message


async def test_a_call_that_is_given_up_loses_no_rows(ours: Any) -> None:
    memory = Slow(RUNTIME)
    async with ours.db(store_of(memory)) as db:
        await fill(ours, db, 20_000)
        scan = await db.scan(ours.everything)
        found, given_up = await scan.next_batch(5), 0
        memory.pause = 0.2
        while not found or found[-1].key != b"019999":
            try:
                found += await asyncio.wait_for(scan.next_batch(3000), 0.02)
            except TimeoutError:
                given_up += 1
                memory.pause = 0.2 if given_up % 4 else 0.0
        assert given_up > 1
        assert [row.key for row in found] == [b"%06d" % i for i in range(20_000)]
        assert await scan.next() is None


async def test_a_full_level_0_does_not_hold_up_the_end(ours: Any) -> None:
    store = ours.memory()
    async with ours.db(store, settings=ours.settings(l0_max_ssts=2)) as db:
        for i in range(2):
            await db.put(b"%d" % i, b"v")
            await ours.flush_memtable(db)
        await db.put(b"2", b"v")
        await asyncio.wait_for(db.shutdown(), 10)
    manifest = await ours.lib.AdminBuilder("db", store).build().read_manifest(None)
    assert len(manifest.l0) == 2
    async with ours.reader(store, reader_mode=ours.lib.ReaderMode.FOLLOW_LATEST()) as reader:
        assert [key for key, _ in await ours.rows(reader)] == [b"0", b"1", b"2"]
    made = (
        await ours.lib.AdminBuilder("db", store)
        .build()
        .create_detached_checkpoint(ours.lib.CheckpointOptions(lifetime_ms=None, source=None, name=None))
    )
    async with ours.reader(store, reader_mode=ours.lib.ReaderMode.CHECKPOINT(made.id)) as reader:
        assert len(await ours.rows(reader)) == 3, "the manifest says how far the log goes"


def test_a_database_belongs_to_its_event_loop(ours: Any) -> None:
    loop = asyncio.new_event_loop()
    try:
        store = ours.memory()
        db = loop.run_until_complete(slate_engine.DbBuilder("db", store).build())
        reader = loop.run_until_complete(slate_engine.DbReaderBuilder("db", store).build())
        snapshot = loop.run_until_complete(db.snapshot())

        async def elsewhere() -> None:
            for action in (
                lambda: db.get(b"k"),
                lambda: db.put(b"k", b"v"),
                lambda: db.scan(ours.everything),
                lambda: db.flush(),
                lambda: snapshot.get(b"k"),
                lambda: reader.get(b"k"),
                lambda: reader.scan(ours.everything),
            ):
                with pytest.raises(slate_engine.Error.Invalid, match="another event loop"):
                    await action()

        asyncio.run(elsewhere())
        loop.run_until_complete(reader.shutdown())
        loop.run_until_complete(db.shutdown())
    finally:
        loop.close()


async def test_settings_for_parts_that_do_not_run_are_named_in_the_log(
    ours: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="slate_engine"):
        settings = ours.settings()
        settings.set("object_store_cache_options.root_folder", '"somewhere"')
        async with ours.db(settings=settings):
            pass
        said = [record for record in caplog.records if "settings without effect" in record.message]
        assert len(said) == 1
        assert "object_store_cache_options" in said[0].message
        caplog.clear()
        async with ours.db():
            pass
        assert not [record for record in caplog.records if "settings without effect" in record.message]


@pytest.mark.parametrize("kind", ["foyer", "moka", "split"])
async def test_databases_share_a_cache(ours: Any, kind: str) -> None:
    lib = ours.lib
    one = lib.DbCache.new_foyer_cache(lib.FoyerCacheOptions(max_capacity=1 << 20, shards=1))
    if kind == "moka":
        options = lib.MokaCacheOptions(max_capacity=1 << 20, time_to_live=60_000, time_to_idle=None)
        one = lib.DbCache.new_moka_cache(options)
    elif kind == "split":
        one = lib.DbCache.new_split_cache(
            one, lib.DbCache.new_foyer_cache(lib.FoyerCacheOptions(max_capacity=99_999, shards=1))
        )
    memories = [MemoryStore(RUNTIME), MemoryStore(RUNTIME)]
    for number, memory in enumerate(memories):
        builder = lib.DbBuilder("db", store_of(memory))
        builder.with_db_cache(one, number)
        db = await builder.build()
        await fill(ours, db)
        assert await db.get(b"000001") == b"x" * 100
        manifest = await lib.AdminBuilder("db", store_of(memory)).build().read_manifest(None)
        held = len(one.blocks) + (0 if one.meta is one.blocks else len(one.meta))
        assert held == 3 * (number + 1), "index, filter and a block of each"
        if number:
            await db.evict_cached_sst(manifest.l0[0].sst.id)
            assert len(one.blocks) + (0 if one.meta is one.blocks else len(one.meta)) == 3
            assert await db.get(b"000001") == b"x" * 100
        await db.shutdown()


async def test_without_a_cache_reads_still_work(ours: Any) -> None:
    store = ours.memory()
    builder = ours.lib.DbBuilder("db", store)
    builder.with_db_cache_disabled()
    db = await builder.build()
    await fill(ours, db)
    assert await db.get(b"000001") == b"x" * 100
    assert len(db._files.tables.cache) == 0
    await db.shutdown()


async def test_a_read_that_is_not_to_be_kept_leaves_no_block(ours: Any) -> None:
    async with ours.db() as db:
        await fill(ours, db)
        cache = db._files.tables.cache
        assert await db.get_with_options(b"000001", ours.read_options(cache_blocks=False)) == b"x" * 100
        kept = len(cache)
        assert await db.get_with_options(b"000001", ours.read_options()) == b"x" * 100
        assert len(cache) == kept + 1
