"""The newest object, cheaply and never stale; and the stalled writer of RFC-0026, who is."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from slate_engine.store.boundary import BoundaryLost
from slate_engine.store.cost import Request, Tally
from slate_engine.store.memory import MemoryStore
from slate_engine.store.numbered import BoundaryAhead, NumberedObjects, StaleWrite
from slate_engine.store.protocol import Conflict
from tests.store.numbered.processes import fill, manifests, newest, unbounded
from tests.store.two_phase.doubles import ManualRuntime

NAMES = ["manifest", "compactions"]


class TestTheStalledWriter:
    """RFC-0026: writer A stalls before it creates N+1, others create it and go on, the collector deletes it, A wakes up."""

    async def stall(self, store: MemoryStore, clock: ManualRuntime, name: str, stalled: NumberedObjects) -> int:
        """Everything but the last step. Returns the id after which A goes on."""
        others, collector = manifests(store, clock, name), manifests(store, clock, name)
        await fill(others, 4)
        read = await stalled.latest()
        assert read is not None
        await fill(others, 9, first=5)
        await collector.advance_boundary(8)
        await collector.delete(range(1, 9))
        return read.id

    @pytest.mark.parametrize("name", NAMES)
    async def test_loses(
        self, store: MemoryStore, clock: ManualRuntime, name: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        registry = CollectorRegistry()
        writer = manifests(store, clock, name, registry)
        after = await self.stall(store, clock, name, writer)
        with pytest.raises(StaleWrite) as caught:
            await writer.create_next(after, b"stale")
        assert isinstance(caught.value, Conflict)
        assert (caught.value.id, caught.value.boundary) == (5, 8)
        assert caught.value.key == f"db/{name}/00000000000000000005.{name}"
        assert registry.get_sample_value("slate_boundary_stale_writes_total", {"boundary": name}) == 1
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert caught.value.key in caplog.text

        # It reads anew, like after any lost race, and succeeds.
        assert await newest(writer) == (9, b"state 9")
        assert await writer.create_next(9, b"state 10") == 10

    @pytest.mark.parametrize("name", NAMES)
    async def test_loses_without_the_boundary_if_what_it_follows_is_gone(
        self, store: MemoryStore, clock: ManualRuntime, name: str
    ) -> None:
        writer = unbounded(store, clock, name)
        after = await self.stall(store, clock, name, writer)
        with pytest.raises(StaleWrite):
            await writer.create_next(after, b"stale")

    @pytest.mark.parametrize("name", NAMES)
    async def test_would_win_without_the_boundary(self, store: MemoryStore, clock: ManualRuntime, name: str) -> None:
        """The same while a checkpoint keeps what it follows: the stale write is accepted, which is the loss that the
        boundary prevents."""
        writer, held = unbounded(store, clock, name), unbounded(store, clock, name)
        after = await self.stall(store, clock, name, writer)
        await store.put(held.key(after), b"state %d" % after)
        assert await writer.create_next(after, b"stale") == 5
        assert bytes((await writer.read(5)).data) == b"stale"
        assert await newest(manifests(store, clock, name)) == (9, b"state 9"), "nobody will ever see it"

    async def test_does_not_win_between_boundary_and_deletion(self, store: MemoryStore, clock: ManualRuntime) -> None:
        writer, collector = manifests(store, clock), manifests(store, clock)
        await fill(collector, 5)
        await collector.advance_boundary(4)
        with pytest.raises(Conflict) as caught:
            await writer.create_next(3, b"stale")
        assert not isinstance(caught.value, StaleWrite), "the object is still there"

    async def test_the_check_comes_after_the_create(self, store: MemoryStore, clock: ManualRuntime) -> None:
        """A boundary that moves between a check and the create would be missed by a check that comes first."""
        writer, collector = manifests(store, clock), manifests(store, clock)
        await fill(collector, 6)
        real = store.put

        async def put(key: str, *args: object, **options: object) -> str:
            store.put = real  # type: ignore[method-assign]
            await collector.advance_boundary(5)
            await collector.delete([5])
            return await store.put(key, *args, **options)  # type: ignore[arg-type]

        store.put = put  # type: ignore[method-assign, assignment]
        with pytest.raises(StaleWrite):
            await writer.create_next(4, b"stale")

    async def test_a_stalled_reader_does_not_take_what_it_remembers_for_the_newest(
        self, store: MemoryStore, clock: ManualRuntime
    ) -> None:
        reader = manifests(store, clock)
        await self.stall(store, clock, "manifest", reader)
        assert await newest(reader) == (9, b"state 9")


class TestLatest:
    async def test_of_nothing(self, store: MemoryStore, clock: ManualRuntime) -> None:
        objects = manifests(store, clock)
        assert await objects.latest() is None
        assert await objects.create_next(0, b"first") == 1
        assert await newest(objects) == (1, b"first")

    async def test_follows(self, store: MemoryStore, clock: ManualRuntime) -> None:
        writer, reader = manifests(store, clock), manifests(store, clock)
        for last, step in ((1, 1), (2, 1), (4, 2), (9, 5), (9, 0), (30, 21)):
            await fill(writer, last, first=last - step + 1)
            assert await newest(reader) == (last, b"state %d" % last)
            assert (await reader.latest()).etag == (await store.head(reader.key(last))).etag  # type: ignore[union-attr]

    async def test_an_unchanged_namespace_costs_two_small_gets(
        self, store: MemoryStore, clock: ManualRuntime, requests: Tally
    ) -> None:
        objects = manifests(store, clock)
        await fill(objects, 5)
        await objects.advance_boundary(2)
        await objects.latest()
        asked: list[tuple[str, str | None]] = []
        real = store.get

        async def get(key: str, *, if_none_match: str | None = None) -> object:
            asked.append((key, if_none_match))
            return await real(key, if_none_match=if_none_match)

        store.get = get  # type: ignore[method-assign, assignment]
        before = dict(requests.requests)
        for _ in range(10):
            clock.seconds += 30
            assert await newest(objects) == (5, b"state 5")
        spent = {kind: requests.requests[kind] - before[kind] for kind in Request}
        assert {kind: count for kind, count in spent.items() if count} == {Request.GET: 20}
        etag = (await store.head("db/gc/manifest.boundary")).etag
        assert set(asked) == {(objects.key(6), None), ("db/gc/manifest.boundary", etag)}

    async def test_one_new_object_costs_no_listing(
        self, store: MemoryStore, clock: ManualRuntime, requests: Tally
    ) -> None:
        writer, reader = manifests(store, clock), manifests(store, clock)
        await fill(writer, 5)
        await reader.latest()
        await fill(writer, 6, first=6)
        before = requests.requests[Request.LIST]
        assert await newest(reader) == (6, b"state 6")
        assert requests.requests[Request.LIST] == before

    async def test_lists_from_the_boundary_on(self, store: MemoryStore, clock: ManualRuntime) -> None:
        writer = manifests(store, clock)
        await fill(writer, 9)
        await writer.advance_boundary(7)
        started: list[str] = []
        real = store.list

        def listing(prefix: str, *, start_after: str = "") -> object:
            started.append(start_after)
            return real(prefix, start_after=start_after)

        store.list = listing  # type: ignore[method-assign, assignment]
        assert await newest(manifests(store, clock)) == (9, b"state 9")
        assert started == [writer.key(7)]

    async def test_a_memory_that_is_too_old_is_not_trusted(self, store: MemoryStore, clock: ManualRuntime) -> None:
        """SlateDB's collector can be told to keep no boundaries. It deletes nothing that is younger than five minutes."""
        reader = manifests(store, clock)
        await store.put("db/wal/old", b"")
        clock.seconds += 2
        await fill(reader, 4)
        await fill(unbounded(store, clock), 9, first=5)
        await store.delete([reader.key(id) for id in range(5, 9)])
        assert await newest(reader) == (4, b"state 4"), "nothing tells this apart from an unchanged namespace"
        await store.delete([reader.key(id) for id in range(1, 5)])
        assert await newest(reader) == (9, b"state 9")
        clock.seconds -= 3600  # a clock that was set back proves nothing either
        await fill(unbounded(store, clock), 12, first=10)
        await store.delete([reader.key(id) for id in range(9, 12)])
        assert await newest(reader) == (12, b"state 12")

    async def test_without_a_boundary_it_always_lists(self, store: MemoryStore, clock: ManualRuntime) -> None:
        reader, writer = unbounded(store, clock), unbounded(store, clock)
        await store.put("db/wal/old", b"")
        clock.seconds += 2
        await fill(writer, 4)
        assert await newest(reader) == (4, b"state 4")
        await fill(writer, 9, first=5)
        await store.delete([writer.key(id) for id in range(1, 9)])
        assert await newest(reader) == (9, b"state 9")

    async def test_deleted_between_listing_and_reading(self, store: MemoryStore, clock: ManualRuntime) -> None:
        writer, reader = manifests(store, clock), manifests(store, clock)
        await fill(writer, 4)
        real = store.get

        async def get(key: str, **options: object) -> object:
            if key == writer.key(4):
                store.get = real  # type: ignore[method-assign]
                await fill(writer, 6, first=5)
                await writer.advance_boundary(5)
                await writer.delete([4, 5])
            return await real(key, **options)  # type: ignore[arg-type]

        store.get = get  # type: ignore[method-assign, assignment]
        assert await newest(reader) == (6, b"state 6")

    async def test_what_was_seen_does_not_become_nothing(self, store: MemoryStore, clock: ManualRuntime) -> None:
        """Somebody deletes the newest object, which nobody may, while a reader is on its way to it."""
        reader = manifests(store, clock)
        await fill(reader, 1)
        await fill(unbounded(store, clock), 3, first=2)
        real = store.list

        def listing(prefix: str, *, start_after: str = "") -> object:
            store._objects.pop(reader.key(3))
            store._keys.remove(reader.key(3))
            return real(prefix, start_after=start_after)

        store.list = listing  # type: ignore[method-assign, assignment]
        assert await newest(reader) == (2, b"state 2")

    async def test_a_boundary_that_reached_the_newest_is_reported(
        self, store: MemoryStore, clock: ManualRuntime
    ) -> None:
        writer = manifests(store, clock)
        await fill(writer, 4)
        await store.put("db/gc/manifest.boundary", b"6")
        for reader in (writer, manifests(store, clock)):
            started = clock.monotonic()
            with pytest.raises(BoundaryAhead, match=r"id 6 .*newest object is 4.*set it below") as caught:
                await reader.latest()
            assert "db/gc/manifest.boundary" in str(caught.value)
            assert 5 <= clock.monotonic() - started < 10
        await fill(unbounded(store, clock), 7, first=5)
        assert await newest(writer) == (7, b"state 7")

    async def test_a_slow_reader_is_only_slow(self, store: MemoryStore, clock: ManualRuntime) -> None:
        """Between his two looks others go on and a collector follows them, for longer than his patience: nothing is lost,
        so nothing is reported."""
        others, reader = manifests(store, clock), manifests(store, clock)
        await fill(others, 2)
        get, rounds = store.get, 0

        async def crawl(key: str, **options: Any) -> Any:
            nonlocal rounds
            if key.endswith(".boundary") and rounds < 3:
                rounds += 1
                store.get = get  # type: ignore[method-assign]
                await fill(others, 2 * rounds + 2, first=2 * rounds + 1)
                await others.advance_boundary(2 * rounds)
                await others.delete(range(1, 2 * rounds + 1))
                await clock.sleep(4)
                store.get = crawl  # type: ignore[method-assign, assignment]
            return await get(key, **options)

        store.get = crawl  # type: ignore[method-assign, assignment]
        assert await newest(reader) == (8, b"state 8")
        assert rounds == 3

    async def test_a_boundary_over_nothing_is_reported(self, store: MemoryStore, clock: ManualRuntime) -> None:
        await store.put("db/gc/manifest.boundary", b"6")
        with pytest.raises(BoundaryAhead, match="holds no objects"):
            await manifests(store, clock).latest()

    async def test_a_boundary_that_vanished_is_reported(self, store: MemoryStore, clock: ManualRuntime) -> None:
        objects = manifests(store, clock)
        await fill(objects, 3)
        await objects.advance_boundary(1)
        await store.delete(["db/gc/manifest.boundary"])
        for call in (objects.latest(), objects.create_next(3, b"")):
            with pytest.raises(BoundaryLost):
                await call
