"""The open database: reads, writes, durability and its end, as both implementations have them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


async def test_what_is_written_is_read_with_its_metadata(kit: Any) -> None:
    async with kit.db() as db:
        first = await db.put(b"a", b"1")
        assert (first.seqnum(), first.create_ts() > 1_600_000_000_000) == (1, True)
        second = await db.put(b"empty", b"")
        found = await db.get_key_value(b"a")
        assert (found.key, found.value, found.seq, found.expire_ts) == (b"a", b"1", 1, None)
        assert found.create_ts == first.create_ts() <= second.create_ts()
        assert await db.get(b"empty") == b""
        assert await db.get(b"absent") is None
        assert await db.get_key_value(b"absent") is None
        await db.delete(b"a")
        assert await db.get(b"a") is None
        await second.await_durable()
        assert db.status().durable_seq >= 2


async def test_any_bytes_like_key_and_value_will_do(kit: Any) -> None:
    async with kit.db() as db:
        await db.put(bytearray(b"k"), memoryview(b"v"))
        assert await db.get(memoryview(b"k")) == b"v"
        for wrong in ("text", 3, None):
            with pytest.raises(TypeError):
                await db.put(wrong, b"v")
            with pytest.raises(TypeError):
                await db.put(b"k", wrong)
            with pytest.raises(TypeError):
                await db.get(wrong)


async def test_a_caller_may_choose_rising_sequence_numbers(kit: Any) -> None:
    async with kit.db() as db:

        def put(seq: int) -> Any:
            return db.put_with_options(b"k", b"v", kit.living(), kit.lib.WriteOptions(seqnum=seq))

        assert (await put(10)).seqnum() == 10
        assert (await put(0)).seqnum() == 11
        for seq in (3, 11):
            kind, message, _ = await kit.failure(put(seq))
            assert kind == "Invalid"
            assert message.startswith("Invalid error: invalid sequence number, must be greater than the current max.")


async def test_times_to_live_show_as_expiry_times(kit: Any) -> None:
    settings = kit.settings(default_ttl_millis=5_000)
    async with kit.db(settings=settings) as db:
        plain = await db.put(b"default", b"v")
        now = plain.create_ts()
        options = kit.lib.WriteOptions()
        await db.put_with_options(b"after", b"v", kit.living(after=60_000), options)
        await db.put_with_options(b"at", b"v", kit.living(at=now + 77_000), options)
        await db.put_with_options(b"ever", b"v", kit.living(), options)
        await db.delete(b"none")
        found = {row.key: row for row in await (await db.scan(kit.everything)).next_batch(10)}
        assert found[b"default"].expire_ts == found[b"default"].create_ts + 5_000
        assert found[b"after"].expire_ts == found[b"after"].create_ts + 60_000
        assert found[b"at"].expire_ts == now + 77_000
        assert found[b"ever"].expire_ts is None
        assert (await db.get_key_value(b"at")).expire_ts == now + 77_000


async def test_an_expired_row_is_visible_until_it_is_flushed(kit: Any) -> None:
    async with kit.db() as db:
        await db.put_with_options(b"k", b"v", kit.living(at=5), kit.lib.WriteOptions())
        assert await db.get(b"k") == b"v"
        await kit.flush_memtable(db)
        assert await db.get(b"k") is None


async def test_a_durable_read_sees_only_what_is_stored(kit: Any) -> None:
    async with kit.db(settings=kit.settings(flush_interval=None)) as db:
        await db.put(b"k", b"old")
        await db.flush()
        handle = await db.put(b"k", b"new")
        durable = kit.read_options(durable=True)
        assert await db.get_with_options(b"k", durable) == b"old"
        assert await db.get_with_options(b"k", kit.read_options(cache_blocks=False)) == b"new"
        assert (await db.get_key_value_with_options(b"k", durable)).seq == 1
        assert await kit.rows(db, options=kit.scan_options(durable=True)) == [(b"k", b"old")]
        assert db.status().durable_seq == 1
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(handle.await_durable(), 0.1)
        await db.flush()
        await handle.await_durable()
        assert await db.get_with_options(b"k", durable) == b"new"
        assert db.status().durable_seq == 2


async def test_without_a_log_a_flush_writes_level_0(kit: Any) -> None:
    store = kit.memory()
    async with kit.db(store, settings=kit.settings(wal_enabled=False)) as db:
        handle = await db.put(b"k", b"v")
        wal = kit.lib.FlushOptions(flush_type=kit.lib.FlushType.WAL)
        kind, message, _ = await kit.failure(db.flush_with_options(wal))
        assert kind == "Invalid"
        assert message.startswith("Invalid error: attempted a WAL operation when the WAL is disabled")
        assert db.status().durable_seq == 0
        await db.flush()
        await handle.await_durable()
        assert db.status().durable_seq == 1
        await db.put(b"last", b"v")
    admin = kit.lib.AdminBuilder("db", store).build()
    assert len((await admin.read_manifest(None)).l0) == 2
    async with kit.db(store) as db:
        assert await db.get(b"last") == b"v"


async def test_what_was_written_survives_closing(kit: Any) -> None:
    store, lib = kit.memory(), kit.lib
    for flush_type in (lib.FlushType.WAL, lib.FlushType.MEM_TABLE):
        async with kit.db(store) as db:
            await db.put(flush_type.name.encode(), b"v")
            await db.shutdown_with_options(lib.CloseOptions(flush_type=flush_type))
    async with kit.db(store) as db:
        assert [key for key, _ in await kit.rows(db)] == [b"MEM_TABLE", b"WAL"]
        assert await kit.rows(db) == [(b"MEM_TABLE", b"v"), (b"WAL", b"v")]


async def test_shutdown_flushes_to_level_0(kit: Any) -> None:
    store = kit.memory()
    async with kit.db(store) as db:
        await db.put(b"k", b"v")
    manifest = await kit.lib.AdminBuilder("db", store).build().read_manifest(None)
    assert (len(manifest.l0), manifest.last_l0_seq) == (1, 1)


async def test_after_the_end_everything_says_so(kit: Any) -> None:
    lib = kit.lib
    async with kit.db() as db:
        await db.put(b"k", b"v")
        snapshot, scan = await db.snapshot(), await db.scan(kit.everything)
        transaction = await db.begin(lib.IsolationLevel.SNAPSHOT)
        await transaction.put(b"k", b"w")
        await db.shutdown()
        assert db.status().close_reason is lib.CloseReason.CLEAN
        batch = lib.WriteBatch()
        batch.put(b"k", b"v")
        sst = lib.SsTableId(value="01ARZ3NDEKTSV4RRFFQ69G5FAV")
        for action in (
            lambda: db.get(b"k"),
            lambda: db.put(b"k", b"v"),
            lambda: db.delete(b"k"),
            lambda: db.write(batch),
            lambda: db.scan(kit.everything),
            lambda: db.snapshot(),
            lambda: db.begin(lib.IsolationLevel.SNAPSHOT),
            lambda: db.flush(),
            lambda: db.shutdown(),
            lambda: db.warm_sst(sst, []),
            lambda: db.flush_cache_to_disk(),
            lambda: snapshot.get(b"k"),
            lambda: snapshot.scan(kit.everything),
            lambda: transaction.get(b"k"),
            lambda: transaction.commit(),
        ):
            assert await kit.failure(action()) == ("Closed", "Closed error: db is closed", "CLEAN")
        # What is wrong with a request is said before the state of the handle, and what a scan has it hands out.
        assert (await kit.failure(db.get(b"")))[1] == "key cannot be empty"
        assert (await scan.next()).key == b"k"


async def test_a_newer_writer_fences_the_older(kit: Any) -> None:
    store, lib = kit.memory(), kit.lib
    async with kit.db(store) as older:
        await older.put(b"a", b"1")
        await older.flush()
        async with kit.db(store) as newer:
            await newer.put(b"b", b"2")

            async def write() -> None:
                await (await older.put(b"c", b"3")).await_durable()

            kind, message, reason = await kit.failure(write())
            assert (kind, reason) == ("Closed", "FENCED")
            assert message.startswith("Closed error: detected newer DB client")
            assert older.status().close_reason is lib.CloseReason.FENCED
            for action in (lambda: older.get(b"a"), lambda: older.put(b"a", b"1"), lambda: older.flush()):
                kind, message, reason = await kit.failure(action())
                assert (kind, reason) == ("Closed", "FENCED")
            await older.shutdown()
            assert older.status().close_reason is lib.CloseReason.FENCED
            await newer.flush()
            assert await kit.rows(newer) == [(b"a", b"1"), (b"b", b"2")]
