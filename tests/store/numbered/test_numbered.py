"""Names, listings, the next id, and what may be given up and deleted."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from slate_engine.errors import InvalidError
from slate_engine.runtime import SystemRuntime
from slate_engine.store.boundary import MAX_ID, Boundary
from slate_engine.store.cost import Tally
from slate_engine.store.faults import Fault, FaultyStore, Strike
from slate_engine.store.memory import MemoryStore
from slate_engine.store.numbered import NumberedObjects, StaleWrite
from slate_engine.store.protocol import Conflict, NotFound, StoreUnavailable
from tests.store.numbered.processes import fill, manifests, newest, unbounded
from tests.store.two_phase.doubles import Interleaved, ManualRuntime


class TestNames:
    def test_are_those_of_slatedb(self, store: MemoryStore, clock: ManualRuntime) -> None:
        objects = NumberedObjects(store, "a/b/manifest/", "manifest", None, clock)
        assert objects.key(7) == "a/b/manifest/00000000000000000007.manifest"
        assert objects.key(MAX_ID) == "a/b/manifest/18446744073709551615.manifest"
        for id in (-1, MAX_ID + 1):
            with pytest.raises(InvalidError):
                objects.key(id)

    async def test_others_are_passed_over_with_one_warning(
        self, store: MemoryStore, clock: ManualRuntime, caplog: pytest.LogCaptureFixture
    ) -> None:
        objects = manifests(store, clock)
        await fill(objects, 2)
        for name in (
            "x.txt",
            "00000000000000000003.compactions",
            "00000000000000000003.manifest.tmp",
            "00000000000000000003",
            "3.manifest",
            "0x000000000000000003.manifest",
            "99999999999999999999.manifest",
            "sub/00000000000000000009.manifest",
            ".two-phase/00000000000000000003.manifest.x.y",
        ):
            await store.put(f"db/manifest/{name}", b"")
        for _ in range(3):
            assert [entry.id for entry in await objects.list()] == [1, 2]
        assert await newest(manifests(store, clock)) == (2, b"state 2")
        assert len(caplog.records) == 2, "one for each of the two readers"


class TestListAndRead:
    async def test_list(self, store: MemoryStore, clock: ManualRuntime) -> None:
        objects = manifests(store, clock)
        await fill(objects, 12)
        assert [entry.id for entry in await objects.list()] == list(range(1, 13))
        assert [entry.id for entry in await objects.list(5)] == list(range(5, 13))
        assert [entry.id for entry in await objects.list(5, 7)] == [5, 6, 7]
        assert [entry.id for entry in await objects.list(13)] == []
        assert [entry.id for entry in await objects.list(0, 1)] == [1]
        (entry,) = await objects.list(3, 3)
        assert entry.meta == await store.head(objects.key(3))

    async def test_what_checkpoints_keep_is_read_below_the_boundary(
        self, store: MemoryStore, clock: ManualRuntime
    ) -> None:
        objects = manifests(store, clock)
        await fill(objects, 5)
        await objects.advance_boundary(4)
        await objects.delete([1, 2, 4])
        assert bytes((await objects.read(3)).data) == b"state 3"
        with pytest.raises(NotFound):
            await objects.read(4)


class TestCreate:
    async def test_conflicts(self, store: MemoryStore, clock: ManualRuntime) -> None:
        first, second = manifests(store, clock), manifests(store, clock)
        assert await first.create_next(0, b"1") == 1
        with pytest.raises(Conflict) as caught:
            await second.create_next(0, b"other")
        assert not isinstance(caught.value, StaleWrite)
        assert await newest(second) == (1, b"1")

    async def test_ids_end(self, store: MemoryStore, clock: ManualRuntime) -> None:
        objects = manifests(store, clock)
        with pytest.raises(InvalidError):
            await objects.create_next(MAX_ID, b"")
        with pytest.raises(InvalidError):
            await objects.create_next(-2, b"")
        assert await objects.create_next(MAX_ID - 1, b"last") == MAX_ID
        assert await newest(objects) == (MAX_ID, b"last")

    async def test_a_check_that_fails_leaves_the_outcome_open(self, store: MemoryStore, clock: ManualRuntime) -> None:
        faulty = FaultyStore(store, clock, [Fault(Strike.BEFORE, frozenset({"get"}), calls=frozenset({1}))])
        objects = manifests(faulty, clock)
        with pytest.raises(StoreUnavailable) as caught:
            await objects.create_next(0, b"1")
        assert caught.value.unknown_outcome
        assert await newest(objects) == (1, b"1")

    async def test_fifty_writers_leave_no_gap(self) -> None:
        runtime = SystemRuntime()
        shared = MemoryStore(runtime)

        async def writer(number: int) -> int:
            store = Interleaved(shared, number)
            objects = NumberedObjects(
                store, "db/manifest", "manifest", Boundary(store, "db", "manifest", runtime), runtime
            )
            while True:
                found = await objects.latest()
                try:
                    return await objects.create_next(found.id if found else 0, b"writer %d" % number)
                except Conflict:
                    continue

        ids = await asyncio.wait_for(asyncio.gather(*map(writer, range(50))), 60)
        assert sorted(ids) == list(range(1, 51))
        objects = NumberedObjects(shared, "db/manifest", "manifest", None, runtime)
        for number, id in enumerate(ids):
            assert bytes((await objects.read(id)).data) == b"writer %d" % number

    def test_a_stale_write_crosses_process_boundaries(self) -> None:
        error = pickle.loads(pickle.dumps(StaleWrite("db/manifest/5", 5, 8)))
        assert (error.key, error.id, error.boundary, str(error)) == (
            "db/manifest/5",
            5,
            8,
            str(StaleWrite("db/manifest/5", 5, 8)),
        )


class TestAdvanceAndDelete:
    @pytest.fixture
    async def objects(self, store: MemoryStore, clock: ManualRuntime) -> NumberedObjects:
        objects = manifests(store, clock)
        await fill(objects, 6)
        return objects

    async def test_the_boundary_stays_below_the_newest(self, objects: NumberedObjects, store: MemoryStore) -> None:
        for to in (6, 7):
            with pytest.raises(InvalidError, match="newest id is 6"):
                await objects.advance_boundary(to)
        assert await objects.advance_boundary(5) == 5
        assert await objects.advance_boundary(3) == 5
        assert bytes((await store.get("db/gc/manifest.boundary")).data) == b"5"

    async def test_nothing_is_given_up_of_nothing(self, store: MemoryStore, clock: ManualRuntime) -> None:
        with pytest.raises(InvalidError):
            await manifests(store, clock).advance_boundary(1)

    async def test_deletion_needs_the_boundary_first(self, objects: NumberedObjects) -> None:
        with pytest.raises(InvalidError, match="advance it to 2 first"):
            await objects.delete([1, 2])
        await objects.advance_boundary(1)
        with pytest.raises(InvalidError, match="boundary is 1"):
            await objects.delete([1, 2])
        assert len(await objects.list()) == 6, "it is all or nothing"
        await objects.delete([1])
        assert [entry.id for entry in await objects.list()] == [2, 3, 4, 5, 6]

    async def test_the_newest_is_never_deleted(
        self, objects: NumberedObjects, store: MemoryStore, clock: ManualRuntime
    ) -> None:
        await store.put("db/gc/manifest.boundary", b"100")
        for deleting in (objects, unbounded(store, clock)):
            for ids in ([6], [1, 6], [7]):
                with pytest.raises(InvalidError, match="newest is 6"):
                    await deleting.delete(ids)
        await unbounded(store, clock).delete([1, 5])
        assert [entry.id for entry in await objects.list()] == [2, 3, 4, 6]

    async def test_deleting_nothing_asks_nothing(self, objects: NumberedObjects, requests: Tally) -> None:
        before = dict(requests.requests)
        await objects.delete([])
        assert requests.requests == before

    async def test_without_a_boundary_there_is_none_to_advance(self, store: MemoryStore, clock: ManualRuntime) -> None:
        with pytest.raises(InvalidError, match="no boundary"):
            await unbounded(store, clock).advance_boundary(1)
