"""Transactions: what they see, when they lose, how they end, as both implementations have it."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from slate_engine.format.key_range import KeyRange

PENDING = 2**64 - 1
"""The sequence number that a transaction's own writes show before they have one."""


async def test_a_transaction_sees_its_own_writes_above_its_snapshot(kit: Any) -> None:
    async with kit.db(merge_operator=kit.joining()) as db:
        for key in (b"a", b"b", b"c"):
            await db.put(key, b"old")
        transaction = await db.begin(kit.lib.IsolationLevel.SNAPSHOT)
        assert transaction.seqnum() == 3
        assert len(transaction.id()) == 36
        await db.put(b"c", b"later")
        await transaction.put(b"a", b"new")
        await transaction.delete(b"b")
        await transaction.merge(b"c", b"+1")
        await transaction.merge(b"c", b"+2")
        await transaction.merge(b"d", b"+3")
        found = await transaction.get_key_value(b"a")
        assert (found.value, found.seq, found.create_ts) == (b"new", PENDING, 0)
        assert await transaction.get(b"b") is None
        merged = await transaction.get_key_value(b"c")
        assert (merged.value, merged.seq, merged.create_ts > 0) == (b"old+1+2", PENDING, True)
        rows = [(b"a", b"new"), (b"c", b"old+1+2"), (b"d", b"+3")]
        assert await kit.rows(transaction) == rows
        assert await kit.rows(transaction, options=kit.scan_options(descending=True)) == rows[::-1]
        assert await kit.rows(transaction, kit.between(b"b", b"d")) == rows[1:2]
        scan = await transaction.scan(kit.everything)
        await transaction.put(b"aa", b"after the scan began")
        assert [row.key for row in await scan.next_batch(10)] == [b"a", b"c", b"d"]
        assert await kit.rows(db) == [(b"a", b"old"), (b"b", b"old"), (b"c", b"later")]


async def test_scans_weave_own_writes_into_large_tables(kit: Any) -> None:
    async with kit.db() as db:
        batch = kit.lib.WriteBatch()
        for i in range(3000):
            batch.put(b"%06d" % (2 * i), b"x" * 100)
        await db.write(batch)
        await kit.flush_memtable(db)
        transaction = await db.begin(kit.lib.IsolationLevel.SNAPSHOT)
        for i in range(0, 3000, 100):
            await transaction.put(b"%06d" % (2 * i + 1), b"own")
            await transaction.delete(b"%06d" % (2 * i))
        await transaction.put(b"000000-", b"own")
        await transaction.put(b"999999", b"own")
        expected = {b"%06d" % (2 * i) for i in range(3000) if i % 100}
        expected |= {b"%06d" % (2 * i + 1) for i in range(0, 3000, 100)} | {b"000000-", b"999999"}
        keys = [key for key, _ in await kit.rows(transaction)]
        assert keys == sorted(expected)
        turned = [key for key, _ in await kit.rows(transaction, options=kit.scan_options(descending=True))]
        assert turned == keys[::-1]


async def test_a_commit_writes_everything_at_once(kit: Any) -> None:
    async with kit.db() as db:
        transaction = await db.begin(kit.lib.IsolationLevel.SNAPSHOT)
        await transaction.put(b"a", b"1")
        await transaction.put_with_options(b"b", b"2", kit.living(after=60_000))
        handle = await transaction.commit()
        rows = await (await db.scan(kit.everything)).next_batch(10)
        assert [(row.key, row.seq) for row in rows] == [(b"a", handle.seqnum()), (b"b", handle.seqnum())]
        assert rows[1].expire_ts == handle.create_ts() + 60_000
        await handle.await_durable()


async def test_an_ended_transaction_says_so(kit: Any) -> None:
    completed = ("Invalid", "transaction has already been completed", None)
    async with kit.db() as db:
        for end in ("commit", "rollback"):
            transaction = await db.begin(kit.lib.IsolationLevel.SNAPSHOT)
            await transaction.put(b"k-" + end.encode(), b"v")
            await getattr(transaction, end)()
            for action in (
                lambda tx=transaction: tx.put(b"k", b"v"),
                lambda tx=transaction: tx.delete(b"k"),
                lambda tx=transaction: tx.get(b"k"),
                lambda tx=transaction: tx.scan(kit.everything),
                lambda tx=transaction: tx.mark_read([]),
                lambda tx=transaction: tx.unmark_write([]),
                lambda tx=transaction: tx.commit(),
                lambda tx=transaction: tx.rollback(),
            ):
                assert await kit.failure(action()) == completed
            assert transaction.seqnum() >= 0
        assert await kit.rows(db) == [(b"k-commit", b"v")]
        empty = await db.begin(kit.lib.IsolationLevel.SERIALIZABLE_SNAPSHOT)
        assert await empty.commit() is None


Step = Callable[[Any, Any], Awaitable[Any]]


async def _write_x(kit: Any, tx: Any) -> None:
    await tx.put(b"x", b"tx")


async def _write_x_unmarked(kit: Any, tx: Any) -> None:
    await tx.put(b"x", b"tx")
    await tx.unmark_write([b"x"])


async def _read_x(kit: Any, tx: Any) -> None:
    await tx.get(b"x")
    await tx.put(b"mine", b"tx")


async def _mark_x(kit: Any, tx: Any) -> None:
    await tx.mark_read([b"x"])
    await tx.put(b"mine", b"tx")


async def _scan_w_to_y(kit: Any, tx: Any) -> None:
    await tx.scan(kit.between(b"w", b"y"))  # not a single row is asked for
    await tx.put(b"mine", b"tx")


async def _scan_prefix(kit: Any, tx: Any) -> None:
    await tx.scan_prefix(b"", kit.between(b"x", None))
    await tx.put(b"mine", b"tx")


async def _scan_elsewhere(kit: Any, tx: Any) -> None:
    await tx.scan(kit.between(b"a", b"x"))
    await tx.put(b"mine", b"tx")


async def _read_own_write(kit: Any, tx: Any) -> None:
    await tx.put(b"x", b"tx")
    await tx.get(b"x")
    await tx.unmark_write([b"x"])


async def _only_read(kit: Any, tx: Any) -> None:
    await tx.get(b"x")


@pytest.mark.parametrize(
    ("step", "snapshot_loses", "serializable_loses"),
    [
        (_write_x, True, True),
        (_write_x_unmarked, False, False),
        (_read_x, False, True),
        (_mark_x, True, True),
        (_scan_w_to_y, False, True),
        (_scan_prefix, False, True),
        (_scan_elsewhere, False, False),
        (_read_own_write, False, True),
        (_only_read, False, True),
    ],
)
@pytest.mark.parametrize("level", ["SNAPSHOT", "SERIALIZABLE_SNAPSHOT"])
@pytest.mark.parametrize("other", ["put", "delete", "transaction"])
async def test_conflicts(
    kit: Any, step: Step, snapshot_loses: bool, serializable_loses: bool, level: str, other: str
) -> None:
    """Somebody else writes ``x`` between begin and commit."""
    levels = kit.lib.IsolationLevel
    async with kit.db() as db:
        await db.put(b"x", b"old")
        transaction = await db.begin(levels[level])
        await step(kit, transaction)
        if other == "put":
            await db.put(b"x", b"theirs")
        elif other == "delete":
            await db.delete(b"x")
        else:
            rival = await db.begin(levels.SNAPSHOT)
            await rival.put(b"x", b"theirs")
            await rival.commit()
        if snapshot_loses if level == "SNAPSHOT" else serializable_loses:
            kind, message, _ = await kit.failure(transaction.commit())
            assert kind == "Transaction"
            assert message.startswith("Transaction error: transaction conflict")
            assert (await kit.failure(transaction.commit()))[1] == "transaction has already been completed"
            assert await db.get(b"mine") is None
        else:
            await transaction.commit()


async def test_what_was_committed_before_is_no_conflict(kit: Any) -> None:
    async with kit.db() as db:
        await db.put(b"x", b"1")
        transaction = await db.begin(kit.lib.IsolationLevel.SERIALIZABLE_SNAPSHOT)
        assert await transaction.get(b"x") == b"1"
        await transaction.put(b"x", b"2")
        assert await transaction.commit() is not None
        assert await db.get(b"x") == b"2"


async def test_a_merge_needs_an_operator(kit: Any) -> None:
    async with kit.db() as db:
        transaction = await db.begin(kit.lib.IsolationLevel.SNAPSHOT)
        kind, message, _ = await kit.failure(transaction.merge(b"k", b"v"))
        assert kind == "Invalid"
        assert message.startswith("Invalid error: merge operator missing.")
        assert await transaction.commit() is None


async def test_a_transaction_keeps_its_state_through_flushes(kit: Any) -> None:
    async with kit.db() as db:
        await db.put(b"k", b"old")
        transaction = await db.begin(kit.lib.IsolationLevel.SNAPSHOT)
        for value in (b"1", b"2"):
            await db.put(b"k", value)
            await kit.flush_memtable(db)
        assert await transaction.get(b"k") == b"old"
        assert await kit.rows(transaction) == [(b"k", b"old")]


async def test_an_abandoned_transaction_holds_nothing(ours: Any) -> None:
    async with ours.db() as db:
        await db.put(b"k", b"v")
        transaction = await db.begin(ours.lib.IsolationLevel.SNAPSHOT)
        scan = await transaction.scan(ours.everything)
        await db.put(b"k", b"w")
        writer = db._writer
        assert writer.retained_seq(2) == 1
        del transaction
        gc.collect()
        assert writer.retained_seq(2) == 1, "the scan is still open"
        assert [row.value for row in await scan.next_batch(5)] == [b"v"]
        del scan
        gc.collect()
        assert writer.retained_seq(2) == 2
        assert not writer._transactions._open


async def test_a_transaction_is_abandoned_while_another_looks_for_conflicts(ours: Any) -> None:
    """Python collects garbage between any two steps."""

    class Meanwhile(int):
        """Of its comparisons the third is the first one while all keys are gone through."""

        def __lt__(self, other: int) -> bool:
            compared.append(other)
            if len(compared) == 3:
                abandoned.clear()
            return int(self) < other

    compared: list[int] = []
    async with ours.db() as db:
        abandoned = [await db.begin(ours.lib.IsolationLevel.SNAPSHOT)]
        await db.put(b"a", b"1")
        await db.put(b"b", b"2")
        transaction = await db.begin(ours.lib.IsolationLevel.SERIALIZABLE_SNAPSHOT)
        await db.put(b"c", b"3")
        await transaction.put(b"d", b"4")
        transaction._transaction.started_seq = Meanwhile(transaction._transaction.started_seq)
        transaction._transaction.ranges.append(KeyRange.of_prefix(b"x"))
        await transaction.commit()
        assert len(compared) > 3
        assert not abandoned
        assert db._writer.retained_seq(9) == 9
        assert await db.get(b"d") == b"4"
