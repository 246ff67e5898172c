"""Snapshots of whole databases in memory: what they give, and how much of the store they touch for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_engine.errors import CorruptData, InvalidError
from slate_engine.format.key_range import KeyRange
from slate_engine.format.sst_build import SstOptions
from slate_engine.lsm import snapshot as module
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.snapshot import LARGE_PARTS, PARTS_AHEAD, Snapshot
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import Buffer, NotFound
from tests.interop import ours
from tests.interop.author import Author
from tests.interop.history import Kind, Model, Operation
from tests.interop.plan import Plan, play_ours
from tests.interop.strategies import UNSHRUNK, plans
from tests.interop.style import Style
from tests.unit.lsm.reads import RUNTIME, RecordingStore, new_database, put

MIB = 1 << 20


def store_of(author: Author) -> RecordingStore:
    assert isinstance(author.store, RecordingStore)
    return author.store


async def large_run(tables: int, rows: int, value: int) -> Author:
    """A database whose one run has this many tables, of this many rows each."""
    author = await new_database()
    await author.commit(put(b"%08d" % n, b"%d" % n * (value // len(b"%d" % n))) for n in range(tables * rows))
    await author.flush()
    await author.compact(0, 1, 0, [n / tables for n in range(tables)], split=False, drop=False)
    assert len(author.manifest.root.runs[0].views) == tables
    return author


async def first_rows(snapshot: Snapshot, count: int, *, descending: bool = False) -> list[bytes]:
    keys: list[bytes] = []
    async for rows in snapshot.scan(descending=descending):
        keys += rows.keys
        if len(keys) >= count:
            break
    return keys[:count]


@settings(max_examples=20, phases=UNSHRUNK)
@given(plans(), st.lists(st.floats(0, 1), max_size=3))
async def test_the_past_is_seen_as_it_was(plan: Plan, when: list[float]) -> None:
    """A reader at a sequence number sees what a model of the commits up to it sees, wherever the versions have gone."""
    author = await Author(MemoryStore(RUNTIME), "db", plan.style).create()
    await play_ours(author, [step for step in plan.steps if not getattr(step, "drop", False)])
    snapshot = await ours.database(author.store, "db", plan.style).latest()
    for seq in [author.seq, *(int(share * author.seq) for share in when)]:
        versions = {key: [each for each in of_key if each.seq <= seq] for key, of_key in author.model.versions.items()}
        model = Model(versions)
        assert ours.brief(await ours.scan(snapshot.at(seq))) == ours.brief(model.rows())
        for key in versions:
            assert await ours.get(snapshot.at(seq), key) == model.row(key)


async def test_a_get_looks_no_further_than_the_newest_value() -> None:
    author = await new_database()
    for _ in range(3):
        await author.commit([put(b"k"), put(b"l")])
        await author.flush()
    await author.commit([put(b"l")])
    await author.flush_wal()
    snapshot = await ours.database(author.store, "db", Style()).latest()
    store = store_of(author)
    store.take()
    assert await snapshot.get(b"k")
    newest = author.paths.compacted(author.manifest.root.l0[0].sst.id)
    assert {read.key for read in store.take()} == {newest}
    assert await snapshot.get(b"l")
    assert store.take() == [], "what is in the WAL is in memory"


async def test_a_get_costs_three_requests_and_then_none() -> None:
    style = Style(SstOptions(min_filter_keys=1))
    author = await new_database(style)
    await author.commit(put(b"key-%05d" % n, b"v" * 50) for n in range(2000))
    await author.flush()
    snapshot = await ours.database(author.store, "db", style).latest()
    store = store_of(author)
    store.take()
    assert await snapshot.get(b"key-00777")
    assert len(store.take()) == 3, "filters, index, block"
    assert await snapshot.get(b"key-00777")
    assert await snapshot.get(b"key-00776"), "its neighbour in the block"
    assert store.take() == []
    assert await snapshot.get(b"key-00777x") is None
    assert await snapshot.get(b"key") is None, "before the first key of every table"
    assert store.take() == []


@pytest.mark.parametrize("descending", [False, True])
async def test_a_scan_that_is_abandoned_has_read_little(descending: bool) -> None:
    author = await large_run(tables=4, rows=1000, value=4000)  # 16 MB
    snapshot = await ours.database(author.store, "db", Style()).latest()
    store = store_of(author)
    store.take()
    every = [b"%08d" % n for n in range(4000)]
    assert await first_rows(snapshot, 5, descending=descending) == (every[::-1] if descending else every)[:5]
    await asyncio.sleep(0)
    assert sum(read.size for read in store.take()) < 2 * MIB


@pytest.mark.parametrize("descending", [False, True])
async def test_an_abandoned_scan_has_loaded_few_indexes(monkeypatch: pytest.MonkeyPatch, descending: bool) -> None:
    monkeypatch.setattr(module, "WINDOW_BYTES", 200_000)
    author = await large_run(tables=40, rows=100, value=1000)  # 100 KB each
    snapshot = await ours.database(author.store, "db", Style()).latest()
    store = store_of(author)
    store.take()
    assert len(await first_rows(snapshot, 5, descending=descending)) == 5
    assert len({read.key for read in store.take()}) <= 12
    assert await ours.scan(snapshot, descending=descending) == author.model.rows()[:: -1 if descending else 1]


async def test_a_bulk_scan_reads_large_ranges() -> None:
    author = await large_run(tables=1, rows=8000, value=4000)  # 32 MB
    snapshot = await ours.database(author.store, "db", Style()).latest()
    store = store_of(author)
    store.take()
    count = sum([len(rows) async for rows in snapshot.scan(parts=LARGE_PARTS)])
    assert count == 8000
    index, *data = store.take()
    assert index.size < MIB
    assert len(data) <= 5
    assert min(read.size for read in data[:-1]) >= 7 * MIB
    assert sum(read.size for read in data) < 33 * MIB, "nothing is read twice"


async def test_a_scan_reads_ahead_and_not_too_far() -> None:
    author = await large_run(tables=1, rows=8000, value=4000)
    slow = SlowStore(store_of(author))
    database = DatabaseFiles(slow, "db", RUNTIME)
    async for _ in (await database.latest()).scan(parts=(MIB,)):
        await asyncio.sleep(0.002)
    assert 2 <= slow.most <= PARTS_AHEAD + 1


class SlowStore(RecordingStore):
    """Counts how many reads are under way at once. Answers only the first ``answers``, and leaves the others waiting."""

    def __init__(self, store: RecordingStore, answers: int = 1000) -> None:
        super().__init__()
        self._objects, self._keys = store._objects, store._keys
        self._answers = answers
        self.waiting = 0
        self.most = 0

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        self._answers -= 1
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await asyncio.sleep(0.002 if self._answers >= 0 else 60)
        finally:
            self.waiting -= 1
        return await super().get_ranges(key, ranges)


async def test_closing_a_scan_ends_its_reads() -> None:
    author = await large_run(tables=1, rows=2000, value=4000)
    slow = SlowStore(store_of(author), answers=2)  # the index, and the first part
    scan = (await DatabaseFiles(slow, "db", RUNTIME).latest()).scan()
    async for _ in scan:
        break
    assert slow.waiting == PARTS_AHEAD
    await scan.aclose()
    for _ in range(5):
        await asyncio.sleep(0)
    assert slow.waiting == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_scans_see_only_what_views_show() -> None:
    """The SSTs of a projected clone hold more than the clone."""
    author = await new_database()
    await author.commit(put(b"%03d" % n) for n in range(300))
    await author.flush()
    await author.compact(0, 1, 0, (0.3, 0.6), split=True, drop=False)
    await author.commit(put(b"%03d" % n, b"newer") for n in range(0, 300, 7))
    await author.flush()
    part = KeyRange.half_open(b"100", b"200")
    clone = await author.clone("clone", part)
    snapshot = await ours.database(author.store, "clone", Style()).latest()
    expected = [row for row in author.model.rows() if b"100" <= row.key < b"200"]
    assert clone.model.rows() == expected
    await ours.check(snapshot, expected, absent=[b"000", b"099", b"200", b"299"])


async def test_versions_of_a_key_straddle_tables() -> None:
    author = await new_database()
    for n in range(60):
        await author.commit([Operation(Kind.MERGE, b"k", b"%d," % n), put(b"a"), put(b"z")])
    await author.flush()
    await author.compact(0, 1, 0, [n / 20 for n in range(20)], split=False, drop=False)
    snapshot = await ours.database(author.store, "db", Style()).latest()
    views = author.manifest.root.runs[0].views
    assert sum(view.key_range is not None and b"k" in view.key_range for view in views) > 5
    await ours.check(snapshot, author.model.rows())
    assert (await ours.scan(snapshot.at(30)))[1].value == b"".join(b"%d," % n for n in range(30))


async def test_merge_operands_need_an_operator() -> None:
    author = await new_database()
    await author.commit([Operation(Kind.MERGE, b"counter", b"1"), put(b"plain")])
    await author.flush()
    snapshot = await DatabaseFiles(author.store, "db", RUNTIME).latest()
    assert await snapshot.get(b"plain")
    with pytest.raises(InvalidError, match="operator"):
        await snapshot.get(b"counter")
    with pytest.raises(InvalidError, match="operator"):
        await ours.scan(snapshot)
    assert [row.key for row in await ours.scan(snapshot, values=False)] == [b"counter", b"plain"]


async def test_a_broken_block_is_named_by_whoever_meets_it() -> None:
    author = await large_run(tables=3, rows=500, value=1000)
    store, view = store_of(author), author.manifest.root.runs[0].views[1]
    broken = author.paths.compacted(view.sst.id)
    await store.change(broken, 100_000, b"\xa5" * 4)
    snapshot = await ours.database(store, "db", Style()).latest()
    assert len(await ours.scan(snapshot, KeyRange.half_open(None, b"%08d" % 500))) == 500
    for descending in (False, True):
        with pytest.raises(CorruptData) as caught:
            await ours.scan(snapshot, descending=descending)
        assert caught.value.object == broken
    with pytest.raises(CorruptData, match=broken):
        await asyncio.gather(*(snapshot.get(b"%08d" % n) for n in range(500, 1000)))


async def test_a_missing_table_is_named_and_nothing_is_left_out() -> None:
    author = await large_run(tables=3, rows=500, value=100)
    missing = author.paths.compacted(author.manifest.root.runs[0].views[1].sst.id)
    await author.store.delete([missing])
    snapshot = await ours.database(author.store, "db", Style()).latest()
    with pytest.raises(NotFound, match=missing):
        await ours.scan(snapshot)
    with pytest.raises(NotFound, match=missing):
        await snapshot.get(b"%08d" % 700)
    assert await snapshot.get(b"%08d" % 300)
