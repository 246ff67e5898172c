"""Deep copies share nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from slate_engine.admin import copying
from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint, list_checkpoints
from slate_engine.admin.cloning import CloneSource, create_clone
from slate_engine.admin.copying import HOLD_MS, copy_database
from slate_engine.admin.destroying import destroy_hard
from slate_engine.admin.transfers import Transfer
from slate_engine.errors import DataError, InvalidError
from slate_engine.gc.collector import collect_once
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.checkpoints import CheckpointMissing
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import ObjectStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.admin.crashes import at_every_request
from tests.unit.admin.test_cloning import ROWS, beside, parent
from tests.unit.admin.workshop import CountingStore, Database, names
from tests.unit.gc.stalling import StallingStore

A = UUID(int=1, version=4)


async def clone_of_parent(runtime: SimulatedRuntime, store: MemoryStore | None = None) -> Database:
    db = await parent(runtime, store)
    clone = beside(db, "clone")
    await create_clone(clone.files, [CloneSource("parent")])
    clone.seq = 100
    await clone.flush({b"b": b"clone's", b"c": b"3"})
    return clone


CLONES = {**ROWS, b"b": b"clone's"}


def test_a_copy_lives_without_what_it_was_made_from() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        clone = await clone_of_parent(runtime)
        store = clone.store
        assert isinstance(store, CountingStore)
        copy = beside(clone, "copy")
        seen: list[tuple[int, int]] = []
        store.take()
        await copy_database(clone.files, copy.files, progress=lambda done, total: seen.append((done, total)))
        requests = store.take()
        assert requests["copy"] == 3 + 2  # SSTs of both, and the log; no bytes pass through here
        assert seen[0] == (0, 5)
        assert seen[-1] == (5, 5)
        assert (await copy.manifest()).external_dbs == ()
        assert await list_checkpoints(clone.files) == []
        for path in ("clone", "parent"):
            await destroy_hard(beside(clone, path).files)
        assert await copy.values() == CLONES

    simulate(scenario, 1)


def test_of_a_checkpoint_and_to_another_store() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        clone = await clone_of_parent(runtime)
        await create_checkpoint(clone.files, CheckpointOptions(id=A, whole_log=True))
        await clone.flush({b"a": b"later"})
        elsewhere = Database(MemoryStore(runtime, name="elsewhere"), runtime, "backup/of/clone")
        await copy_database(clone.files, elsewhere.files, A)
        assert await elsewhere.values() == CLONES
        assert [each.id for each in await list_checkpoints(clone.files)] == [A]
        assert len(await elsewhere.names("compacted")) == 3

    simulate(scenario, 1)


def test_to_a_bucket_of_the_same_name_elsewhere() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        clone = await clone_of_parent(runtime)
        elsewhere = Database(MemoryStore(runtime), runtime, "clone")
        assert elsewhere.store.url == clone.store.url
        await copy_database(clone.files, elsewhere.files)
        assert await elsewhere.values() == CLONES
        with pytest.raises(InvalidError, match="to itself, nor to where a database stands already"):
            await copy_database(clone.files, elsewhere.files)

    simulate(scenario, 1)


def test_what_is_refused() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        with pytest.raises(InvalidError, match="to itself"):
            await copy_database(db.files, DatabaseFiles(db.store, "/parent/", runtime))
        other = await beside(db, "other").make()
        with pytest.raises(InvalidError, match="there is a database already"):
            await copy_database(db.files, other.files)
        assert await list_checkpoints(db.files) == []

    simulate(scenario, 1)


def test_what_is_given_up_can_be_destroyed() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        clone = await clone_of_parent(runtime)
        store = StallingStore(clone.store)  # type: ignore[arg-type]
        store.stall(lambda key: key.startswith("copy/manifest/"))
        copy = asyncio.ensure_future(
            copy_database(DatabaseFiles(store, "clone", runtime), DatabaseFiles(store, "copy", runtime))
        )
        await store.stalled.wait()
        copy.cancel()
        await asyncio.gather(copy, return_exceptions=True)
        assert len(await destroy_hard(beside(clone, "copy").files)) == 6  # five objects, and the mark
        assert await names(clone.store, "copy/") == []
        assert await clone.values() == CLONES
        assert await list_checkpoints(clone.files) == []

    simulate(scenario, 1)


def test_a_copy_that_fails_says_why_and_holds_nothing() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        clone = await clone_of_parent(runtime)
        lost = (await clone.names("compacted"))[0]
        await clone.store.delete([f"clone/compacted/{lost}"])
        with pytest.raises(DataError, match=f"clone/compacted/{lost} is needed for copy/compacted/{lost}"):
            await copy_database(clone.files, beside(clone, "copy").files)
        assert await list_checkpoints(clone.files) == []
        with pytest.raises(CheckpointMissing):
            await copy_database(clone.files, beside(clone, "copy").files, A)

        async def strangers_error(transfers: Sequence[Transfer], done: Callable[[], None]) -> None:
            raise OSError("no executor is left")

        with pytest.raises(OSError, match="no executor"):
            await copy_database(clone.files, beside(clone, "copy").files, move=strangers_error)
        assert await list_checkpoints(clone.files) == []

    simulate(scenario, 1)


def test_while_it_lasts_the_source_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of many hours is held all the time, although no promise is for longer than one."""
    monkeypatch.setattr(copying, "BATCH", 1)

    async def scenario(runtime: SimulatedRuntime) -> None:
        bucket = CountingStore(runtime)
        await clone_of_parent(runtime, bucket)
        copy = bucket.copy

        async def slow(source: str, destination: str) -> None:
            await runtime.sleep(0.6 * HOLD_MS / 1000)
            await collect_once(DatabaseFiles(bucket, "clone", runtime))
            await copy(source, destination)

        bucket.copy = slow  # type: ignore[method-assign]
        await copy_database(DatabaseFiles(bucket, "clone", runtime), DatabaseFiles(bucket, "copy", runtime))
        assert await Database(bucket, runtime, "copy").values() == CLONES

    simulate(scenario, 1)


def test_a_crash_at_any_request_and_a_repetition_give_one_good_copy() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        async def world() -> MemoryStore:
            store = CountingStore(runtime)
            await clone_of_parent(runtime, store)
            return store

        async def work(store: ObjectStore) -> None:
            await copy_database(DatabaseFiles(store, "clone", runtime), DatabaseFiles(store, "copy", runtime))

        async def afterwards(bucket: MemoryStore) -> None:
            copy = Database(bucket, runtime, "copy")
            if await copy.files.manifests.latest() is None or "copy/gc/copying" in bucket._objects:
                # Once the mark is gone, so is what would tell a copy of ours from any other database.
                await work(bucket)
            assert await copy.values() == CLONES
            assert await names(bucket, "copy/gc/") == []
            await runtime.sleep(HOLD_MS / 1000 + 1)
            clone = DatabaseFiles(bucket, "clone", runtime)
            await collect_once(clone)
            assert await list_checkpoints(clone) == []

        assert await at_every_request(world, work, afterwards) > 15

    simulate(scenario, 1)
