"""Merges and batches, as both implementations have them."""

from __future__ import annotations

from typing import Any


async def test_a_batch_is_one_commit_and_is_used_up(kit: Any) -> None:
    async with kit.db(merge_operator=kit.joining()) as db:
        await db.put(b"gone", b"old")
        batch = kit.lib.WriteBatch()
        batch.put(b"twice", b"1")
        batch.put(b"twice", b"2")
        batch.delete(b"gone")
        batch.put(b"grown", b"a")
        batch.merge(b"grown", b"b")
        batch.merge(b"new", b"x")
        batch.merge(b"new", b"y")
        batch.put(b"back", b"1")
        batch.delete(b"back")
        written = await db.write(batch)
        rows = await (await db.scan(kit.everything)).next_batch(100)
        assert [(row.key, row.value) for row in rows] == [(b"grown", b"ab"), (b"new", b"xy"), (b"twice", b"2")]
        assert {row.seq for row in rows} == {written.seqnum()} == {2}
        assert await kit.failure(db.write(batch)) == ("Invalid", "write batch has already been consumed", None)
        kind, message, _ = await kit.failure(db.write(kit.lib.WriteBatch()))
        assert kind == "Invalid"
        assert message.startswith("Invalid error: empty write batch not allowed")


async def test_merges_need_an_operator_and_fold(kit: Any) -> None:
    async with kit.db() as db:
        kind, message, _ = await kit.failure(db.merge(b"k", b"v"))
        assert kind == "Invalid"
        assert message.startswith("Invalid error: merge operator missing.")
        assert await db.get(b"k") is None
    store = kit.memory()
    async with kit.db(store, merge_operator=kit.joining()) as db:
        await db.merge(b"k", b"1")
        await db.merge(b"k", b"2")
        assert await db.get(b"k") == b"12"
        await kit.flush_memtable(db)
        last = await db.merge(b"k", b"3")
        assert await db.get(b"k") == b"123"
        found = await db.get_key_value(b"k")
        assert (found.seq, found.create_ts) == (last.seqnum(), last.create_ts())
        await db.delete(b"k")
        await db.merge(b"k", b"4")
        assert await kit.rows(db) == [(b"k", b"4")]


async def test_a_merge_that_the_operator_refuses_is_not_written(kit: Any) -> None:
    lib = kit.lib

    class OnlyNumbers(lib.MergeOperator):  # type: ignore[misc]
        def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
            if not operand.isdigit():
                raise lib.MergeOperatorCallbackError.Failed("not a number")
            return b"%d" % (int(existing_value or b"0") + int(operand))

    async with kit.db(merge_operator=OnlyNumbers()) as db:
        await db.merge(b"k", b"40")
        kind, message, _ = await kit.failure(db.merge(b"k", b"two"))
        assert (kind, message) == ("Invalid", "Invalid error: merge operator error (not a number)")
        await db.merge(b"k", b"2")
        assert await db.get(b"k") == b"42"


async def test_operands_of_one_batch_live_equally_long(kit: Any) -> None:
    async with kit.db(merge_operator=kit.joining()) as db:
        batch = kit.lib.WriteBatch()
        batch.merge(b"k", b"1")
        batch.merge_with_options(b"k", b"2", kit.lib.MergeOptions(ttl=kit.lib.Ttl.EXPIRE_AFTER_MILLIS(1_000)))
        kind, message, _ = await kit.failure(db.write(batch))
        assert kind == "Invalid"
        assert message.startswith("Invalid error: only one merge TTL per-key allowed in a batch")
        assert await kit.rows(db) == []


async def test_operands_that_have_expired_before_they_are_flushed(kit: Any) -> None:
    """Then there is nothing to write to an SST, and the writer goes on."""
    lib = kit.lib
    async with kit.db(kit.memory(), merge_operator=kit.joining()) as db:
        past = lib.MergeOptions(ttl=lib.Ttl.EXPIRE_AT_MILLIS(1))
        await db.merge_with_options(b"m", b"x", past, lib.WriteOptions())
        await db.flush_with_options(lib.FlushOptions(flush_type=lib.FlushType.MEM_TABLE))
        assert await db.get(b"m") is None
        await db.put(b"a", b"1")
        await db.flush_with_options(lib.FlushOptions(flush_type=lib.FlushType.MEM_TABLE))
        assert await db.get(b"a") == b"1"
