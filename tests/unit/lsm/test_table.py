"""One SST, read a part at a time: what is fetched, what is kept, and what is said of a broken one."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.errors import CorruptData
from slate_engine.format.checksum import sealed
from slate_engine.format.columns import Rows
from slate_engine.format.filters import Bloom, FixedPrefix, encode_filters
from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import UNBOUNDED, Bound, KeyRange
from slate_engine.format.sst_build import SstOptions, build_sst
from slate_engine.format.sst_meta import Codec
from slate_engine.lsm.cache import Cache
from slate_engine.lsm.table import Table
from slate_engine.lsm.visible import MAX_SEQ
from slate_engine.state.ssts import SstHandle
from slate_engine.store.protocol import NotFound
from tests.unit.lsm.reads import RUNTIME, RecordingStore

KEY = "db/compacted/some.sst"
FILTERED = SstOptions(block_size=1024, min_filter_keys=1)
PLAIN = SstOptions(block_size=1024, filters=())


def numbered(count: int, versions: int = 1) -> Rows:
    """Keys that are told apart by their last bytes only, so that no separator is a whole key."""
    return Rows.of(
        [
            (b"key-%08d-%d" % (n // 3, n % 3), b"value %d" % n, seq, 4, 1, 0)
            for n in range(count)
            for seq in range(versions, 0, -1)
        ]
    )


async def stored(
    rows: Rows, options: SstOptions = FILTERED, cache_bytes: int = 1 << 20
) -> tuple[RecordingStore, Table]:
    store, built = RecordingStore(), build_sst(rows, options)
    await store.put(KEY, built.tobytes())
    handle = SstHandle(Ulid(1), built.info, built.version)
    return store, Table(store, KEY, handle, Cache(cache_bytes), RUNTIME, options.filters)


async def test_a_point_read_fetches_filters_index_and_one_block() -> None:
    store, table = await stored(numbered(500))
    key = b"key-%08d-1" % 77
    assert [row.value for row in await table.versions(key, MAX_SEQ)] == [b"value 232"]
    info = table.handle.info
    filters, index, block = store.take()
    assert (filters.start, filters.size) == (info.filter_offset, info.filter_len)
    assert (index.start, index.size) == (info.index_offset, info.index_len)
    assert block.size <= 1024 + 4
    assert await table.versions(key, MAX_SEQ) == table.cached_versions(key, MAX_SEQ)
    assert store.take() == [], "what was read once is in the cache"


async def test_without_filters_it_is_index_and_block() -> None:
    store, table = await stored(numbered(500), PLAIN)
    assert await table.versions(b"key-%08d-1" % 77, MAX_SEQ)
    assert len(store.take()) == 2


async def test_a_filter_spares_index_and_block() -> None:
    store, table = await stored(numbered(500))
    for n in range(200):
        await table.versions(b"absent-%d" % n, MAX_SEQ)
    # At ten bits a key, one in a hundred absent keys passes by mistake.
    assert len(store.take()) <= 1 + 1 + 10


async def test_filters_of_other_policies_are_left_alone() -> None:
    """A filter of another name would be asked the wrong question, and might deny what is there."""
    rows = numbered(200)
    store, table = await stored(
        rows, SstOptions(min_filter_keys=1, filters=(Bloom(10, FixedPrefix(3), whole_keys=False),))
    )
    stranger = Table(store, KEY, table.handle, Cache(1 << 20), RUNTIME, [Bloom()])
    assert await stranger.filters() == []
    assert all([await stranger.versions(key, MAX_SEQ) for key in rows.keys])
    assert not await table.versions(b"xyz", MAX_SEQ)


async def test_prefix_filters_answer_for_prefixes() -> None:
    _, table = await stored(numbered(200), SstOptions(min_filter_keys=1, filters=(Bloom(10, FixedPrefix(3)),)))
    assert await table.may_have_prefix(b"key-")
    assert await table.may_have_prefix(b"ke"), "too short to say"
    assert not await table.may_have_prefix(b"kex-")


async def test_concurrent_reads_share_one_fetch() -> None:
    store, table = await stored(numbered(500))
    found = await asyncio.gather(*(table.versions(b"key-%08d-1" % 77, MAX_SEQ) for _ in range(50)))
    assert all(rows[0].value == b"value 232" for rows in found)
    assert len(store.take()) == 3


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
async def test_versions_of_a_key_may_fill_many_blocks(cache_bytes: int) -> None:
    rows = numbered(5, versions=300)
    _, table = await stored(rows, cache_bytes=cache_bytes)
    assert len(await table.blocks()) > 20
    for key in set(rows.keys):
        assert [row.seq for row in await table.versions(key, MAX_SEQ)] == list(range(300, 0, -1))
        assert [row.seq for row in await table.versions(key, 7)] == [7, 6, 5, 4, 3, 2, 1]


KEYS = st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=60, unique=True).map(sorted)
BOUNDS = st.one_of(
    st.just(UNBOUNDED), st.binary(max_size=3).map(Bound.included), st.binary(max_size=3).map(Bound.excluded)
)


@given(KEYS, st.integers(1, 40), st.lists(st.builds(KeyRange, BOUNDS, BOUNDS), max_size=8))
async def test_rows_in_a_range(keys: list[bytes], versions: int, ranges: list[KeyRange]) -> None:
    rows = Rows.of([(key, b"", seq, 0, 0, 0) for key in keys for seq in range(versions, 0, -1)])
    _, table = await stored(rows)
    for wanted in [*ranges, *(KeyRange.closed(key, key) for key in keys)]:
        if not wanted.is_empty:
            found = await table.rows_in(wanted)
            assert [(row[0], row[2]) for row in found.tuples()] == [
                (row[0], row[2]) for row in rows.tuples() if row[0] in wanted
            ]


async def test_keys_without_values() -> None:
    rows = numbered(300)
    _, table = await stored(rows)
    found = await table.rows(0, len(await table.blocks()), values=False)
    assert list(found.keys) == list(rows.keys)
    assert found.values.nbytes == 0


async def test_statistics() -> None:
    _, table = await stored(numbered(300))
    stats = await table.stats()
    assert stats is not None
    assert (stats.num_puts, stats.num_deletes) == (300, 0)


async def test_a_missing_sst_is_named() -> None:
    store, table = await stored(numbered(10))
    await store.delete([KEY])
    for read in (table.versions(b"key-00000000-0", MAX_SEQ), table.rows_in(KeyRange()), table.stats()):
        with pytest.raises(NotFound, match=f"{KEY} .*garbage collection") as caught:
            await read
        assert caught.value.key == KEY
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
@pytest.mark.parametrize("part", ["block", "filter", "index", "stats"])
async def test_a_broken_part_is_named(codec: Codec, part: str) -> None:
    store, table = await stored(numbered(500), SstOptions(block_size=1024, min_filter_keys=1, codec=codec))
    info = table.handle.info
    blocks = await Table(store, KEY, table.handle, Cache(0), RUNTIME, ()).blocks()
    start, size = {
        "block": (int(blocks.starts[3]), int(blocks.ends[3] - blocks.starts[3])),
        "filter": (info.filter_offset, info.filter_len),
        "index": (info.index_offset, info.index_len),
        "stats": (info.stats_offset, info.stats_len),
    }[part]
    await store.change(KEY, start + size // 2, b"\xa5\x5a\xa5")
    read = {
        "block": lambda: table.rows_in(KeyRange()),
        "filter": table.filters,
        "index": table.blocks,
        "stats": table.stats,
    }[part]
    with pytest.raises(CorruptData) as caught:
        await read()
    assert caught.value.object == KEY
    assert start <= caught.value.offset < start + size


async def test_a_filter_that_is_too_short_is_named() -> None:
    """Its checksum is right: somebody wrote it so."""
    store, table = await stored(numbered(10))
    section = sealed(encode_filters([("_bf", b"\x01")]))
    info = replace(table.handle.info, filter_offset=0, filter_len=len(section))
    await store.put(KEY, section)
    short = Table(store, KEY, replace(table.handle, info=info), Cache(0), RUNTIME, [Bloom()])
    with pytest.raises(CorruptData, match=KEY):
        await short.filters()


async def test_a_broken_block_hides_nothing_else() -> None:
    store, table = await stored(numbered(500))
    blocks = await table.blocks()
    await store.change(KEY, int(blocks.starts[3]) + 5, b"\xa5\x5a")
    assert await table.rows(0, 3)
    assert await table.rows(4, len(blocks))
    with pytest.raises(CorruptData):
        await table.rows(3, 4)


@pytest.mark.parametrize("left", [0, 10, 3000, 20_000])
async def test_a_cut_file_is_corrupt(left: int) -> None:
    """Ranges past the end come back short, whatever part they were of."""
    store, table = await stored(numbered(1000))
    data = (await store.get(KEY)).data
    assert len(data) > 20_000
    await store.put(KEY, bytes(data[:left]))
    for read in (table.filters(), table.blocks(), table.stats(), table.versions(b"key-00000000-0", MAX_SEQ)):
        with pytest.raises(CorruptData, match=KEY):
            await read


async def test_a_file_that_was_cut_after_its_index_was_read() -> None:
    store, table = await stored(numbered(1000))
    blocks = await table.blocks()
    data = (await store.get(KEY)).data
    await store.put(KEY, bytes(data[: int(blocks.starts[-1]) + 3]))
    assert len(await table.rows(0, len(blocks) - 1))
    with pytest.raises(CorruptData, match=KEY):
        await table.rows(0, len(blocks))
    with pytest.raises(CorruptData, match=KEY):
        await table.rows(len(blocks) - 1, len(blocks))
