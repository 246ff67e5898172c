"""How a job is cut up."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.format.columns import HAS_CREATE
from slate_engine.format.key_range import ALL, Bound, KeyRange
from slate_engine.format.sst_build import SstOptions
from slate_engine.format.sst_meta import Codec
from slate_engine.lsm.compaction.inputs import Inputs, SourcesGone
from slate_engine.lsm.compaction.ranges import divided, plan_chunks, plan_ranges
from slate_engine.lsm.row import Row
from slate_engine.runtime import SystemRuntime
from slate_engine.state.compactions import TieredSpec
from slate_engine.store.memory import MemoryStore
from tests.unit.compaction.databases import SST, Scribe, open_files

RUNTIME = SystemRuntime(threads=1)


async def inputs_of(levels: list[list[Row]], options: SstOptions = SST) -> Inputs:
    """L0 SSTs of these rows, oldest first."""
    files = open_files(MemoryStore(RUNTIME), RUNTIME)
    scribe = await Scribe(files).create()
    for rows in levels:
        await scribe.add(rows, options=options)
    manifest = await files.manifest()
    spec = TieredSpec(tuple(manifest.root.l0.ids), (), 0)
    return Inputs.of(spec, manifest, files.tables.opener(manifest), files.store)


def rows(keys: range, first_seq: int, value: int = 100, versions: int = 1) -> list[Row]:
    noise = random.Random(first_seq)
    return [
        Row(b"k%06d" % key, noise.randbytes(value), first_seq + versions - v, HAS_CREATE, 1, 0)
        for key in keys
        for v in range(versions)
    ]


def covers_all(ranges: list[KeyRange], whole: KeyRange) -> bool:
    """Whether the ranges follow each other without a gap."""
    joined = all(
        before.end.key == after.start.key and before.end.type.name == "EXCLUDED" for before, after in pairwise(ranges)
    )
    return joined and ranges[0].start == whole.start and ranges[-1].end == whole.end


@given(st.lists(st.binary(max_size=2), unique=True).map(sorted), st.binary(max_size=2), st.binary(max_size=2))
def test_a_range_is_divided_without_gaps(cuts: list[bytes], start: bytes, end: bytes) -> None:
    for whole in (ALL, KeyRange.half_open(start, end), KeyRange(Bound.included(start), Bound.included(end))):
        if not whole.is_empty:
            parts = list(divided(whole, cuts))
            assert covers_all(parts, whole)
            assert not any(part.is_empty for part in parts)


async def test_ranges_are_alike_in_size() -> None:
    inputs = await inputs_of([rows(range(i, 4000, 3), 1000 * i) for i in range(3)])
    ranges = await plan_ranges(inputs, 4, 1)
    assert len(ranges) == 3, "not smaller than the largest SST"
    assert covers_all(ranges, ALL)
    sizes = [sum(len(part.rows()) for part in await inputs.read(keys)) for keys in ranges]
    assert max(sizes) < 1.2 * min(sizes)
    assert await plan_ranges(inputs, 1, 1) == [ALL]
    assert await plan_ranges(inputs, 4, inputs.size) == [ALL], "small jobs are not divided"
    assert len(await plan_ranges(inputs, 4, inputs.size // 2)) == 2


@pytest.mark.parametrize("value", [0, 10, 2000])
async def test_chunks_fit_into_memory(value: int) -> None:
    """Whatever the rows are like: small ones take more than their bytes."""
    inputs = await inputs_of([rows(range(i, 3000, 4), 1000 * i, value) for i in range(4)])
    target = 100_000
    chunks = [chunk async for chunk in plan_chunks(inputs, ALL, target)]
    assert covers_all(chunks, ALL)
    read = [[blocks.rows() for blocks in await inputs.read(chunk)] for chunk in chunks]
    assert sum(len(part) for parts in read for part in parts) == 3000
    sizes = [sum(part.nbytes + 16 * len(part) for part in parts) for parts in read]
    # Each level may add a block at either end.
    assert max(sizes) < target + 8 * max(4096, 2 * value + 200)
    assert len(chunks) > 1


async def test_chunks_fit_into_memory_however_well_their_rows_compress() -> None:
    """Long keys that share a prefix, and values that are all the same, take a hundredth of their bytes on disk."""
    levels = [
        [Row(b"p" * 300 + b"%06d" % key, b"v" * 500, level, HAS_CREATE, 1, 0) for key in range(level, 3000, 2)]
        for level in (1, 2)
    ]
    inputs = await inputs_of(levels, replace(SST, codec=Codec.ZSTD))
    assert inputs.size < 200_000
    target = 200_000
    chunks = [chunk async for chunk in plan_chunks(inputs, ALL, target)]
    sizes = [sum(blocks.rows().nbytes for blocks in await inputs.read(chunk)) for chunk in chunks]
    assert sum(sizes) > 2_000_000
    assert max(sizes) < 1.5 * target


async def test_a_chunk_of_a_range_stays_in_it_and_holds_all_versions_of_its_keys() -> None:
    inputs = await inputs_of([rows(range(60), 1000 * i, 100, versions=20) for i in range(1, 3)])
    whole = KeyRange.half_open(b"k000010", b"k000050")
    seen: set[bytes] = set()
    async for chunk in plan_chunks(inputs, whole, 1):
        keys = {key for part in await inputs.read(chunk) for key in part.rows().keys}
        for key in keys:
            assert key in whole
            found = [row for part in await inputs.read(KeyRange.closed(key, key)) for row in part.rows().tuples()]
            assert len(found) == 40
        assert not keys & seen
        seen |= keys
    assert len(seen) == 40


async def test_sources_that_are_gone() -> None:
    files = open_files(MemoryStore(RUNTIME), RUNTIME)
    scribe = await Scribe(files).create()
    await scribe.add(rows(range(10), 1))
    await scribe.add(rows(range(10), 100))
    manifest = await files.manifest()
    newest, oldest = manifest.root.l0.ids
    opener = files.tables.opener(manifest)
    for spec in (
        TieredSpec((newest,), (), 0),
        TieredSpec((oldest, newest), (), 0),
        TieredSpec((oldest,), (3,), 3),
        TieredSpec((), (3,), 3, b"s"),
    ):
        with pytest.raises(SourcesGone):
            Inputs.of(spec, manifest, opener, files.store)
    assert len(Inputs.of(TieredSpec((oldest,), (), 0), manifest, opener, files.store).levels) == 1
