"""Operations over the life of their process, and of their database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import pytest

from slate_engine.admin import restoring
from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint, delete_checkpoint
from slate_engine.admin.copying import mark_key
from slate_engine.admin.destroying import destroy_hard, destroy_softly, undelete
from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.enums import FlushType
from slate_engine.api.object_store import ObjectStore
from slate_engine.api.options import FlushOptions
from slate_engine.errors import InvalidError
from slate_engine.gc.options import GcOptions
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.server.admin.operations import KEEP_MS, PREFIX, Operation, Operations, Progress
from slate_engine.server.admin.work import Workbench
from slate_engine.state.destroy import claimed_for_deletion
from slate_engine.state.manifest import Manifest
from slate_engine.state.tombstone import life_of
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import OVERWRITE, Buffer, PutMode, StoreUnavailable
from slate_engine.store.protocol import ObjectStore as Bucket
from tests.server.admin.conftest import files_of, make_database
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.admin.crashes import at_every_request

UNNAMED: dict[str, Any] = {"kind": "destroy", "mode": "hard"}


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


async def asked(operations: Operations, work: Mapping[str, Any], id: UUID | None = None) -> Operation:
    """What has become of the work."""
    id = id or uuid4()
    await operations.submit(id, work)
    return await ended(operations, id)


def kind_of(failed: Operation) -> str:
    assert failed.problem is not None, failed.result
    return str(failed.problem["type"]).rpartition(":")[2]


async def put(store: MemoryStore, key: bytes) -> None:
    db = await DbBuilder("db", ObjectStore.of(store)).build()
    await db.put(key, b"1")
    await db.shutdown()


async def keys(store: MemoryStore) -> list[bytes]:
    return [key async for rows in (await files_of(store).latest()).scan() for key, *_ in rows.tuples()]


async def test_a_hard_destroy_may_be_asked_for_again(store: MemoryStore) -> None:
    await make_database(store)
    hard = {**UNNAMED, "destroyed_at_s": await destroy_softly(files_of(store))}
    id, first = uuid4(), process(store)
    assert (await asked(first, hard, id)).state == "succeeded"
    assert await names(store) == []
    second = process(store)
    await second.resume()
    assert await second.get(id) is None
    again = await asked(second, hard, id)
    assert (again.state, again.result) == ("succeeded", {"objects": 0})
    assert await names(store) == [], "a record is all that there is"


@pytest.mark.parametrize("life", ["alive", "destroyed"])
@pytest.mark.parametrize("named", [True, False])
async def test_a_repeated_hard_destroy_leaves_the_next_database(store: MemoryStore, life: str, named: bool) -> None:
    """The client did not hear the first answer, and the record of the operation went with the database."""
    await make_database(store)
    since = await destroy_softly(files_of(store))
    await destroy_hard(files_of(store))
    await put(store, b"next")
    if life == "destroyed":
        await destroy_softly(files_of(store))
    second = process(store)
    await second.resume()
    refused = await asked(second, {**UNNAMED, "destroyed_at_s": since - 1 if named else None})
    assert kind_of(refused) == ("brought-back" if named else "destruction-not-named")
    if life == "destroyed":
        await undelete(files_of(store))
    assert await keys(store) == [b"next"]


async def test_a_half_made_clone_needs_no_second(store: MemoryStore) -> None:
    await files_of(store).manifests.create_first(Manifest(initialized=False))
    done = await asked(process(store), UNNAMED)
    assert (done.state, await names(store)) == ("succeeded", []), done.problem


async def test_what_is_being_deleted_already_needs_no_second(store: MemoryStore) -> None:
    await make_database(store)
    now_ms = SystemRuntime().now_ms()
    await files_of(store).manifests.update(lambda old: claimed_for_deletion(old, now_ms=now_ms))
    done = await asked(process(store), UNNAMED)
    assert (done.state, await names(store)) == ("succeeded", []), done.problem


async def test_a_repeated_hard_destroy_leaves_a_copy_that_is_being_made(store: MemoryStore) -> None:
    """It has no manifest before all else is there."""
    copy = [mark_key(files_of(store)), "db/compacted/0.sst"]
    for key in copy:
        await store.put(key, b"")
    done = await asked(process(store), {**UNNAMED, "destroyed_at_s": 1})
    assert (done.state, done.result) == ("succeeded", {"objects": 0})
    assert sorted(await names(store)) == sorted(copy)


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

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, **settings: Any) -> str:
        if self.failures and PREFIX in key and b'"succeeded"' in bytes(data):
            self.failures -= 1
            raise StoreUnavailable("no answer")
        return await super().put(key, data, mode, **settings)


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


# --- a restore that was interrupted --------------------------------------------------------------------------------


async def to_restore(store: MemoryStore) -> dict[str, Any]:
    """A database with the key ``a`` at a checkpoint, and ``b`` since."""
    await make_database(store)
    made = await create_checkpoint(files_of(store), CheckpointOptions(whole_log=True))
    await put(store, b"b")
    return {"kind": "restore", "checkpoint": str(made.id), "keep_seconds": None}


async def interrupted(store: MemoryStore, work: Mapping[str, Any], *, done: bool) -> UUID:
    """A process that dies when the work is recorded, or done and not yet told of."""
    dead = asyncio.Event()
    bench = Workbench(files_of(store), GcOptions())

    async def carry(work: Mapping[str, Any], id: UUID, progress: Progress) -> Mapping[str, Any]:
        if done:
            await bench.carry(work, id, progress)
        dead.set()
        await asyncio.Event().wait()
        return {}

    operations, id = Operations(files_of(store), carry), uuid4()
    await operations.submit(id, work)
    await dead.wait()
    await operations.close()
    return id


async def resumed(store: MemoryStore, id: UUID) -> Operation:
    following = process(store)
    await following.resume()
    return await ended(following, id)


@pytest.mark.parametrize("done", [True, False])
async def test_a_restore_that_nothing_has_overtaken_comes_to_its_end(store: MemoryStore, done: bool) -> None:
    id = await interrupted(store, await to_restore(store), done=done)
    told = await resumed(store, id)
    assert told.state == "succeeded", told.problem
    assert told.result is not None
    assert (told.result["kept"], await keys(store)) == (str(id), [b"a"])


async def test_what_was_written_after_a_restore_stays(store: MemoryStore) -> None:
    """It was done; a client went on from there, and did not need the state before it any more."""
    id = await interrupted(store, await to_restore(store), done=True)
    await put(store, b"c")
    await delete_checkpoint(files_of(store), id)
    assert kind_of(await resumed(store, id)) == "overtaken"
    assert await keys(store) == [b"a", b"c"]


async def test_a_restore_that_is_done_stays_so_when_a_writer_has_gone_on(store: MemoryStore) -> None:
    id = await interrupted(store, await to_restore(store), done=True)
    await put(store, b"c")
    assert (await resumed(store, id)).state == "succeeded"
    assert await keys(store) == [b"a", b"c"]


@pytest.mark.parametrize("recorded_by", ["this release", "an older one"])
async def test_what_was_written_before_a_restore_began_stays(store: MemoryStore, recorded_by: str) -> None:
    id = await interrupted(store, await to_restore(store), done=False)
    if recorded_by == "an older one":
        key = f"db/{PREFIX}{id}.json"
        record = json.loads(bytes((await store.get(key)).data))
        epoch = (await files_of(store).manifests.read_latest()).value.writer_epoch
        record.pop("began", None)
        await store.put(key, json.dumps({**record, "epoch": epoch}).encode())
    await put(store, b"c")
    refused = await resumed(store, id)
    assert kind_of(refused) == "overtaken"
    assert refused.problem is not None
    assert "ask for the restore again" in refused.problem["detail"]
    assert await keys(store) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("flushed_to", [FlushType.WAL, FlushType.MEM_TABLE])
async def test_what_an_open_writer_wrote_before_a_restore_began_stays(
    store: MemoryStore, flushed_to: FlushType
) -> None:
    """It keeps its epoch."""
    work = await to_restore(store)
    db = await DbBuilder("db", ObjectStore.of(store)).build()
    await db.put(b"c", b"1")
    id = await interrupted(store, work, done=False)
    await db.put(b"d", b"1")
    await db.flush_with_options(FlushOptions(flush_type=flushed_to))
    assert kind_of(await resumed(store, id)) == "overtaken"
    await db.shutdown()
    assert await keys(store) == [b"a", b"b", b"c", b"d"]


async def test_what_was_written_amid_a_restore_stays(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process died before the last commit, and then a writer opened the database."""
    work = await to_restore(store)
    begun = asyncio.Event()

    async def dying(*arguments: object) -> int:
        begun.set()
        await asyncio.Event().wait()
        return 0

    first, id = process(store), uuid4()
    with monkeypatch.context() as patch:
        patch.setattr(restoring, "_last_seq", dying)
        await first.submit(id, work)
        await begun.wait()
        await first.close()
    await put(store, b"c")
    assert kind_of(await resumed(store, id)) == "overtaken"
    assert await keys(store) == [b"a", b"b", b"c"]


def test_a_restore_that_died_at_any_request_comes_to_its_end() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        id, checkpoint = uuid4(), uuid4()
        work = {"kind": "restore", "checkpoint": str(checkpoint), "keep_seconds": None}

        async def world() -> MemoryStore:
            bucket = MemoryStore(runtime)
            files = DatabaseFiles(bucket, "db", runtime)
            for key in (b"a", b"b"):
                writer = await Writer.open(files, WriterOptions())
                await (await writer.write([Change(key, b"1")])).durable()
                await writer.close()
                await create_checkpoint(files, CheckpointOptions(id=checkpoint, whole_log=True))
            return bucket

        async def restore_it(bucket: Bucket) -> Operations:
            files = DatabaseFiles(bucket, "db", runtime)
            operations = Operations(files, Workbench(files, GcOptions()).carry)
            await operations.submit(id, work)
            await asyncio.gather(*operations._tasks.values())
            return operations

        async def afterwards(bucket: MemoryStore) -> None:
            known = await (await restore_it(bucket)).get(id)
            assert known is not None
            assert known.state == "succeeded", known.problem
            snapshot = await DatabaseFiles(bucket, "db", runtime).latest()
            assert [key async for rows in snapshot.scan() for key, *_ in rows.tuples()] == [b"a"]

        assert await at_every_request(world, restore_it, afterwards) > 20

    simulate(scenario, 1)
