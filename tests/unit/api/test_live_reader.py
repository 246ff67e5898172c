"""Readers as both implementations have them: the newest state, a checkpoint, and their refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(400):
        if await check():
            return
        await asyncio.sleep(0.025)
    raise AssertionError("it did not come to that within 10 s")


def modes(kit: Any) -> list[Any]:
    return [kit.lib.ReaderMode.MANAGED_CHECKPOINT(), kit.lib.ReaderMode.FOLLOW_LATEST()]


async def test_a_reader_sees_level_0_and_the_log(kit: Any) -> None:
    store = kit.memory()
    async with kit.db(store) as db:
        await db.put(b"a", b"flushed")
        await kit.flush_memtable(db)
        handle = await db.put(b"b", b"logged")
        await db.flush()
        for mode in modes(kit):
            async with kit.reader(store, reader_mode=mode, options=kit.reader_options()) as reader:
                assert await kit.rows(reader) == [(b"a", b"flushed"), (b"b", b"logged")]
                assert await reader.get(b"b") == b"logged"
                assert await reader.get(b"absent") is None
                assert (await reader.get_key_value(b"b")).seq == handle.seqnum()
                assert await reader.get_with_options(b"a", kit.read_options(durable=True)) == b"flushed"
                assert reader.status().durable_seq == handle.seqnum()
            skipping = kit.reader_options(skip_wal_replay=True)
            async with kit.reader(store, reader_mode=mode, options=skipping) as reader:
                assert await kit.rows(reader) == [(b"a", b"flushed")]


async def test_readers_follow(kit: Any) -> None:
    store = kit.memory()
    async with kit.db(store) as db:
        await db.put(b"k", b"0")
        await db.flush()
        for mode in modes(kit):
            async with kit.reader(store, reader_mode=mode, options=kit.reader_options()) as reader:
                await db.put(b"k", b"log")
                await db.flush()

                async def shows(value: bytes, reader: Any = reader) -> bool:
                    return bool(await reader.get(b"k") == value)

                await until(lambda shows=shows: shows(b"log"))
                await db.put(b"k", b"level 0")
                await kit.flush_memtable(db)
                await until(lambda shows=shows: shows(b"level 0"))


async def test_only_a_managed_reader_writes(kit: Any) -> None:
    store = kit.memory()
    async with kit.db(store) as db:
        await db.put(b"k", b"v")
        await kit.flush_memtable(db)
    admin = kit.lib.AdminBuilder("db", store).build()
    before = (await admin.read_manifest(None)).id
    async with kit.reader(store, reader_mode=kit.lib.ReaderMode.FOLLOW_LATEST(), options=kit.reader_options()):
        assert (await admin.read_manifest(None)).id == before
        assert await admin.list_checkpoints(None) == []
    async with kit.reader(store):
        (checkpoint,) = await admin.list_checkpoints(None)
        assert checkpoint.manifest_id == before + 1
        assert checkpoint.name is None
        # Ours lasts a minute longer: the clock of whoever collects it may be ahead.
        assert 599 <= checkpoint.expire_time_secs - checkpoint.create_time_secs <= 661
    assert await admin.list_checkpoints(None) == []


async def test_a_checkpoint_stands_still(kit: Any) -> None:
    store, lib = kit.memory(), kit.lib
    async with kit.db(store) as db:
        await db.put(b"k", b"then")
        await kit.flush_memtable(db)
        admin = lib.AdminBuilder("db", store).build()
        options = lib.CheckpointOptions(lifetime_ms=None, source=None, name=None)
        made = await admin.create_detached_checkpoint(options)
        await db.put(b"k", b"now")
        await kit.flush_memtable(db)
        mode = lib.ReaderMode.CHECKPOINT(made.id)
        async with kit.reader(store, reader_mode=mode, options=kit.reader_options()) as reader:
            assert await reader.get(b"k") == b"then"
            await asyncio.sleep(0.15)
            assert await kit.rows(reader) == [(b"k", b"then")]
        assert [each.id for each in await admin.list_checkpoints(None)] == [made.id]


async def test_refusals(kit: Any) -> None:
    store, lib = kit.memory(), kit.lib
    missing = "Data error: failed to find latest transactional object (e.g. manifest) version"
    for mode in modes(kit):
        builder = lib.DbReaderBuilder("nothing", store)
        builder.with_reader_mode(mode)
        kind, message, _ = await kit.failure(builder.build())
        assert kind == "Data"
        assert message.startswith(missing)
    async with kit.db(store):
        unknown = "ffffffff-ffff-ffff-ffff-ffffffffffff"
        builder = lib.DbReaderBuilder("db", store)
        builder.with_reader_mode(lib.ReaderMode.CHECKPOINT(unknown))
        kind, message, _ = await kit.failure(builder.build())
        assert kind == "Data"
        assert message.startswith(f"Data error: checkpoint missing. checkpoint_id=`{unknown}`")
        with pytest.raises(lib.Error.Invalid, match="invalid checkpoint_id UUID: "):
            lib.DbReaderBuilder("db", store).with_reader_mode(lib.ReaderMode.CHECKPOINT("x"))
        assert (await kit.failure(builder.build()))[1] == "builder has already been consumed"


@pytest.mark.parametrize(
    ("interval", "lifetime", "message"),
    [
        (600, 1000, "Invalid error: checkpoint lifetime must be at least double the manifest poll interval."),
        (10_000, 5_000, "Invalid error: checkpoint lifetime must be at least double the manifest poll interval."),
        (10, 500, "Invalid error: invalid checkpoint lifetime."),
    ],
)
async def test_a_lifetime_that_polls_cannot_keep_up_with_is_refused(
    kit: Any, interval: int, lifetime: int, message: str
) -> None:
    store = kit.memory()
    options = kit.reader_options(manifest_poll_interval_ms=interval, checkpoint_lifetime_ms=lifetime)
    async with kit.db(store):
        builder = kit.lib.DbReaderBuilder("db", store)
        builder.with_options(options)
        kind, found, _ = await kit.failure(builder.build())
        assert kind == "Invalid"
        assert found.startswith(message)
        follow = kit.lib.ReaderMode.FOLLOW_LATEST()
        async with kit.reader(store, reader_mode=follow, options=options) as reader:
            assert await reader.get(b"k") is None


async def test_a_lifetime_of_just_two_intervals_is_refused(ours: Any) -> None:
    """RFC-0004 says "greater than"; the original lets it pass."""
    store = ours.memory()
    async with ours.db(store):
        builder = ours.lib.DbReaderBuilder("db", store)
        builder.with_options(ours.reader_options(manifest_poll_interval_ms=500, checkpoint_lifetime_ms=1000))
        assert (await ours.failure(builder.build()))[0] == "Invalid"


async def test_an_expired_checkpoint_is_refused(ours: Any) -> None:
    """What it keeps may vanish at any moment; the original opens it all the same."""
    store, lib = ours.memory(), ours.lib
    async with ours.db(store):
        admin = lib.AdminBuilder("db", store).build()
        made = await admin.create_detached_checkpoint(lib.CheckpointOptions(lifetime_ms=0, source=None, name=None))
        builder = lib.DbReaderBuilder("db", store)
        builder.with_reader_mode(lib.ReaderMode.CHECKPOINT(made.id))
        kind, message, _ = await ours.failure(builder.build())
        assert kind == "Invalid"
        assert "has expired" in message


async def test_after_the_end_everything_says_so(kit: Any) -> None:
    store, lib = kit.memory(), kit.lib
    async with kit.db(store) as db:
        await db.put(b"k", b"v")
        await db.flush()
        async with kit.reader(store) as reader:
            await reader.shutdown()
            assert reader.status().close_reason is lib.CloseReason.CLEAN
            assert reader.status().durable_seq == 1
            for action in (lambda: reader.get(b"k"), lambda: reader.scan(kit.everything)):
                assert await kit.failure(action()) == ("Closed", "Closed error: db is closed", "CLEAN")
            await reader.shutdown()


async def test_each_reads_what_the_other_writes(original: Any, ours: Any, tmp_path: Any) -> None:
    """One folder: our reader follows the original's live writer, and its reader ours."""

    def folder(kit: Any) -> Any:
        builder = kit.lib.ObjectStoreBuilder(kit.lib.ObjectStoreType.LOCAL)
        builder.with_config("local_path", str(tmp_path))
        return builder.build()

    for writing, reading, path in ((original, ours, "theirs"), (ours, original, "ours")):
        async with writing.db(folder(writing), path) as db:
            await db.put(b"a", b"0")
            await db.flush()
            options = reading.reader_options(manifest_poll_interval_ms=100)
            for mode in modes(reading):
                async with reading.reader(folder(reading), path, reader_mode=mode, options=options) as reader:
                    await db.put(b"a", b"logged")
                    await db.flush()
                    await until(lambda reader=reader: _shows(reader, b"logged"))
                    await db.put(b"a", b"flushed")
                    await writing.flush_memtable(db)
                    await until(lambda reader=reader: _shows(reader, b"flushed"))


async def _shows(reader: Any, value: bytes) -> bool:
    return bool(await reader.get(b"a") == value)
