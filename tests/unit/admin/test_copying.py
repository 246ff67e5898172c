"""Deep copies share nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from slate_engine.admin import copying
from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint, list_checkpoints
from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.admin.copying import HOLD_MS, copy_database
from slate_engine.admin.destroying import destroy_hard
from slate_engine.admin.transfers import Transfer, carry_out
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


def test_a_finished_copy_of_another_request_is_refused() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        clone = await clone_of_parent(runtime)
        copy, other = beside(clone, "copy"), UUID(int=2, version=4)
        made = await copy_database(clone.files, copy.files, id=A)
        await clone.flush({b"b": b"later"})
        assert await copy_database(clone.files, copy.files, id=A) == made
        for id in (None, other):
            with pytest.raises(InvalidError, match="there is a database already"):
                await copy_database(clone.files, copy.files, id=id)
        # A client that died before it took its mark away has left it at a database of an older state.
        await clone.store.put("copy/gc/copying", f"{clone.store.url} clone as it is".encode())
        with pytest.raises(InvalidError, match="there is a database already"):
            await copy_database(clone.files, copy.files)
        await destroy_hard(copy.files)
        assert await names(clone.store, "copy/") == []

    simulate(scenario, 1)


@pytest.mark.parametrize("id", [A, None])
def test_a_crash_at_any_request_and_a_repetition_give_one_good_copy(id: UUID | None) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        async def world() -> MemoryStore:
            store = CountingStore(runtime)
            await clone_of_parent(runtime, store)
            return store

        async def work(store: ObjectStore) -> None:
            source, target = (DatabaseFiles(store, path, runtime) for path in ("clone", "copy"))
            await copy_database(source, target, id=id)

        async def afterwards(bucket: MemoryStore) -> None:
            copy = Database(bucket, runtime, "copy")
            if id is None and await copy.files.manifests.latest() is not None:
                with pytest.raises(InvalidError, match="there is a database already"):
                    await work(bucket)
            else:
                await work(bucket)
            assert await copy.values() == CLONES
            assert {*await names(bucket, "copy/gc/")} <= {"copying"}
            await runtime.sleep(HOLD_MS / 1000 + 1)
            clone = DatabaseFiles(bucket, "clone", runtime)
            await collect_once(clone)
            assert await list_checkpoints(clone) == []

        assert await at_every_request(world, work, afterwards) > 15

    simulate(scenario, 1)


class Pausing:
    """Moves objects as any copy does, and waits before or after that."""

    def __init__(self, *, before: bool) -> None:
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        self._before = before

    async def __call__(self, transfers: Sequence[Transfer], done: Callable[[], None]) -> None:
        if not self._before:
            await carry_out(transfers, done)
        self.reached.set()
        await self.go.wait()
        if self._before:
            await carry_out(transfers, done)


async def two_copies_at_once(runtime: SimulatedRuntime, *, first_ends_first: bool = True) -> None:
    """The next process takes up a copy while the one before still works on it, and the source has flushed its log."""
    db = await parent(runtime)
    paused, late = Pausing(before=False), Pausing(before=True)
    first = asyncio.ensure_future(copy_database(db.files, beside(db, "copy").files, move=paused))
    await paused.reached.wait()
    db.seq = 200
    await db.publish(await db.upload(db.rows({b"c": b"3", b"flushed": b"1"})), db.seq, wal_id=3)
    second = asyncio.ensure_future(copy_database(db.files, beside(db, "copy").files, move=late))
    await late.reached.wait()
    ends = [(paused, first), (late, second)]
    for pause, copy in ends if first_ends_first else reversed(ends):
        pause.go.set()
        await asyncio.gather(copy, return_exceptions=True)
    assert await beside(db, "copy").values() == ROWS, "a copy lost rows of the log"
    assert (await first).id == (await second).id
    assert await list_checkpoints(db.files) == []


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_two_copies_at_once_make_one_good_copy(first_ends_first: bool) -> None:
    simulate(lambda runtime: two_copies_at_once(runtime, first_ends_first=first_ends_first), 1)


def test_somebody_elses_database_is_never_taken_for_the_copy() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)

        async def too_slow(transfers: Sequence[Transfer], done: Callable[[], None]) -> None:
            await carry_out(transfers, done)
            if await beside(db, "copy").files.manifests.latest() is None:
                await (await beside(db, "copy").make()).flush({b"stranger": b"1"})

        for _ in range(2):
            with pytest.raises(InvalidError, match="at 'copy'"):
                await copy_database(db.files, beside(db, "copy").files, move=too_slow)

    simulate(scenario, 1)


@pytest.mark.parametrize("late", [True, False])
def test_a_copy_of_another_state_ends_the_one_before(late: bool) -> None:
    """The first client was away until the source no longer kept its state; or another client wants another state there."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        paused, busy = Pausing(before=False), Pausing(before=True)
        first = asyncio.ensure_future(copy_database(db.files, beside(db, "copy").files, move=paused))
        await paused.reached.wait()
        db.seq = 200
        await db.publish(await db.upload(db.rows({b"c": b"3", b"d": b"4"})), db.seq, wal_id=3)
        if late:
            await runtime.sleep(HOLD_MS / 1000 + 1)
        else:
            await create_checkpoint(db.files, CheckpointOptions(id=A))
        wanted = None if late else A
        second = asyncio.ensure_future(copy_database(db.files, beside(db, "copy").files, wanted, move=busy))
        await busy.reached.wait()
        paused.go.set()
        with pytest.raises(InvalidError, match="began another copy at 'copy'"):
            await first
        busy.go.set()
        await second
        assert await beside(db, "copy").values() == {**ROWS, b"d": b"4"}

    simulate(scenario, 1)
