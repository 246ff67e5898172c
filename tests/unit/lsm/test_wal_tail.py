"""The end of the log in memory: what it shows, how it is bounded, and that nothing is in it twice."""

from __future__ import annotations

import random

import pytest

from slate_engine.errors import DataError
from slate_engine.format.columns import HAS_CREATE, MERGE, Rows
from slate_engine.format.wal import FENCE, build_wal_sst
from slate_engine.lsm.levels import Levels
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.wal_tail import WalTail, follow
from slate_engine.runtime import SystemRuntime
from slate_engine.state.manifest import Manifest
from slate_engine.state.tree import Trees
from slate_engine.store.memory import MemoryStore

RUNTIME = SystemRuntime()
EMPTY = WalTail(0, 0, 1 << 20)


def batch(*rows: tuple[bytes, bytes, int]) -> Rows:
    return Rows.of([(key, value, seq, HAS_CREATE, 0, 0) for key, value, seq in rows])


def shown(tail: WalTail) -> Snapshot:
    def no_tables(view: object) -> None:
        raise AssertionError("there are no tables")

    return Snapshot(tail.tables, Levels(Trees()), no_tables, tail.last_seq)  # type: ignore[arg-type]


async def rows_of(tail: WalTail) -> dict[bytes, bytes]:
    return {row[0]: row[1] async for rows in shown(tail).scan() for row in rows.tuples()}


async def test_random_files_read_like_a_dictionary() -> None:
    chance = random.Random(1)
    tail, model, seq = EMPTY, dict[bytes, bytes](), 0
    for id in range(1, 80):
        rows = []
        for _ in range(chance.randrange(0, 8)):
            seq += 1
            rows.append((b"%02d" % chance.randrange(40), b"v%d" % seq, seq))
        tail = tail.with_file(id, batch(*rows))
        model.update({key: value for key, value, _ in rows})
        assert tail.last_id == id
        assert tail.last_seq == seq
    assert await rows_of(tail) == model
    for key, value in model.items():
        found = await shown(tail).get(key)
        assert found is not None
        assert found.value == value
    sizes = [table.sorted.nbytes for table in tail.tables]
    assert len(sizes) < 10, "neighbours of like size are merged"
    assert sizes == sorted(sizes)


def test_no_table_grows_beyond_the_limit() -> None:
    tail = WalTail(0, 0, 2_000)
    for id in range(1, 60):
        tail = tail.with_file(id, batch((b"%04d" % id, b"x" * 100, id)))
    assert all(table.sorted.nbytes <= 2_000 for table in tail.tables)
    assert sum(len(table.sorted) for table in tail.tables) == 59
    assert len(tail.tables) > 3


async def test_what_a_manifest_has_is_dropped() -> None:
    tail = EMPTY
    for id in range(1, 10):
        tail = tail.with_file(id, batch((b"%d" % id, b"v", id)))
    flushed = tail.above(Manifest(replay_after_wal_id=3, last_l0_seq=4))
    assert sorted(await rows_of(flushed)) == [b"5", b"6", b"7", b"8", b"9"]
    assert (flushed.last_id, flushed.after_seq, flushed.last_seq) == (9, 4, 9)
    everything = flushed.above(Manifest(replay_after_wal_id=20, last_l0_seq=30))
    assert (everything.last_id, everything.last_seq, everything.tables) == (20, 30, ())
    assert everything.above(Manifest(replay_after_wal_id=3, last_l0_seq=4)) is everything, "it never goes back"


async def test_a_merge_operand_is_never_applied_twice() -> None:
    """The reason for dropping: an operand in the log and in an SST would count double."""

    class Join:
        def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
            return (existing_value or b"") + operand

    operands = Rows.of([(b"k", b"a", 1, MERGE, 0, 0), (b"k", b"b", 2, MERGE, 0, 0)])
    tail = EMPTY.with_file(1, operands)
    in_sst = WalTail(0, 0, 1 << 20).with_file(1, operands.slice(0, 1)).tables
    kept = tail.above(Manifest(replay_after_wal_id=0, last_l0_seq=1))
    view = Snapshot((*kept.tables, *in_sst), Levels(Trees()), lambda view: None, 2, Join())  # type: ignore[arg-type,return-value]
    found = await view.get(b"k")
    assert found is not None
    assert found.value == b"ab"


async def put_files(store: MemoryStore, ids: range) -> None:
    for id in ids:
        data = build_wal_sst(batch((b"%03d" % id, b"v", id))).tobytes() if id % 5 else FENCE
        await store.put(f"db/wal/{id:020d}.sst", data)


async def test_following_stops_at_a_gap_and_goes_on_when_it_is_filled() -> None:
    store = MemoryStore(RUNTIME)
    files = DatabaseFiles(store, "db", RUNTIME)
    await put_files(store, range(1, 40))
    await put_files(store, range(41, 44))
    tail = await follow(files, EMPTY)
    assert tail.last_id == 39
    assert await follow(files, tail) is tail
    await put_files(store, range(40, 41))
    tail = await follow(files, tail)
    assert tail.last_id == 43
    assert len(await rows_of(tail)) == 43 - 8


async def test_a_state_that_promises_files_is_refused_without_them() -> None:
    store = MemoryStore(RUNTIME)
    files = DatabaseFiles(store, "db", RUNTIME)
    await put_files(store, range(1, 40))
    assert (await follow(files, EMPTY, until=22)).last_id == 22
    await store.delete(["db/wal/00000000000000000007.sst"])
    with pytest.raises(DataError, match="wal truncated at wal file 7"):
        await follow(files, EMPTY, until=22)
