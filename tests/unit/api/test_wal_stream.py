"""The log as a stream of changes, as both implementations have it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from slate_engine.runtime import SystemRuntime
from slate_engine.store.memory import MemoryStore


async def test_rows_come_as_they_were_committed(kit: Any) -> None:
    store, lib = kit.memory(), kit.lib
    patient = kit.settings(flush_interval="1h")  # a file for each flush that is asked for, however slow the machine
    async with kit.db(store, merge_operator=kit.joining(), settings=patient) as db:
        put = await db.put(b"b", b"1")
        await db.flush()
        await db.delete(b"b")
        await db.merge(b"m", b"x")
        await db.put_with_options(b"a", b"2", kit.living(after=60_000), lib.WriteOptions())
        await db.flush()
        reader = lib.SlateDbWalReader("db", store)
        tail = await reader.last_wal_file_id(0)
        # Ours has three files, the fence and one for each flush. The original may write one more on a slow machine.
        assert tail == 3 if lib.__name__ == "slate_engine" else tail >= 3
        assert await reader.last_wal_file_id(tail) == tail
        assert await reader.last_wal_file_id(100) == 100
        stream = await reader.iterator(1)
        files = [await stream.next() for _ in range(tail)]
        assert [file.last_consumed_wal_file_id for file in files] == list(range(1, tail + 1))
        assert files[0].rows == [], "the fence of the writer"
        (row,) = files[1].rows
        assert (row.kind, row.key, row.value, row.seq) == (lib.RowEntryKind.VALUE, b"b", b"1", 1)
        assert (row.create_ts, row.expire_ts) == (put.create_ts(), None)
        rest = [row for file in files[2:] for row in file.rows]
        kinds = [(row.kind.name, row.key, row.value) for row in rest]
        assert kinds == [("TOMBSTONE", b"b", None), ("MERGE", b"m", b"x"), ("VALUE", b"a", b"2")]
        assert rest[2].expire_ts == rest[2].create_ts + 60_000


async def test_at_the_end_it_waits(kit: Any) -> None:
    store = kit.memory()
    async with kit.db(store) as db:
        await db.put(b"a", b"1")
        await db.flush()
        reader = kit.lib.SlateDbWalReader("db", store)
        stream = await reader.iterator(await reader.last_wal_file_id(0) + 1)
        waiting = asyncio.ensure_future(stream.next())
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await db.put(b"b", b"2")
        await db.flush()
        file = await asyncio.wait_for(waiting, 10)
        assert [row.key for row in file.rows] == [b"b"]


async def test_what_is_gone_is_an_error(kit: Any) -> None:
    store = kit.memory()
    async with kit.db(store) as db:
        await db.put(b"a", b"1")
        await db.flush()
        stream = await kit.lib.SlateDbWalReader("db", store).iterator(0)
        kind, message, _ = await kit.failure(stream.next())
        assert kind == "Data"
        assert message.startswith("WAL was truncated at file 0")


async def test_a_hole_in_the_log_is_an_error_and_not_the_end(ours: Any) -> None:
    memory = MemoryStore(SystemRuntime())
    store = ours.lib.ObjectStore.of(memory)
    async with ours.db(store) as db:
        for value in (b"1", b"2", b"3"):
            await db.put(b"k", value)
            await db.flush()
        await memory.delete(["db/wal/00000000000000000002.sst"])
        stream = await ours.lib.SlateDbWalReader("db", store).iterator(1)
        assert (await stream.next()).rows == []
        kind, message, _ = await ours.failure(asyncio.wait_for(stream.next(), 10))
        assert kind == "Data"
        assert message.startswith("WAL was truncated at file 2")


async def test_refusals(kit: Any) -> None:
    lib, store = kit.lib, kit.memory()
    for option in ("max_buffered_bytes", "max_fetch_tasks", "read_ahead_bytes"):
        with pytest.raises(lib.Error.Invalid, match=f"{option} must be greater than zero"):
            lib.SlateDbWalReader.with_options("db", store, lib.SlateDbWalReaderOptions(**{option: 0}))
    with pytest.raises(TypeError):
        lib.SlateDbWalReader(1, store)
    reader = lib.SlateDbWalReader("nothing", store)
    kind, message, _ = await kit.failure(reader.last_wal_file_id(0))
    assert kind == "Data"
    assert "failed to find latest transactional object (e.g. manifest) version" in message
    with pytest.raises(ValueError, match="0"):
        await reader.iterator(-1)


async def test_a_log_in_a_store_of_its_own(kit: Any) -> None:
    main, log = kit.memory(), kit.memory()
    async with kit.db(main, wal_object_store=log) as db:
        await db.put(b"k", b"v")
        await db.flush()
        reader = kit.lib.SlateDbWalReader.with_wal_object_store("db", main, log)
        assert await reader.last_wal_file_id(0) == 2
        stream = await reader.iterator(2)
        assert [row.key for row in (await stream.next()).rows] == [b"k"]
