"""An answer to a write means that the object store has it, unless the client chose otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.exceptions
from redis.asyncio import Redis

from slate_engine.api.db import Db
from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.object_store import ObjectStore
from slate_engine.runtime import SystemRuntime
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import OVERWRITE, Buffer, PutMode
from tests.server.resp.conftest import Server, serve


class HeldStore(MemoryStore):
    """Keeps what is put under a folder waiting until it is let go."""

    def __init__(self, runtime: SystemRuntime, folder: str = "/wal/") -> None:
        super().__init__(runtime)
        self._folder = folder
        self.free = asyncio.Event()
        self.free.set()
        self.wal_puts = 0

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        if self._folder in key:
            self.wal_puts += 1
            await self.free.wait()
        return await super().put(key, data, mode)


@pytest.fixture
async def held() -> HeldStore:
    return HeldStore(SystemRuntime())


@pytest.fixture
async def server(held: HeldStore) -> AsyncIterator[Server]:
    db = await DbBuilder("db", ObjectStore.of(held)).build()
    running = await serve(db)
    yield running
    held.free.set()
    await running.listener.close(1.0)
    if db.status().close_reason is None:
        await db.shutdown()


async def test_a_write_is_answered_when_it_is_stored(server: Server, held: HeldStore) -> None:
    writer, reader = server.client(), server.client()
    await writer.ping()
    held.free.clear()
    writing = asyncio.ensure_future(writer.set("a", "1"))
    async with asyncio.timeout(10):
        while await reader.get("a") is None:
            await reader.ping()
    done, _ = await asyncio.wait([writing], timeout=0.2)
    assert not done, "the write was answered before it was stored"
    held.free.set()
    assert await writing is True
    await writer.aclose()
    await reader.aclose()


async def test_a_client_may_choose_not_to_wait(server: Server, held: HeldStore) -> None:
    writer = server.client(single_connection_client=True)
    assert await writer.execute_command("CLIENT", "SLATE", "DURABILITY") == b"remote"
    assert await writer.execute_command("CLIENT", "SLATE", "DURABILITY", "memory") == b"OK"
    held.free.clear()
    assert await asyncio.wait_for(writer.set("a", "1"), 5) is True
    held.free.set()
    await writer.aclose()


async def test_a_pipeline_of_writes_shares_the_log(server: Server, held: HeldStore) -> None:
    client = server.client()
    await client.ping()
    before = held.wal_puts
    async with client.pipeline(transaction=False) as pipe:
        for number in range(500):
            pipe.set(f"key:{number}", "v")
            pipe.get(f"key:{number}")
        replies = await pipe.execute()
    assert replies == [True, b"v"] * 500
    assert held.wal_puts - before <= 6
    await client.aclose()


async def test_answers_keep_their_order_behind_a_write_that_waits(server: Server, held: HeldStore) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    held.free.clear()
    writer.write(b"SET a 1\r\nGET a\r\nPING\r\n")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readexactly(1), 0.2)
    held.free.set()
    assert await reader.readexactly(19) == b"+OK\r\n$1\r\n1\r\n+PONG\r\n"
    writer.close()


async def test_a_fenced_writer_says_so(server: Server, held: HeldStore) -> None:
    client = server.client()
    await client.set("a", "1")
    successor: Db = await DbBuilder("db", ObjectStore.of(held)).build()
    with pytest.raises(redis.exceptions.ResponseError, match="FENCED"):
        await client.set("a", "2")
    assert await successor.get(b"a") == b"1"
    await successor.shutdown()
    await client.aclose()


async def test_nothing_acknowledged_is_missing_at_the_successor(server: Server, held: HeldStore) -> None:
    acknowledged: set[str] = set()

    async def write(number: int) -> None:
        client: Redis = server.client()
        for step in range(1000):
            key = f"{number}:{step}"
            try:
                await client.set(key, "v")
            except (redis.exceptions.RedisError, OSError):
                break
            acknowledged.add(key)
        await client.aclose()

    writing = [asyncio.ensure_future(write(number)) for number in range(16)]
    probe = server.client()
    while len(acknowledged) < 200:
        await probe.ping()
    await probe.aclose()
    successor: Db = await DbBuilder("db", ObjectStore.of(held)).build()
    await asyncio.gather(*writing)
    assert len(acknowledged) < 16_000, "everything was written before the successor came"
    missing = [key for key in acknowledged if await successor.get(key.encode()) is None]
    assert missing == []
    await successor.shutdown()
