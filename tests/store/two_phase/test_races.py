"""The contract of conditional writes, kept on a bucket that answers 200 to everything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from slate_engine.runtime import SystemRuntime, uuid4
from slate_engine.store.protocol import CREATE, Conflict, ObjectStore, PutMode, Update
from slate_engine.store.two_phase import TransactionStore, TwoPhaseStore
from tests.store.two_phase.doubles import Interleaved, LyingStore

ROUNDS = 200
WRITERS = 16
RUNTIME = SystemRuntime()


async def race(stores: list[ObjectStore], key: str, mode: PutMode) -> list[bytes]:
    """16 writers put different bytes under one key at once; the bytes of those that were told that they won."""

    async def attempt(number: int) -> bytes | None:
        data = b"%d:" % number + RUNTIME.random_bytes(8).hex().encode()
        try:
            await stores[number % len(stores)].put(key, data, mode)
        except Conflict:
            return None
        return data

    return [data for data in await asyncio.gather(*map(attempt, range(WRITERS))) if data is not None]


def bucket() -> LyingStore:
    return LyingStore(RUNTIME, name=str(uuid4(RUNTIME)))


async def test_without_two_phase_everybody_wins() -> None:
    """The test of the tests: the bucket below really has no conditional writes."""
    store = bucket()
    assert len(await race([store], "db/manifest/1", CREATE)) == WRITERS
    etag = (await store.head("db/manifest/1")).etag
    assert len(await race([store], "db/manifest/1", Update(etag))) == WRITERS


@pytest.mark.timeout(600)
async def test_of_16_creators_one_wins(connect: Callable[[], TransactionStore]) -> None:
    inner = bucket()
    stores: list[ObjectStore] = [TwoPhaseStore(Interleaved(inner, n), connect(), RUNTIME) for n in range(2)]
    for round in range(ROUNDS):
        key = f"db/manifest/{round:020d}.manifest"
        won = await race(stores, key, CREATE)
        assert len(won) == 1, f"round {round}"
        assert [bytes((await store.get(key)).data) for store in stores] == won * len(stores)
    assert inner.temporaries() == []
    assert len(inner.snapshot()) == ROUNDS


@pytest.mark.timeout(600)
async def test_of_16_updaters_one_wins(connect: Callable[[], TransactionStore]) -> None:
    inner = bucket()
    stores: list[ObjectStore] = [TwoPhaseStore(Interleaved(inner, n), connect(), RUNTIME) for n in range(2)]
    key = "db/gc/manifest.boundary"
    etag = await stores[0].put(key, b"0", CREATE)
    for round in range(ROUNDS):
        won = await race(stores, key, Update(etag))
        assert len(won) == 1, f"round {round}"
        found = [await store.get(key) for store in stores]
        assert [bytes(one.data) for one in found] == won * len(stores)
        etag = found[0].meta.etag
    assert inner.snapshot() == {key: won[0]}


async def test_a_counter_loses_no_increment(connect: Callable[[], TransactionStore]) -> None:
    inner = bucket()
    key = "db/gc/counter"
    stores: list[ObjectStore] = [TwoPhaseStore(Interleaved(inner, n), connect(), RUNTIME) for n in range(2)]
    await stores[0].put(key, b"0", CREATE)

    async def increment(store: ObjectStore) -> None:
        for _ in range(10):
            while True:
                found = await store.get(key)
                try:
                    await store.put(key, b"%d" % (int(bytes(found.data)) + 1), Update(found.meta.etag))
                    break
                except Conflict:
                    continue

    work: list[Awaitable[None]] = [increment(store) for store in stores]
    await asyncio.gather(*work)
    assert bytes((await stores[0].get(key)).data) == b"20"
    assert inner.snapshot() == {key: b"20"}
