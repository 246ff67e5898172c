"""Operations over the life of their process, and of their database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import pytest

from slate_engine.admin.destroying import destroy_hard, destroy_softly, undelete
from slate_engine.errors import InvalidError
from slate_engine.gc.options import GcOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.server.admin.operations import KEEP_MS, PREFIX, Operation, Operations, Progress
from slate_engine.server.admin.work import Workbench
from slate_engine.state.tombstone import life_of
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import OVERWRITE, Buffer, PutMode, StoreUnavailable
from tests.server.admin.conftest import files_of, make_database

HARD = {"kind": "destroy", "mode": "hard"}


def process(store: MemoryStore) -> Operations:
    files = files_of(store)
    return Operations(files, Workbench(files, GcOptions()).carry)


async def ended(operations: Operations, id: UUID) -> Operation:
    while True:
        found = await operations.get(id)
        assert found is not None
        if found.finished:
            return found
        await asyncio.sleep(0.01)


async def names(store: MemoryStore) -> list[str]:
    return [meta.key async for page in store.list("") for meta in page]


async def test_a_hard_destroy_may_be_asked_for_again(store: MemoryStore) -> None:
    await make_database(store)
    id, first = uuid4(), process(store)
    await first.submit(id, HARD)
    assert (await ended(first, id)).state == "succeeded"
    assert await names(store) == []
    second = process(store)
    await second.resume()
    assert await second.get(id) is None
    await second.submit(id, HARD)
    again = await ended(second, id)
    assert (again.state, again.result) == ("succeeded", {"objects": 0})
    assert await names(store) == [], "a record is all that there is"


async def test_the_end_is_not_recorded_where_the_database_has_gone(store: MemoryStore) -> None:
    """The record goes with the database. It must not come back, and be all that there is at this path."""
    await make_database(store)
    gone = asyncio.Event()

    async def slow(work: Mapping[str, Any], id: UUID, progress: Progress) -> Mapping[str, Any]:
        await gone.wait()
        return {}

    operations, id = Operations(files_of(store), slow), uuid4()
    await operations.submit(id, {"kind": "collect"})
    await destroy_hard(files_of(store))
    gone.set()
    assert (await ended(operations, id)).state == "succeeded"
    assert await names(store) == []


async def test_nothing_is_recorded_where_there_is_no_database(store: MemoryStore) -> None:
    operations, id = process(store), uuid4()
    await operations.submit(id, {"kind": "undelete"})
    assert (await ended(operations, id)).state == "failed"
    assert await names(store) == []


class Failing(MemoryStore):
    """Does not take what an operation has come to, for a while."""

    failures = 0

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        if self.failures and PREFIX in key and b'"succeeded"' in bytes(data):
            self.failures -= 1
            raise StoreUnavailable("no answer")
        return await super().put(key, data, mode)


async def test_success_is_told_when_it_is_stored(monkeypatch: Any) -> None:
    store = Failing(SystemRuntime())
    await make_database(store)
    carried: list[UUID] = []

    async def carry(work: Mapping[str, Any], id: UUID, progress: Progress) -> Mapping[str, Any]:
        carried.append(id)
        return {}

    class Hasty(SystemRuntime):
        slept = 0

        async def sleep(self, seconds: float) -> None:
            if seconds:
                self.slept += 1
                found = await operations.get(id)
                assert found is not None
                assert found.state == "running", "nobody could hear of it from another process"
            await super().sleep(0)

    runtime = Hasty()
    operations, id = Operations(DatabaseFiles(store, "db", runtime), carry), uuid4()
    store.failures = 3
    await operations.submit(id, {"kind": "collect"})
    assert (await ended(operations, id)).state == "succeeded"
    assert (runtime.slept, carried) == (3, [id])
    stored = json.loads(bytes((await store.get(f"db/{PREFIX}{id}.json")).data))
    assert stored["state"] == "succeeded"


@pytest.mark.parametrize("kind", ["clone", "copy"])
async def test_what_was_made_before_the_process_died_is_found_again(store: MemoryStore, kind: str) -> None:
    """The database was made, and the process died before the record of the operation said so."""
    await make_database(store)
    work, id = {"kind": kind, "target": "made"}, uuid4()
    first = process(store)
    await first.submit(id, work)
    made = await ended(first, id)
    assert made.state == "succeeded", made.problem
    running = Operation(id, work, "running", made.created_ms, made.created_ms)
    await store.put(f"db/{PREFIX}{id}.json", json.dumps(running.document()).encode())
    second = process(store)
    await second.resume()
    again = await ended(second, id)
    assert (again.state, again.result) == ("succeeded", made.result), again.problem
    # The record is gone at last, and the operator asks once more.
    await store.delete([f"db/{PREFIX}{id}.json"])
    third = process(store)
    await third.submit(id, work)
    assert (await ended(third, id)).state == "succeeded"
    other = uuid4()
    await third.submit(other, work)
    refused = await ended(third, other)
    assert refused.state == "failed"
    assert refused.problem is not None
    assert "already" in refused.problem["detail"]


async def test_a_start_that_is_tried_again_begins_nothing_twice(store: MemoryStore) -> None:
    await make_database(store)
    begun: list[UUID] = []
    released = asyncio.Event()

    async def carry(work: Mapping[str, Any], id: UUID, progress: Progress) -> Mapping[str, Any]:
        begun.append(id)
        await released.wait()
        return {}

    id, first = uuid4(), Operations(files_of(store), carry)
    await first.submit(id, {"kind": "collect"})
    await asyncio.sleep(0)
    await first.close()
    begun.clear()
    second = Operations(files_of(store), carry)
    await second.resume()
    await second.resume()
    await asyncio.sleep(0)
    released.set()
    assert (await ended(second, id)).state == "succeeded"
    assert begun == [id]


async def test_old_records_are_deleted(store: MemoryStore) -> None:
    await make_database(store)
    now = SystemRuntime().now_ms()
    old = Operation(uuid4(), {"kind": "collect"}, "succeeded", 1, now - KEEP_MS - 1)
    new = Operation(uuid4(), {"kind": "collect"}, "failed", 1, now - KEEP_MS + 60_000)
    for each in (old, new):
        await store.put(f"db/{PREFIX}{each.id}.json", json.dumps(each.document()).encode())
    operations = process(store)
    await operations.resume()
    assert [each.id for each in await operations.all()] == [new.id]
    assert [name for name in await names(store) if PREFIX in name] == [f"db/{PREFIX}{new.id}.json"]


@pytest.mark.parametrize("success_first", [True, False])
async def test_what_has_succeeded_stays_so_whoever_else_was_at_it(store: MemoryStore, success_first: bool) -> None:
    """The next process does again what the last one is about to finish, and shuts it out by that."""
    await make_database(store)
    lose, win = asyncio.Event(), asyncio.Event()

    async def shut_out(work: Mapping[str, Any], id: UUID, progress: Progress) -> Mapping[str, Any]:
        await lose.wait()
        raise InvalidError("another process was faster")

    async def good(work: Mapping[str, Any], id: UUID, progress: Progress) -> Mapping[str, Any]:
        await win.wait()
        return {"done": 1}

    last, following, id = Operations(files_of(store), shut_out), Operations(files_of(store), good), uuid4()
    await last.submit(id, {"kind": "undelete"})
    await following.resume()
    for process_of_it, event in [(following, win), (last, lose)] if success_first else [(last, lose), (following, win)]:
        event.set()
        told = await ended(process_of_it, id)
    assert (told.state, told.result) == ("succeeded", {"done": 1})
    assert (await ended(process(store), id)).state == "succeeded"


@pytest.mark.parametrize("kind", ["destroy", "undelete"])
async def test_what_a_user_has_taken_back_is_not_done_again(kind: str) -> None:
    """The process that destroyed a database, or brought it back, died before it recorded that. The next one resumes it."""
    store = Failing(SystemRuntime())
    await make_database(store)
    works = {"destroy": {"kind": "destroy", "mode": "soft"}, "undelete": {"kind": "undelete"}}
    undo = undelete if kind == "destroy" else destroy_softly
    if kind == "undelete":
        await destroy_softly(files_of(store))
    before = await life(store)
    store.failures = 1000
    first, id = process(store), uuid4()
    await first.submit(id, works[kind])
    await other_life(store, before)
    await first.close()
    store.failures = 0
    second = process(store)
    await second.resume()
    assert (await ended(second, id)).state == "succeeded", "what is done is found, and not refused"

    store.failures = 1000
    await undo(files_of(store))
    third, other = process(store), uuid4()
    await third.submit(other, works[kind])
    await other_life(store, before)
    await third.close()
    store.failures = 0
    await undo(files_of(store))
    fourth = process(store)
    await fourth.resume()
    failed = await ended(fourth, other)
    assert failed.problem is not None
    assert failed.problem["type"].endswith("overtaken")
    assert await life(store) == before
    await fourth.submit(uuid4(), works[kind])
    await other_life(store, before)


async def life(store: MemoryStore) -> str:
    return life_of((await files_of(store).manifests.read_latest()).value)


async def other_life(store: MemoryStore, before: str) -> None:
    while True:
        if await life(store) != before:
            return
        await asyncio.sleep(0.01)
