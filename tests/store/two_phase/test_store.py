"""Objects without a record, object stores that fail, and names seen from different roots."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import pytest

from slate_engine.errors import InvalidError
from slate_engine.store.faults import Fault, FaultyStore, Strike
from slate_engine.store.protocol import (
    CREATE,
    Buffer,
    Conflict,
    NotFound,
    Object,
    ObjectMeta,
    StoreUnavailable,
)
from slate_engine.store.two_phase import TwoPhaseStore
from slate_engine.store.two_phase.record import STAGING, destination_of, intent
from tests.store.two_phase.doubles import (
    DAY,
    KEY,
    Gate,
    LyingStore,
    ManualRuntime,
    MemoryTransactions,
    die_after,
)


class TestObjectsWithoutARecord:
    async def test_are_not_overwritten(
        self, store: TwoPhaseStore, bucket: LyingStore, table: MemoryTransactions
    ) -> None:
        await bucket.put(KEY, b"another tool's")
        with pytest.raises(Conflict):
            await store.put(KEY, b"mine", CREATE)
        assert bucket.snapshot() == {KEY: b"another tool's"}
        assert table.records == {}

    async def test_a_record_outlives_a_stalled_writer(
        self, store: TwoPhaseStore, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime
    ) -> None:
        late, gate = await self._stall_after_the_look(bucket, table, clock)
        await store.put(KEY, b"first", CREATE)
        clock.seconds += 30 * DAY
        await store.collect(older_than=DAY)
        gate.go.set()
        with pytest.raises(Conflict):
            await late
        assert bytes((await store.get(KEY)).data) == b"first"

    async def test_and_without_that_rule_two_would_win(
        self, store: TwoPhaseStore, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime
    ) -> None:
        """The same with a collector that deletes records by age alone: this is why ours does not."""
        late, gate = await self._stall_after_the_look(bucket, table, clock)
        await store.put(KEY, b"first", CREATE)
        table.records.clear()
        gate.go.set()
        await late
        assert bytes((await store.get(KEY)).data) == b"late"

    async def _stall_after_the_look(
        self, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime
    ) -> tuple[asyncio.Task[str], Gate]:
        gate = Gate(bucket, "put")
        late = asyncio.create_task(TwoPhaseStore(gate, table, clock).put(KEY, b"late", CREATE))
        await gate.reached.wait()
        return late, gate


class TestFailures:
    """Of the object store, at each point of a write."""

    def faulty(
        self, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime, *faults: Fault
    ) -> TwoPhaseStore:
        return TwoPhaseStore(FaultyStore(bucket, clock, faults), table, clock)

    @pytest.mark.parametrize("operation", ["copy", "delete"])
    @pytest.mark.parametrize("strike", [Strike.BEFORE, Strike.AFTER])
    async def test_after_the_record_are_none_of_the_write(
        self,
        bucket: LyingStore,
        table: MemoryTransactions,
        clock: ManualRuntime,
        store: TwoPhaseStore,
        operation: str,
        strike: Strike,
    ) -> None:
        broken = self.faulty(bucket, table, clock, Fault(strike, frozenset({operation}), calls=frozenset({1})))
        await broken.put(KEY, b"durable", CREATE)
        assert bytes((await store.get(KEY)).data) == b"durable"
        await store.recover()
        clock.seconds += 2 * DAY
        await store.collect(older_than=DAY)
        assert bucket.snapshot() == {KEY: b"durable"}

    @pytest.mark.parametrize("strike", [Strike.BEFORE, Strike.AFTER])
    async def test_before_the_record_leave_nothing_and_say_so(
        self, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime, strike: Strike
    ) -> None:
        broken = self.faulty(bucket, table, clock, Fault(strike, frozenset({"put"}), calls=frozenset({1})))
        with pytest.raises(StoreUnavailable) as caught:
            await broken.put(KEY, b"never", CREATE)
        assert not caught.value.unknown_outcome
        with pytest.raises(NotFound):
            await broken.get(KEY)
        await broken.put(KEY, b"second try", CREATE)
        assert bytes((await broken.get(KEY)).data) == b"second try"

    async def test_after_a_late_record_leave_the_outcome_open(
        self, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime, store: TwoPhaseStore
    ) -> None:
        """The writer slept before it claimed the name. Its temporary may be gone, so the record alone promises nothing."""
        gate = Gate(table, "put_if_absent")
        inner = FaultyStore(bucket, clock, [Fault(Strike.BEFORE, frozenset({"copy"}), calls=frozenset({1}))])
        late = asyncio.create_task(TwoPhaseStore(inner, gate, clock).put(KEY, b"late", CREATE))
        await gate.reached.wait()
        clock.seconds += 2 * DAY
        assert (await store.collect(older_than=DAY)).temporaries == 1
        gate.go.set()
        with pytest.raises(StoreUnavailable) as caught:
            await late
        assert caught.value.unknown_outcome
        with pytest.raises(NotFound):
            await store.get(KEY)

    async def test_a_copy_that_arrives_late_does_no_harm(
        self, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime, store: TwoPhaseStore
    ) -> None:
        inner = FaultyStore(bucket, clock, [Fault(Strike.LATE, frozenset({"copy"}), calls=frozenset({1}), seconds=60)])
        await TwoPhaseStore(inner, table, clock).put(KEY, b"durable", CREATE)
        await store.recover()
        await inner.arrivals()
        assert bytes((await store.get(KEY)).data) == b"durable"


class Folder:
    """A folder of a bucket, opened as a store of its own."""

    def __init__(self, bucket: LyingStore, folder: str) -> None:
        self._bucket = bucket
        self._folder = folder
        self.url = f"{bucket.url}/{folder}"

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return await self._bucket.get(f"{self._folder}/{key}", if_none_match=if_none_match)

    async def head(self, key: str) -> ObjectMeta:
        return await self._bucket.head(f"{self._folder}/{key}")

    async def put(self, key: str, data: Buffer) -> str:
        return await self._bucket.put(f"{self._folder}/{key}", data)

    async def copy(self, source: str, destination: str) -> None:
        await self._bucket.copy(f"{self._folder}/{source}", f"{self._folder}/{destination}")

    async def delete(self, keys: Iterable[str]) -> None:
        await self._bucket.delete([f"{self._folder}/{key}" for key in keys])

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        return await self._bucket.get_ranges(f"{self._folder}/{key}", ranges)


async def test_different_roots_mean_the_same_object(
    bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime, store: TwoPhaseStore
) -> None:
    inside = TwoPhaseStore(Folder(bucket, "db"), table, clock)  # type: ignore[arg-type]
    await die_after("put_if_absent", bucket, table, clock, b"from outside")
    assert bytes((await inside.get("manifest/00000000000000000007.manifest")).data) == b"from outside"
    with pytest.raises(Conflict):
        await inside.put("manifest/00000000000000000007.manifest", b"from inside", CREATE)
    assert await inside.recover() == 1
    assert bucket.snapshot() == {KEY: b"from outside"}


def test_roots_are_urls(bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime) -> None:
    with pytest.raises(InvalidError, match="url"):
        TwoPhaseStore(bucket, table, clock, root="bucket")


def test_names_of_temporaries(clock: ManualRuntime) -> None:
    for key in (KEY, "top", "a b/ü/x.y.z"):
        source = intent(f"s3://bucket/{key}", b"data", clock).source.removeprefix("s3://bucket/")
        folder, _, name = key.rpartition("/")
        assert source.startswith(f"{folder}/{STAGING}/{name}." if folder else f"{STAGING}/{name}.")
        assert destination_of(source) == key
    assert destination_of(KEY) is None
    assert destination_of(f"db/{STAGING}/name.not-a-uuid.0123") is None
