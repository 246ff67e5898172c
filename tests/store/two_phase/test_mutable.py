"""Mutable objects: kept in the table, mirrored in the bucket."""

from __future__ import annotations

import asyncio

import pytest

from slate_engine.errors import InvalidError
from slate_engine.store.faults import Fault, FaultyStore, Strike
from slate_engine.store.protocol import (
    CREATE,
    Conflict,
    NotFound,
    Update,
)
from slate_engine.store.two_phase import TwoPhaseStore
from tests.store.two_phase.doubles import (
    BOUNDARY,
    KEY,
    Gate,
    LyingStore,
    ManualRuntime,
    MemoryTransactions,
    keys,
)


class TestMutableObjects:
    async def test_etags_agree_wherever_they_come_from(self, store: TwoPhaseStore) -> None:
        etag = await store.put(BOUNDARY, b"1", CREATE)
        assert (await store.get(BOUNDARY)).meta.etag == etag
        assert (await store.head(BOUNDARY)).etag == etag
        assert [meta.etag async for page in store.list("db/gc/") for meta in page] == [etag]
        second = await store.put(BOUNDARY, b"2", Update(etag))
        with pytest.raises(Conflict):
            await store.put(BOUNDARY, b"3", Update(etag))
        assert (await store.get(BOUNDARY, if_none_match=etag)).meta.etag == second

    async def test_the_same_bytes_again_are_another_version(self, store: TwoPhaseStore) -> None:
        first = await store.put(BOUNDARY, b"1", CREATE)
        second = await store.put(BOUNDARY, b"2", Update(first))
        await store.put(BOUNDARY, b"1", Update(second))
        with pytest.raises(Conflict):
            await store.put(BOUNDARY, b"9", Update(first))

    async def test_other_objects_are_immutable(self, store: TwoPhaseStore) -> None:
        etag = await store.put(KEY, b"1", CREATE)
        with pytest.raises(InvalidError, match="immutable"):
            await store.put(KEY, b"2", Update(etag))

    async def test_one_that_another_tool_made_is_taken_over(
        self, store: TwoPhaseStore, bucket: LyingStore, table: MemoryTransactions
    ) -> None:
        await bucket.put(BOUNDARY, b"12")
        found = await store.get(BOUNDARY)
        assert bytes(found.data) == b"12"
        assert [meta async for page in store.list("db/gc/") for meta in page] == [found.meta]
        assert table.records == {}
        with pytest.raises(Conflict):
            await store.put(BOUNDARY, b"1", CREATE)
        await store.put(BOUNDARY, b"13", Update(found.meta.etag))
        with pytest.raises(Conflict):
            await store.put(BOUNDARY, b"14", Update(found.meta.etag))
        assert bucket.snapshot() == {BOUNDARY: b"13"}
        await bucket.put("db/gc/other", b"x")
        await store.delete(["db/gc/other"])
        with pytest.raises(NotFound):
            await store.get("db/gc/other")

    async def test_a_mirror_that_is_set_back_misleads_nobody(
        self, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime, store: TwoPhaseStore
    ) -> None:
        """The hazard of mutable objects: version 1 lands in the bucket after version 2."""
        inner = FaultyStore(bucket, clock, [Fault(Strike.LATE, frozenset({"put"}), calls=frozenset({1}), seconds=60)])
        etag = await TwoPhaseStore(inner, table, clock).put(BOUNDARY, b"1", CREATE)
        await store.put(BOUNDARY, b"2", Update(etag))
        await inner.arrivals()
        assert bucket.snapshot() == {BOUNDARY: b"1"}, "the bucket alone is wrong"
        assert bytes((await store.get(BOUNDARY)).data) == b"2"
        await store.recover()
        assert bucket.snapshot() == {BOUNDARY: b"2"}

    async def test_the_last_mirror_is_that_of_the_last_version(
        self, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime, store: TwoPhaseStore
    ) -> None:
        gate = Gate(bucket, "put")
        first = asyncio.create_task(TwoPhaseStore(gate, table, clock).put(BOUNDARY, b"1", CREATE))
        await gate.reached.wait()
        await store.put(BOUNDARY, b"2", Update((await store.get(BOUNDARY)).meta.etag))
        gate.go.set()
        await first
        assert bucket.snapshot() == {BOUNDARY: b"2"}

    async def test_a_late_mirror_does_not_undelete(
        self, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime, store: TwoPhaseStore
    ) -> None:
        key = "db/gc/destroyed_at_s"
        inner = FaultyStore(bucket, clock, [Fault(Strike.LATE, frozenset({"put"}), calls=frozenset({1}), seconds=60)])
        await TwoPhaseStore(inner, table, clock).put(key, b"1700000000", CREATE)
        await store.delete([key])
        await inner.arrivals()
        assert key in bucket.snapshot(), "the bucket alone is wrong"
        with pytest.raises(NotFound):
            await store.get(key)
        assert await keys(store) == []
        await store.recover()
        assert bucket.snapshot() == {}
        await store.put(key, b"1800000000", CREATE)
        assert bytes((await store.get(key)).data) == b"1800000000"

    async def test_a_mirror_that_fails_is_no_failure_of_the_write(
        self, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime, store: TwoPhaseStore
    ) -> None:
        inner = FaultyStore(bucket, clock, [Fault(Strike.BEFORE, frozenset({"put"}), calls=frozenset({1}))])
        await TwoPhaseStore(inner, table, clock).put(BOUNDARY, b"1", CREATE)
        assert bytes((await store.get(BOUNDARY)).data) == b"1"
        assert await keys(store) == [BOUNDARY]
