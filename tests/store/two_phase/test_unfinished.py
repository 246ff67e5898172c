"""Writes that are durable but not finished: everybody sees them, and anybody may finish them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from slate_engine.errors import CorruptData
from slate_engine.store.protocol import (
    CREATE,
    Conflict,
    ObjectMeta,
)
from slate_engine.store.two_phase import TwoPhaseStore
from slate_engine.store.two_phase.record import State
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


class TestUnfinishedWrites:
    @pytest.fixture(autouse=True)
    async def pending(self, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime) -> None:
        await die_after("put_if_absent", bucket, table, clock, b"durable")
        assert KEY not in bucket.snapshot()

    async def test_everybody_sees_them(self, store: TwoPhaseStore, bucket: LyingStore) -> None:
        found = await store.get(KEY)
        assert bytes(found.data) == b"durable"
        assert found.meta.key == KEY
        assert await store.head(KEY) == found.meta
        assert [bytes(part) for part in await store.get_ranges(KEY, [(0, 3), (5, 99)])] == [b"dur", b"le"]
        assert [meta async for page in store.list("db/") for meta in page] == [found.meta]
        await store.copy(KEY, "clone/wal")
        assert bytes((await store.get("clone/wal")).data) == b"durable"
        assert KEY not in bucket.snapshot(), "reading does not write"

    async def test_stand_in_their_place_in_a_listing(self, store: TwoPhaseStore, bucket: LyingStore) -> None:
        others = [f"db/manifest/{number:020d}.manifest" for number in (6, 8)]
        for key in (*others, "db/wal/1", "a"):
            await bucket.put(key, b"")
        assert await keys(store) == ["a", others[0], KEY, others[1], "db/wal/1"]
        assert await keys(store, "db/manifest/", others[0]) == [KEY, others[1]]
        assert await keys(store, "db/manifest/", KEY) == [others[1]]
        assert await keys(store, "db/wal/") == ["db/wal/1"]

    async def test_keep_others_out(self, store: TwoPhaseStore, bucket: LyingStore) -> None:
        with pytest.raises(Conflict):
            await store.put(KEY, b"mine", CREATE)
        assert bytes((await store.get(KEY)).data) == b"durable"
        assert len(bucket.temporaries()) == 1, "the loser's temporary is gone"

    async def test_are_finished_by_a_loser_who_waited_long_enough(
        self, store: TwoPhaseStore, bucket: LyingStore, clock: ManualRuntime
    ) -> None:
        clock.seconds += 11
        with pytest.raises(Conflict):
            await store.put(KEY, b"mine", CREATE)
        assert bucket.snapshot() == {KEY: b"durable"}

    async def test_are_finished_by_recovery(self, store: TwoPhaseStore, bucket: LyingStore) -> None:
        assert await store.recover("elsewhere/") == 0
        assert await store.recover("db/") == 1
        assert bucket.snapshot() == {KEY: b"durable"}
        assert await store.recover() == 0

    async def test_keep_their_temporary_however_old(
        self, store: TwoPhaseStore, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime
    ) -> None:
        clock.seconds += 30 * DAY
        # Only the record is young: its writer slept between putting the temporary and claiming the name.
        (record,) = table.records.values()
        table.records[record.destination] = replace(record, created_ms=clock.now_ms())
        collected = await store.collect(older_than=DAY)
        assert (collected.finished, collected.temporaries) == (0, 0)
        assert bytes((await store.get(KEY)).data) == b"durable"

    async def test_are_not_served_when_their_bytes_are_not_what_they_were(
        self, store: TwoPhaseStore, bucket: LyingStore
    ) -> None:
        (temporary,) = bucket.temporaries()
        await bucket.put(temporary, b"durabLe")
        with pytest.raises(CorruptData, match="checksum"):
            await store.get(KEY)

    async def test_are_not_committed_when_the_copy_is_not_whole(
        self, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime
    ) -> None:
        class Cutting(LyingStore):
            async def copy(self, source: str, destination: str) -> None:
                await bucket.put(destination, bytes((await bucket.get(source)).data)[:-1])

            async def head(self, key: str) -> ObjectMeta:
                return await bucket.head(key)

        broken = TwoPhaseStore(Cutting(clock, name="bucket"), table, clock)
        with pytest.raises(CorruptData, match="6 bytes instead of 7"):
            await broken.recover()
        assert [record.state for record in table.records.values()] == [State.PENDING]
        assert len(bucket.temporaries()) == 1


async def test_a_read_that_races_with_the_commit(
    bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime, store: TwoPhaseStore
) -> None:
    """The object is not there yet, and when the reader asks for the record the write is finished: it looks once more."""
    await die_after("put_if_absent", bucket, table, clock, b"durable")
    gate = Gate(table, "get")
    reading = asyncio.create_task(TwoPhaseStore(bucket, gate, clock).get(KEY))
    await gate.reached.wait()
    await store.recover()
    gate.go.set()
    assert bytes((await reading).data) == b"durable"


@pytest.mark.parametrize("finished", ["before", "after"])
async def test_a_listing_that_races_with_the_commit(
    finished: str, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime, store: TwoPhaseStore
) -> None:
    """Pending when the listing begins, and finished right before or right after the bucket is listed: shown, and once."""
    await die_after("put_if_absent", bucket, table, clock, b"durable")

    class Finishing(LyingStore):
        async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
            if finished == "before":
                await store.recover()
            pages = [page async for page in bucket.list(prefix, start_after=start_after)]
            if finished == "after":
                await store.recover()
            for page in pages:
                yield page

        async def head(self, key: str) -> ObjectMeta:
            return await bucket.head(key)

    assert await keys(TwoPhaseStore(Finishing(clock, name="bucket"), table, clock)) == [KEY]
