"""A command with several keys, and a transaction, see one state: at a writer and at a reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from redis.asyncio import Redis

from slate_engine.api.db import Db
from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.object_store import ObjectStore
from slate_engine.api.options import ReaderOptions
from slate_engine.api.reader import DbReader
from slate_engine.api.reader_builder import DbReaderBuilder
from slate_engine.api.settings import Settings
from slate_engine.runtime import SystemRuntime
from slate_engine.server.gate import Gate
from slate_engine.server.keyspace import Keyspace
from slate_engine.server.resp.listener import Listener
from slate_engine.server.resp.service import RespService
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import Buffer
from tests.server.resp.conftest import Counted, Server

COLD, COLDER = ([f"cold:{number:05}" for number in range(first, 4000, 61)] for first in (0, 30))
"""Each in a block of its own, which has to be fetched the first time."""


class Slow(MemoryStore):
    """Whatever is not in memory takes so long that others write meanwhile."""

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        await asyncio.sleep(0.005)
        return await super().get_ranges(key, ranges)


@pytest.fixture
async def store() -> MemoryStore:
    """With a database in it, of which nothing is in memory."""
    store = Slow(SystemRuntime())
    db = await opened(store)
    for number in range(4000):
        await db.put(b"cold:%05d" % number, b"x" * 500)
    await db.put(b"a", b"0")
    await db.put(b"b", b"0")
    await db.shutdown()
    return store


async def opened(store: MemoryStore, **settings: str) -> Db:
    chosen = Settings.default()
    for name, value in {"flush_interval": '"10ms"', **settings}.items():
        chosen.set(name, value)
    builder = DbBuilder("db", ObjectStore.of(store))
    builder.with_settings(chosen)
    return await builder.build()


async def serving(source: Db | DbReader) -> tuple[Listener, Redis]:
    runtime = SystemRuntime()
    listener = Listener(RespService(Keyspace(source, runtime), Gate(None, runtime), Counted()))
    return listener, Redis(port=await listener.start("127.0.0.1", 0))


@pytest.fixture
async def writing(store: MemoryStore) -> AsyncIterator[Db]:
    """A database whose keys a and b change at once, again and again."""
    db = await opened(store)
    listener, client = await serving(db)
    await client.execute_command("CLIENT", "SLATE", "DURABILITY", "memory")

    ended = asyncio.Event()

    async def change() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            await client.mset({"a": number, "b": number})
            await asyncio.sleep(0.002)

    changing = asyncio.ensure_future(change())
    yield db
    ended.set()
    await changing
    await client.aclose()
    await listener.close(1.0)
    await db.shutdown()


async def torn(client: Redis, command: Callable[[Redis, str], object], keys: list[str]) -> int:
    """How often the two keys differed, although they are only ever written together."""
    found = 0
    for key in keys:
        first, _, last = await command(client, key)  # type: ignore[misc]
        found += first != last
    return found


async def mget(client: Redis, key: str) -> object:
    return await client.mget("a", key, "b")


async def transaction(client: Redis, key: str) -> object:
    async with client.pipeline(transaction=True) as pipe:
        return await pipe.get("a").get(key).get("b").execute()


async def test_at_a_writer(writing: Db) -> None:
    listener, client = await serving(writing)
    assert await torn(client, mget, COLD) == 0
    assert await torn(client, transaction, COLDER) == 0
    await client.aclose()
    await listener.close(1.0)


async def test_at_a_reader(store: MemoryStore, writing: Db) -> None:
    builder = DbReaderBuilder("db", ObjectStore.of(store))
    builder.with_options(
        ReaderOptions(
            manifest_poll_interval_ms=10,
            checkpoint_lifetime_ms=60_000,
            max_memtable_bytes=1 << 20,
            skip_wal_replay=False,
        )
    )
    reader = await builder.build()
    listener, client = await serving(reader)
    assert await torn(client, mget, COLD) == 0
    assert await torn(client, transaction, COLDER) == 0
    assert await client.get("a") != b"0", "nothing was ever seen to change"
    await client.aclose()
    await listener.close(1.0)
    await reader.shutdown()


async def test_exists_counts_at_one_moment(writing: Db) -> None:
    """One of two keys is always there, and never both."""
    listener, client = await serving(writing)
    await client.execute_command("CLIENT", "SLATE", "DURABILITY", "memory")
    await client.set("here", "1")

    ended = asyncio.Event()

    async def swap() -> None:
        mine = Redis(connection_pool=client.connection_pool)
        while not ended.is_set():
            for old, new in (("here", "there"), ("there", "here")):
                async with mine.pipeline(transaction=True) as pipe:
                    await pipe.delete(old).set(new, "1").execute()

    swapping = asyncio.ensure_future(swap())
    assert {await client.exists("here", key, "there") for key in COLD} == {2}
    ended.set()
    await swapping
    await client.aclose()
    await listener.close(1.0)


async def test_a_value_set_in_a_transaction_has_the_default_time_to_live() -> None:
    db = await opened(MemoryStore(SystemRuntime()), default_ttl_millis="50000")
    listener, client = await serving(db)
    async with client.pipeline(transaction=True) as pipe:
        _, ttl, _ = await pipe.set("a", "1").ttl("a").incr("a").execute()
    assert ttl == 50
    assert 0 < await client.ttl("a") <= 50
    await client.aclose()
    await listener.close(1.0)
    await db.shutdown()


async def test_others_have_their_turn_while_a_long_command_runs(server: Server) -> None:
    client = server.client()
    await client.mset({f"key:{number:04}": "v" for number in range(4000)})
    names = [f"key:{number:04}" for number in range(4000)]
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.ensure_future(turn())
    for command in (
        ["MGET", *names],
        ["EXISTS", *names],
        ["KEYS", "*zz*"],
        ["SCAN", "0", "COUNT", "4000"],
        ["SLATE.RANGE", "", "", "LIMIT", "4000"],
        ["MSET", *(word for name in names for word in (name, "w"))],
        ["DEL", *names],
        ["MSETNX", *(word for name in names for word in (name, "w"))],
    ):
        outcome = asyncio.ensure_future(server.at_once(command))
        before = turns
        await outcome
        assert turns - before >= 4, f"nobody else had a turn during {command[0]}"
    turning.cancel()
    await client.aclose()
