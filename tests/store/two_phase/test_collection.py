"""What a collector deletes, what it must not, and writers that slept through it."""

from __future__ import annotations

import asyncio

import pytest

from slate_engine.errors import InvalidError
from slate_engine.store.protocol import (
    CREATE,
    NotFound,
    StoreUnavailable,
)
from slate_engine.store.two_phase import TwoPhaseStore
from slate_engine.store.two_phase.record import STAGING
from tests.store.two_phase.doubles import (
    DAY,
    KEY,
    Gate,
    LyingStore,
    ManualRuntime,
    MemoryTransactions,
    die_after,
    keys,
)


class TestCollection:
    async def test_leaves_alone_what_may_be_in_use(self, store: TwoPhaseStore) -> None:
        with pytest.raises(InvalidError, match="3600"):
            await store.collect(older_than=3599)

    async def test_deletes_old_orphans_only(
        self, store: TwoPhaseStore, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime
    ) -> None:
        await die_after("put", bucket, table, clock, b"old")
        clock.seconds += DAY
        await die_after("put", bucket, table, clock, b"young")
        await bucket.put(f"db/{STAGING}/notes.txt", b"not ours")
        assert len(bucket.temporaries()) == 2
        assert await keys(store) == [f"db/{STAGING}/notes.txt"]
        collected = await store.collect(older_than=DAY)
        assert (collected.temporaries, collected.records) == (1, 0)
        assert len(bucket.temporaries()) == 1
        clock.seconds += DAY
        assert (await store.collect(older_than=DAY, prefix="elsewhere/")).temporaries == 0
        assert (await store.collect(older_than=DAY)).temporaries == 1
        assert list(bucket.snapshot()) == [f"db/{STAGING}/notes.txt"]

    async def test_forgets_records_of_deleted_objects_only(
        self, store: TwoPhaseStore, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime
    ) -> None:
        for number in range(4):
            await store.put(f"db/wal/{number}", b"", CREATE)
        await store.put("top", b"", CREATE)
        await bucket.delete(["db/wal/1", "top"])  # by a collector that knows nothing of records
        assert (await store.collect(older_than=DAY)).records == 0
        clock.seconds += 2 * DAY
        assert (await store.collect(older_than=DAY)).records == 2
        assert sorted(table.records) == [f"memory:///bucket/db/wal/{number}" for number in (0, 2, 3)]

    async def test_a_writer_whose_temporary_was_collected_puts_another(
        self, store: TwoPhaseStore, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime
    ) -> None:
        gate = Gate(table, "put_if_absent")
        late = asyncio.create_task(TwoPhaseStore(bucket, gate, clock).put(KEY, b"late", CREATE))
        await gate.reached.wait()
        clock.seconds += 2 * DAY
        assert (await store.collect(older_than=DAY)).temporaries == 1
        gate.go.set()
        await late
        assert bucket.snapshot() == {KEY: b"late"}

    async def test_a_write_that_nobody_can_finish_is_withdrawn(
        self, store: TwoPhaseStore, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime
    ) -> None:
        """The writer slept until its temporary was collected, claimed the name, and died."""
        await die_after("put_if_absent", bucket, table, clock, b"lost")
        await bucket.delete(bucket.temporaries())
        with pytest.raises(NotFound):
            await store.get(KEY)
        assert await keys(store) == []
        assert await store.recover() == 0
        assert len(table.records) == 1, "its writer may be alive still"
        clock.seconds += 2 * DAY
        assert (await store.collect(older_than=DAY)).withdrawn == 1
        await store.put(KEY, b"mine", CREATE)
        assert bucket.snapshot() == {KEY: b"mine"}

    async def test_a_writer_that_puts_another_does_not_overwrite_its_successor(
        self, store: TwoPhaseStore, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime
    ) -> None:
        """It stalls once more, right before it puts the other temporary, and is given up meanwhile."""
        claim, put = Gate(table, "put_if_absent"), Gate(bucket, "put", number=2)
        late = asyncio.create_task(TwoPhaseStore(put, claim, clock).put(KEY, b"late", CREATE))
        await claim.reached.wait()
        clock.seconds += 2 * DAY
        assert (await store.collect(older_than=DAY)).temporaries == 1
        claim.go.set()
        await put.reached.wait()
        clock.seconds += 2 * DAY
        assert (await store.collect(older_than=DAY)).withdrawn == 1
        await store.put(KEY, b"mine", CREATE)
        put.go.set()
        with pytest.raises(StoreUnavailable) as caught:
            await late
        assert caught.value.unknown_outcome
        assert bytes((await store.get(KEY)).data) == b"mine"

    async def test_a_writer_whose_object_is_deleted_before_it_commits_claims_nothing(
        self, store: TwoPhaseStore, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime
    ) -> None:
        gate = Gate(table, "compare_and_set")
        late = asyncio.create_task(TwoPhaseStore(bucket, gate, clock).put(KEY, b"late", CREATE))
        await gate.reached.wait()
        await store.delete([KEY])
        gate.go.set()
        with pytest.raises(StoreUnavailable) as caught:
            await late
        assert caught.value.unknown_outcome

    async def test_a_writer_whose_write_was_withdrawn_does_not_claim_success(
        self, store: TwoPhaseStore, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime
    ) -> None:
        gate = Gate(bucket, "copy")
        late = asyncio.create_task(TwoPhaseStore(gate, table, clock).put(KEY, b"late", CREATE))
        await gate.reached.wait()
        await bucket.delete(bucket.temporaries())
        clock.seconds += 2 * DAY
        await store.collect(older_than=DAY)
        await store.put(KEY, b"mine", CREATE)
        gate.go.set()
        with pytest.raises(StoreUnavailable) as caught:
            await late
        assert caught.value.unknown_outcome
        assert bytes((await store.get(KEY)).data) == b"mine"
