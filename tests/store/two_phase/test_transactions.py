"""What every transactional store owes the protocol: an atomic insert, an atomic compare-and-set, reads that miss nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from slate_engine.runtime import SystemRuntime, uuid4
from slate_engine.store.two_phase import TransactionStore
from slate_engine.store.two_phase.record import Record, State, inlined, intent, tombstone

RUNTIME = SystemRuntime()
Connect = Callable[[], TransactionStore]


@pytest.fixture
def root() -> str:
    """A bucket of its own for each test: the table is shared."""
    return f"s3://bucket-{uuid4(RUNTIME)}"


async def listed(store: TransactionStore, prefix: str, *, committed: bool) -> list[Record]:
    found = [record async for page in store.list(prefix, committed=committed) for record in page]
    return sorted(found, key=lambda record: record.destination)


async def test_a_record_comes_back_as_it_was(connect: Connect, root: str) -> None:
    store = connect()
    for record in (
        intent(f"{root}/db/manifest/1", b"x" * 1000, RUNTIME),
        inlined(f"{root}/db/gc/every byte", bytes(range(256)) * 100, RUNTIME),
        inlined(f"{root}/db/gc/empty", b"", RUNTIME),
        tombstone(f"{root}/db/gc/gone", RUNTIME),
    ):
        assert await store.put_if_absent(record) is None
        assert await store.get(record.destination) == record
        assert await connect().get(record.destination) == record


async def test_only_the_first_insert_counts(connect: Connect, root: str) -> None:
    store = connect()
    first, second = (intent(f"{root}/db/1", data, RUNTIME) for data in (b"1", b"2"))
    assert await store.get(first.destination) is None
    assert await store.put_if_absent(first) is None
    assert await store.put_if_absent(second) == first
    assert await store.get(first.destination) == first


async def test_compare_and_set(connect: Connect, root: str) -> None:
    store = connect()
    first, second, third = (inlined(f"{root}/gc/x", data, RUNTIME) for data in (b"1", b"2", b"3"))
    assert not await store.compare_and_set(second, expected=first.version)
    assert await store.get(first.destination) is None
    await store.put_if_absent(first)
    assert await store.compare_and_set(second, expected=first.version)
    assert not await store.compare_and_set(third, expected=first.version)
    assert await store.get(first.destination) == second


async def test_commit_twice(connect: Connect, root: str) -> None:
    store = connect()
    record = intent(f"{root}/db/1", b"1", RUNTIME)
    await store.put_if_absent(record)
    for _ in range(2):
        assert await store.compare_and_set(record.committed(), expected=record.version)
    assert await store.get(record.destination) == record.committed()


async def test_delete(connect: Connect, root: str) -> None:
    store = connect()
    records = [intent(f"{root}/db/{number}", b"", RUNTIME) for number in range(60)]
    for record in records:
        await store.put_if_absent(record)
    await store.delete([*(record.destination for record in records[:59]), f"{root}/never/was"])
    assert await listed(store, f"{root}/", committed=False) == records[59:]
    await store.delete([])
    newer = replace(records[59], version=str(uuid4(RUNTIME)))
    assert not await store.delete_version(newer)
    assert await store.delete_version(records[59])
    assert not await store.delete_version(records[59])
    assert await store.put_if_absent(newer) is None


async def test_listing(connect: Connect, root: str) -> None:
    store = connect()
    names = ["a/1", "a/2", "a/20", "a!", "ab/1", "A/1", "a/ü/1", "a/1 ", "a/1%20", "a/~", "b"]
    records = {name: intent(f"{root}/{name}", b"", RUNTIME) for name in names}
    for record in records.values():
        await store.put_if_absent(record)
    done = records["a/2"] = records["a/2"].committed()
    await store.compare_and_set(done, expected=done.version)

    async def keys(prefix: str, *, committed: bool) -> set[str]:
        found = await listed(store, f"{root}/{prefix}", committed=committed)
        assert all(records[record.destination.removeprefix(f"{root}/")] == record for record in found)
        return {record.destination.removeprefix(f"{root}/") for record in found}

    assert await keys("", committed=False) == set(names) - {"a/2"}
    assert await keys("", committed=True) == {"a/2"}
    assert await keys("a/", committed=False) == {"a/1", "a/20", "a/ü/1", "a/1 ", "a/1%20", "a/~"}
    assert await keys("a", committed=False) == set(names) - {"a/2", "A/1", "b"}
    assert await keys("a/1", committed=False) == {"a/1", "a/1 ", "a/1%20"}
    assert await keys("a/2", committed=True) == {"a/2"}
    assert await keys("c", committed=False) == set()


async def test_names_that_a_careless_database_confuses(connect: Connect, root: str) -> None:
    store = connect()
    for name in ("key", "KEY", "key ", "kéy", "ke\u0301y", "key%20", "key/"):
        assert await store.put_if_absent(intent(f"{root}/{name}", name.encode(), RUNTIME)) is None, name


async def test_many_pages(connect: Connect, root: str) -> None:
    store = connect()
    records = [intent(f"{root}/db/{number:06d}", b"", RUNTIME) for number in range(1200)]
    for start in range(0, len(records), 8):
        await asyncio.gather(*(store.put_if_absent(record) for record in records[start : start + 8]))
    assert await listed(store, f"{root}/db/", committed=False) == records


@pytest.mark.parametrize("what", ["insert", "compare-and-set"])
async def test_of_16_at_once_one_wins(connect: Connect, root: str, what: str) -> None:
    clients = [connect() for _ in range(4)]
    for round in range(25):
        name = f"{root}/gc/{round}"
        base = inlined(name, b"base", RUNTIME)
        rivals = [inlined(name, b"%d" % number, RUNTIME) for number in range(16)]
        if what == "compare-and-set":
            await clients[0].put_if_absent(base)

        async def attempt(number: int, rival: Record, base: Record = base) -> bool:
            store = clients[number % len(clients)]
            if what == "insert":
                return await store.put_if_absent(rival) is None
            return await store.compare_and_set(rival, expected=base.version)

        won = await asyncio.gather(*(attempt(number, rival) for number, rival in enumerate(rivals)))
        assert won.count(True) == 1
        assert await clients[0].get(name) == rivals[won.index(True)]


async def test_states_are_stored_by_name(connect: Connect, root: str) -> None:
    """The table outlives this version of the program, so what stands in it must not depend on an order of enum members."""
    assert [state.value for state in State] == ["pending", "committed", "inline", "deleted"]
