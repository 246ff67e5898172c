"""The part of a database that is only in its WAL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.errors import CorruptData, DataError
from slate_engine.format.columns import Rows
from slate_engine.format.sst_build import build_sst
from slate_engine.format.wal import FENCE, build_wal_sst
from slate_engine.lsm.paths import Paths
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import replay, wal_frontier
from slate_engine.lsm.visible import MAX_SEQ
from slate_engine.store.memory import MemoryStore
from tests.interop import ours
from tests.unit.lsm.reads import RUNTIME, RecordingStore, new_database, put

PATHS = Paths("db")
PUT = 4
"""The flags of a value with a creation time."""


def wal_file(*rows: tuple[bytes, int]) -> bytes:
    return build_wal_sst(Rows.of([(key, b"%d" % seq, seq, PUT, 1, 0) for key, seq in rows])).tobytes()


async def stored(files: dict[int, bytes]) -> RecordingStore:
    store = RecordingStore()
    for id, data in files.items():
        await store.put(PATHS.wal(id), data)
    return store


async def seqs(store: MemoryStore, ids: range, after_seq: int = 0) -> list[tuple[bytes, int]]:
    rows = (await replay(store, PATHS, ids, after_seq, RUNTIME)).rows()
    return [(key, seq) for key, _, seq, *_ in rows.tuples()]


async def test_rows_become_a_sorted_run() -> None:
    store = await stored({1: wal_file((b"b", 1), (b"a", 2)), 2: wal_file((b"a", 3), (b"c", 3))})
    replayed = await replay(store, PATHS, range(1, 3), 0, RUNTIME)
    assert await seqs(store, range(1, 3)) == [(b"a", 3), (b"a", 2), (b"b", 1), (b"c", 3)]
    assert [row.value for row in replayed.versions(b"a", MAX_SEQ)] == [b"3", b"2"]
    assert [row.value for row in replayed.versions(b"a", 2)] == [b"2"]
    assert list(replayed.versions(b"aa", MAX_SEQ)) == []


async def test_what_has_reached_an_sst_is_passed_over() -> None:
    store = await stored({1: wal_file((b"a", 1), (b"a", 2)), 2: wal_file((b"a", 3), (b"b", 4))})
    assert await seqs(store, range(1, 3), after_seq=3) == [(b"b", 4)]
    assert await seqs(store, range(1, 3), after_seq=4) == []


async def test_a_fence_is_a_file_without_rows() -> None:
    store = await stored({1: FENCE, 2: wal_file((b"a", 1)), 3: FENCE, 4: wal_file((b"b", 2)), 5: FENCE})
    assert await wal_frontier(store, PATHS, 0) == 5
    assert await seqs(store, range(1, 6)) == [(b"a", 1), (b"b", 2)]


async def test_a_file_that_is_known_to_have_been_there_is_missed() -> None:
    store = await stored({1: wal_file((b"a", 1)), 2: wal_file((b"b", 2)), 4: wal_file((b"c", 3))})
    with pytest.raises(DataError, match="wal truncated at wal file 3"):
        await seqs(store, range(1, 5))


async def test_a_gap_is_the_end() -> None:
    store = await stored({1: wal_file((b"a", 1)), 2: wal_file((b"b", 2)), 4: wal_file((b"c", 3))})
    assert await wal_frontier(store, PATHS, 0) == 2
    assert await wal_frontier(store, PATHS, 4) == 4
    assert await wal_frontier(store, PATHS, 7) == 7


@given(st.sets(st.integers(1, 30)), st.integers(0, 31))
async def test_the_frontier_is_where_the_ids_break_off(ids: set[int], after: int) -> None:
    store = await stored(dict.fromkeys(ids, FENCE))
    expected = after
    while expected + 1 in ids:
        expected += 1
    assert await wal_frontier(store, PATHS, after) == expected


async def test_the_frontier_is_found_over_many_pages() -> None:
    store = await stored(dict.fromkeys(range(1, 2501), FENCE))
    assert await wal_frontier(store, PATHS, 3) == 2500
    await store.delete([PATHS.wal(1700)])
    assert await wal_frontier(store, PATHS, 3) == 1699


async def test_strange_names_do_not_matter() -> None:
    store = await stored({1: wal_file((b"a", 1)), 2: wal_file((b"b", 2))})
    for name in ("zzz", "1.sst", PATHS.wal(1).removeprefix("db/wal/") + ".bak", "sub/00000000000000000003.sst"):
        await store.put(f"db/wal/{name}", b"not a WAL file")
    assert await wal_frontier(store, PATHS, 0) == 2


async def test_no_wal_at_all() -> None:
    assert await wal_frontier(MemoryStore(RUNTIME), PATHS, 5) == 5
    assert await seqs(MemoryStore(RUNTIME), range(0)) == []


@pytest.mark.parametrize("broken", [b"x", b"not an SST, though longer than a footer", wal_file((b"a", 1))[:-7]])
async def test_a_broken_file_is_named(broken: bytes) -> None:
    store = await stored({1: wal_file((b"a", 1)), 2: broken})
    with pytest.raises(DataError, match=PATHS.wal(2)):
        await seqs(store, range(1, 3))


async def test_a_flipped_byte_is_found() -> None:
    store = await stored({1: wal_file((b"a", 1))})
    await store.change(PATHS.wal(1), 3, b"\xa5")
    with pytest.raises(CorruptData, match=PATHS.wal(1)):
        await seqs(store, range(1, 2))


async def test_a_sorted_sst_in_the_place_of_a_wal_file_is_refused() -> None:
    table = build_sst(Rows.of([(b"a", b"", 1, PUT, 1, 0)])).tobytes()
    store = await stored({1: table})
    with pytest.raises(CorruptData, match=PATHS.wal(1)):
        await seqs(store, range(1, 2))


async def test_a_database_whose_wal_lies_in_another_store() -> None:
    author = await new_database()
    await author.commit([put(b"in an SST")])
    await author.flush()
    await author.commit([put(b"in the WAL")])
    await author.flush_wal()
    elsewhere = MemoryStore(RUNTIME)
    for id in range(1, author.wal_id + 1):
        await elsewhere.put(PATHS.wal(id), (await author.store.get(PATHS.wal(id))).data)
        await author.store.delete([PATHS.wal(id)])
    apart = DatabaseFiles(author.store, "db", RUNTIME, wal_store=elsewhere)
    assert await ours.scan(await apart.latest()) == author.model.rows()
    without = DatabaseFiles(author.store, "db", RUNTIME)
    assert [row.key for row in await ours.scan(await without.latest())] == [b"in an SST"]
