"""The compactor and the garbage collector inside an open database."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from slate_engine.errors import InternalError
from slate_engine.lsm.compaction.commit import take_epoch
from slate_engine.lsm.compaction.coordinator import Coordinator
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.stores import CompactionsStore


def quick(kit: Any) -> dict[str, Any]:
    """The compactor of the default settings, which looks often."""
    options: dict[str, Any] = json.loads(kit.lib.Settings.default().to_json_string())["compactor_options"]
    worker = {**options["worker"], "compactions_poll_interval": "20ms"}
    return {**options, "poll_interval": "20ms", "commit_compacted_interval": "20ms", "worker": worker}


def collecting(kit: Any) -> dict[str, Any]:
    """A collector of manifests only, of any age."""
    options: dict[str, Any] = json.loads(kit.lib.Settings.default().to_json_string())["garbage_collector_options"]
    only = {"manifest_options": {"interval": "50ms", "min_age": "0s", "dry_run": False}}
    return {**{name: None if name.endswith("_options") else value for name, value in options.items()}, **only}


async def until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    for _ in range(int(seconds / 0.02)):
        if await condition():
            return
        await asyncio.sleep(0.02)
    pytest.fail("waited too long")


async def newest(kit: Any, store: Any) -> Any:
    return await kit.lib.AdminBuilder("db", store).build().read_manifest(None)


async def filled(kit: Any, db: Any, l0s: int = 4, first: int = 0) -> None:
    for number in range(first, first + l0s):
        await db.put(b"k%02d" % number, b"v%d" % number)
        await db.put(b"same", b"%d" % number)
        await kit.flush_memtable(db)


async def test_a_database_compacts_itself(kit: Any) -> None:
    store = kit.memory()
    async with kit.db(store, settings=kit.settings(compactor_options=quick(kit))) as db:
        assert (await newest(kit, store)).compactor_epoch == 1
        await filled(kit, db)

        async def compacted() -> bool:
            manifest = await newest(kit, store)
            return bool(manifest.compacted) and not manifest.l0

        await until(compacted)
        assert await kit.rows(db) == [*((b"k%02d" % i, b"v%d" % i) for i in range(4)), (b"same", b"3")]


async def test_writing_goes_on_past_a_full_level_0(ours: Any) -> None:
    """With the settings as they are by default nobody has to care for compaction, nor to wait for polls."""
    store, lib = ours.memory(), ours.lib
    builder = lib.DbBuilder("db", store)
    db = await builder.build()
    async with asyncio.timeout(20):
        await filled(ours, db, 20)
    manifest = await newest(ours, store)
    assert len(manifest.l0) <= 8
    assert manifest.compacted
    assert len(await ours.rows(db)) == 21
    await db.shutdown()


async def test_without_options_nothing_is_compacted(ours: Any) -> None:
    store = ours.memory()
    async with ours.db(store) as db:
        await filled(ours, db, 5)
        await asyncio.sleep(0.1)
        manifest = await newest(ours, store)
        assert (manifest.compactor_epoch, len(manifest.l0)) == (0, 5)


async def test_segments_operator_and_codec_are_handed_on(ours: Any) -> None:
    lib, store = ours.lib, ours.memory()

    class FirstOne(lib.PrefixExtractor):  # type: ignore[misc]
        def name(self) -> str:
            return "first one"

        def prefix_len(self, target: Any) -> int | None:
            return 1

    settings = ours.settings(compactor_options=quick(ours), compression_codec="Lz4")
    async with ours.db(store, settings=settings, segment_extractor=FirstOne(), merge_operator=ours.joining()) as db:
        for number in range(4):
            for segment in (b"a", b"b"):
                await db.merge(segment + b"key", b"%d" % number)
            await ours.flush_memtable(db)

        async def compacted() -> bool:
            segments = (await newest(ours, store)).segments
            return all(segment.compacted and not segment.l0 for segment in segments)

        await until(compacted)
        assert await ours.rows(db) == [(b"akey", b"0123"), (b"bkey", b"0123")]
        for segment in (await newest(ours, store)).segments:
            (run,) = segment.compacted
            assert [view.sst.info.compression_codec for view in run.sst_views] == [lib.CompressionCodec.LZ4]


async def test_losing_the_compactors_epoch_leaves_the_writer_alone(ours: Any, caplog: Any) -> None:
    """Where the original closes the whole database, ours goes on: another compactor cares for it now."""
    store = ours.memory()
    async with ours.db(store, settings=ours.settings(compactor_options=quick(ours))) as db:
        await db.put(b"k", b"v")
        files = DatabaseFiles(store.store, "db", store.runtime)
        with caplog.at_level(logging.WARNING):
            await take_epoch(files, CompactionsStore.open(files.store, "db", files.runtime))

            async def told() -> bool:
                return "another compactor has taken over" in caplog.text

            await until(told)
        await (await db.put(b"k", b"w")).await_durable()
        await filled(ours, db, 5)
        assert db.status().close_reason is None
        manifest = await newest(ours, store)
        assert (manifest.compactor_epoch, len(manifest.l0)) == (2, 5)


async def test_a_compactor_that_breaks_down_is_started_again(ours: Any, monkeypatch: Any, caplog: Any) -> None:
    store = ours.memory()
    monkeypatch.setattr("slate_engine.api.companions.PAUSE", 0.05)
    turn, failures = Coordinator.turn, iter([InternalError("a defect"), RuntimeError("another")])

    async def broken(self: Coordinator, **options: Any) -> Any:
        if (failure := next(failures, None)) is not None:
            raise failure
        return await turn(self, **options)

    monkeypatch.setattr(Coordinator, "turn", broken)
    async with ours.db(store, settings=ours.settings(compactor_options=quick(ours))) as db:
        await filled(ours, db)

        async def compacted() -> bool:
            return bool((await newest(ours, store)).compacted)

        await until(compacted)
        assert (await newest(ours, store)).compactor_epoch == 3
        assert "a defect" in caplog.text


async def test_a_fenced_database_compacts_no_more(ours: Any) -> None:
    store, settings = ours.memory(), ours.settings(compactor_options=quick(ours))
    async with ours.db(store, settings=settings) as older, ours.db(store, settings=settings) as newer:
        with pytest.raises(ours.lib.Error.Closed):
            await (await older.put(b"k", b"v")).await_durable()
        await asyncio.sleep(0.1)
        assert all(task.done() for task in older._companions._tasks)
        await older.shutdown()
        await filled(ours, newer)
        assert newer.status().close_reason is None


async def test_nothing_is_left_running_after_shutdown(ours: Any) -> None:
    store = ours.memory()
    before = asyncio.all_tasks()
    settings = ours.settings(compactor_options=quick(ours), garbage_collector_options=collecting(ours))
    async with ours.db(store, settings=settings) as db:
        await filled(ours, db)
    await asyncio.sleep(0.01)
    assert asyncio.all_tasks() == before


async def test_a_database_collects_its_garbage(kit: Any) -> None:
    store = kit.memory()
    async with kit.db(store, settings=kit.settings(garbage_collector_options=collecting(kit))) as db:
        for number in range(5):
            await db.put(b"k%d" % number, b"v")
            await kit.flush_memtable(db)
        admin = kit.lib.AdminBuilder("db", store).build()

        async def collected() -> bool:
            return len(await admin.list_manifests(None, None)) == 1

        await until(collected)
        assert len(await kit.rows(db)) == 5


async def test_slips_in_scheduler_options_are_told(ours: Any) -> None:
    for options, said in (({"min_sources": "4"}, "has no 'min_sources'"), ({"min_compaction_sources": "x"}, "number")):
        builder = ours.lib.DbBuilder("db", ours.memory())
        builder.with_settings(ours.settings(compactor_options={**quick(ours), "scheduler_options": options}))
        kind, message, _ = await ours.failure(builder.build())
        assert kind == "Invalid"
        assert said in message
