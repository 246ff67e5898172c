"""Scans: ranges, prefixes, orders, batches and seeks, as both implementations have them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

KEYS = [b"k%d" % i for i in range(10)]


async def fill(kit: Any, db: Any) -> None:
    """Some rows in an SST, some in memory, some deleted: k0 .. k9 without k5."""
    for key in KEYS[:6]:
        await db.put(key, b"old")
    await kit.flush_memtable(db)
    for key in KEYS[4:]:
        await db.put(key, b"new")
    await db.delete(b"k5")


@pytest.mark.parametrize(
    ("start", "end", "after", "through", "found"),
    [
        (None, None, False, False, "012346789"),
        (b"", None, False, False, "012346789"),
        (b"", None, True, False, "012346789"),
        (b"k3", None, False, False, "346789"),
        (b"k3", None, True, False, "46789"),
        (b"k3", b"k7", False, False, "346"),
        (b"k3", b"k7", False, True, "3467"),
        (b"k5", b"k5", False, True, ""),
        (b"k4", b"k4", False, True, "4"),
        (None, b"", False, False, ""),
        (b"x", None, False, False, ""),
    ],
)
async def test_ranges_in_both_orders(
    kit: Any, start: bytes | None, end: bytes | None, after: bool, through: bool, found: str
) -> None:
    async with kit.db() as db:
        await fill(kit, db)
        wanted = kit.between(start, end, after=after, through=through)
        up = [key[1:].decode() for key, _ in await kit.rows(db, wanted)]
        down = [key[1:].decode() for key, _ in await kit.rows(db, wanted, kit.scan_options(descending=True))]
        assert "".join(up) == found
        assert "".join(reversed(down)) == found


async def test_impossible_ranges_are_refused(kit: Any) -> None:
    async with kit.db() as db:
        for start, end, after, message in (
            (b"z", b"a", False, "range start must not be greater than range end"),
            (b"a", b"a", False, "range must be non-empty"),
            (b"a", b"a", True, "range must be non-empty"),
        ):
            wanted = kit.between(start, end, after=after)
            assert (await kit.failure(db.scan(wanted)))[:2] == ("Invalid", message)
            assert (await kit.failure(db.scan_prefix(b"p", wanted)))[:2] == ("Invalid", message)
        with pytest.raises(TypeError):
            await db.scan(kit.between("text", None))


@pytest.mark.parametrize(
    ("prefix", "start", "end", "after", "through", "found"),
    [
        (b"item:", None, None, False, False, [b"item:", b"item:1", b"item:2", b"item:2x", b"item:3"]),
        (b"item:", b"2", None, False, False, [b"item:2", b"item:2x", b"item:3"]),
        (b"item:", b"2", None, True, False, [b"item:2x", b"item:3"]),
        (b"item:", None, b"2", False, True, [b"item:", b"item:1", b"item:2"]),
        (b"item:", b"2", b"3", False, False, [b"item:2", b"item:2x"]),
        (b"", b"other", None, False, False, [b"other", b"\xff\xff", b"\xff\xff\x01"]),
        (b"\xff\xff", None, None, False, False, [b"\xff\xff", b"\xff\xff\x01"]),
        (b"absent", None, None, False, False, []),
    ],
)
async def test_prefixes(
    kit: Any, prefix: bytes, start: bytes | None, end: bytes | None, after: bool, through: bool, found: list[bytes]
) -> None:
    keys = [
        b"item",
        b"item:",
        b"item:1",
        b"item:2",
        b"item:2x",
        b"item:3",
        b"item;",
        b"other",
        b"\xff\xff",
        b"\xff\xff\x01",
    ]
    async with kit.db() as db:
        for key in keys:
            await db.put(key, b"v")
        wanted = kit.between(start, end, after=after, through=through)
        plain = await (await db.scan_prefix(prefix, wanted)).next_batch(20)
        options = kit.scan_options(descending=True)
        turned = await (await db.scan_prefix_with_options(prefix, wanted, options)).next_batch(20)
        assert [row.key for row in plain] == [row.key for row in reversed(turned)] == found


async def test_batches_of_any_size_are_the_rows_one_by_one(kit: Any) -> None:
    async with kit.db() as db:
        await fill(kit, db)
        one_by_one = await kit.rows(db)
        for size in (1, 3, 4, 9, 10, 1000):
            scan, found = await db.scan(kit.everything), []
            while batch := await scan.next_batch(size):
                assert len(batch) <= size
                found += [(row.key, row.value) for row in batch]
            assert found == one_by_one
            assert await scan.next_batch(size) == []
            assert await scan.next() is None
        scan = await db.scan(kit.everything)
        assert await scan.next_batch(0) == []
        assert (await scan.next()).key == b"k0"
        for wrong, error in ((-1, ValueError), (2**32, ValueError), ("x", TypeError)):
            with pytest.raises(error):
                await scan.next_batch(wrong)


async def test_seek_goes_forward_only(kit: Any) -> None:
    async with kit.db() as db:
        await fill(kit, db)
        scan = await db.scan(kit.everything)
        await scan.seek(b"k3")
        assert (await scan.next()).key == b"k3"
        for back in (b"k3", b"k1"):
            kind, message, _ = await kit.failure(scan.seek(back))
            assert kind == "Invalid"
            assert message.startswith("Invalid error: cannot seek to a key less than the last returned key")
        assert (await scan.next()).key == b"k4"
        await scan.seek(b"k5")
        assert (await scan.next()).key == b"k6"
        await scan.seek(b"k75")
        assert [row.key for row in await scan.next_batch(1)] == [b"k8"]
        assert (await kit.failure(scan.seek(b"")))[1] == "key cannot be empty"
        await scan.seek(b"z")
        assert await scan.next() is None
        await scan.seek(b"zz")
        assert await scan.next() is None


async def test_seek_stays_in_the_range(kit: Any) -> None:
    async with kit.db() as db:
        await fill(kit, db)
        scan = await db.scan(kit.between(b"k2", b"k7"))
        for outside in (b"k1", b"k7", b"k8"):
            kind, message, _ = await kit.failure(scan.seek(outside))
            assert kind == "Invalid"
            assert message.startswith("Invalid error: cannot seek to a key outside the iterator range.")
        await scan.seek(b"k4")
        await scan.seek(b"k3")  # nothing was handed out yet, but the scan has gone past it
        assert (await scan.next()).key == b"k4"
        await scan.seek(b"k6")
        assert [row.key for row in await scan.next_batch(5)] == [b"k6"]


async def test_seek_is_not_for_descending_scans(kit: Any) -> None:
    async with kit.db() as db:
        await fill(kit, db)
        scan = await db.scan_with_options(kit.everything, kit.scan_options(descending=True))
        kind, message, _ = await kit.failure(scan.seek(b"k3"))
        assert kind == "Invalid"
        assert message.startswith("Invalid error: seek is not supported for descending scans")
        assert (await scan.next()).key == b"k9"


async def test_calls_that_overlap_get_different_rows(kit: Any) -> None:
    async with kit.db() as db:
        await fill(kit, db)
        scan = await db.scan(kit.everything)
        rows = await asyncio.gather(*(scan.next() for _ in range(9)))
        assert sorted(row.key for row in rows) == [key for key in KEYS if key != b"k5"]
        assert await scan.next() is None


async def test_a_scan_shows_the_state_in_which_it_began(kit: Any) -> None:
    async with kit.db() as db:
        await fill(kit, db)
        scan = await db.scan(kit.everything)
        await db.put(b"k0", b"later")
        await db.put(b"k55", b"later")
        await db.delete(b"k9")
        await kit.flush_memtable(db)
        rows = await scan.next_batch(100)
        assert [row.key for row in rows] == [key for key in KEYS if key != b"k5"]
        assert rows[0].value == b"old"


async def test_a_reader_without_the_merge_operator_fails_where_it_is_needed(kit: Any) -> None:
    store = kit.memory()
    async with kit.db(store, merge_operator=kit.joining()) as db:
        await db.put(b"plain", b"v")
        await db.merge(b"merged", b"v")
    async with kit.reader(store, reader_mode=kit.lib.ReaderMode.FOLLOW_LATEST()) as reader:
        assert await reader.get(b"plain") == b"v"
        scan = await reader.scan(kit.everything)
        for action in (lambda: reader.get(b"merged"), lambda: scan.next_batch(5), lambda: scan.next()):
            kind, message, _ = await kit.failure(action())
            assert kind == "Invalid"
            assert message.startswith("Invalid error: merge operator missing.")


@pytest.mark.parametrize("seed", range(6))
async def test_random_histories_read_alike(original: Any, ours: Any, seed: int) -> None:
    """The same random writes, flushes and snapshots; then every scan and read gives the same rows, seq and all."""

    async def observed(kit: Any) -> list[Any]:
        chance, seen = random.Random(seed), []
        async with kit.db(merge_operator=kit.joining()) as db:
            snapshots = []
            for step in range(60):
                key = b"%02d" % chance.randrange(25)
                match chance.randrange(10):
                    case 0:
                        await db.delete(key)
                    case 1 | 2:
                        await db.merge(key, b"+%d" % step)
                    case 3 if step % 3 == 0:
                        await kit.flush_memtable(db)
                    case 4 if len(snapshots) < 4:
                        snapshots.append(await db.snapshot())
                    case 5:
                        batch = kit.lib.WriteBatch()
                        for _ in range(chance.randrange(1, 6)):
                            batch.put(b"%02d" % chance.randrange(25), b"b%d" % step)
                        await db.write(batch)
                    case _:
                        await db.put(key, b"v%d" % step)
            for source in (db, *snapshots):
                for descending in (False, True):
                    bounds = sorted(b"%02d" % chance.randrange(30) for _ in range(2))
                    wanted = kit.between(bounds[0], bounds[1], through=True)
                    scan = await source.scan_with_options(wanted, kit.scan_options(descending=descending))
                    seen.append([(row.key, row.value, row.seq) for row in await scan.next_batch(1000)])
                for number in range(25):
                    row = await source.get_key_value(b"%02d" % number)
                    seen.append(None if row is None else (row.key, row.value, row.seq))
        return seen

    assert await observed(ours) == await observed(original)


async def test_a_scan_leaves_others_their_turns(ours: Any) -> None:
    """Whoever takes batch after batch never waits for anything once they are in memory."""
    async with ours.db() as db:
        batch = ours.lib.WriteBatch()
        for i in range(60_000):
            batch.put(b"%06d" % i, b"x" * 100)
        await db.write(batch)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.ensure_future(others())
        seen, iterator = [], await db.scan(ours.between(None, None))
        while await iterator.next_batch(4096):
            seen.append(turns)
        beside.cancel()
        assert len(seen) >= 14
        assert len(set(seen)) == len(seen), "somebody had to wait for more than one batch"
