"""Keys of up to 100 KiB and values of up to 8 MiB, both ways, with every codec and block size."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_engine.format.sst_build import SstOptions
from slate_engine.format.sst_meta import Codec
from tests.interop import original, ours
from tests.interop.author import Author
from tests.interop.history import Kind, Model, Operation
from tests.interop.original import Original
from tests.interop.strategies import FAR_AWAY_MS, SST_OPTIONS, blob, blobs
from tests.interop.style import Style
from tests.share import share_of

KEYS = st.builds(
    lambda seed, length, last: blob(seed, length, 1 << 30) + last,
    st.integers(0, 1),  # so that neighbours share long prefixes
    st.sampled_from([0, 1, 1000, 70_000, 100 << 10]),
    st.binary(min_size=1, max_size=1),
)
OPERATIONS = st.lists(
    st.builds(
        Operation,
        st.sampled_from([Kind.PUT, Kind.MERGE]),
        KEYS,
        st.one_of(blobs(8 << 20), blobs(100)),
        st.sampled_from([None, FAR_AWAY_MS]),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda operation: operation.key,
).map(tuple)
STYLES = st.builds(Style, SST_OPTIONS)


async def they_read(style: Style, commits: Sequence[Sequence[Operation]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        store = ours.folder_store(Path(name))
        author = await Author(store, "db", style).create()
        for number, operations in enumerate(commits):
            await author.commit(operations)
            if number == len(commits) // 2:
                await author.flush()
                await author.compact(0, 8, 0, (0.5,), split=False, drop=False)
        await author.flush_wal()
        await check(Original(Path(name), style), author.model)


async def we_read(style: Style, commits: Sequence[Sequence[Operation]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        them, model = Original(Path(name), style), Model()
        async with them.writer("db") as db:
            for number, operations in enumerate(commits):
                model.apply(await original.write(db, operations))
                if number == len(commits) // 2:
                    await original.flush(db)
        await check(them, model)


async def check(them: Original, model: Model) -> None:
    expected = ours.brief(model.rows())
    snapshot = await ours.database(ours.folder_store(them.folder), "db", them.style).latest()
    assert ours.brief(await ours.scan(snapshot)) == expected
    async with them.reader("db") as reader:
        assert ours.brief(await original.scan(reader)) == expected
        for key in model.versions:
            row = model.row(key)
            assert await original.get(reader, key) == row
            assert await ours.get(snapshot, key) == row


LONG = blob(1, (100 << 10) - 1, 1 << 30)


def largest(value: int) -> list[list[Operation]]:
    """The shortest key and the longest ones, no value and a large one; the last commit stays in the WAL."""
    return [
        [Operation(Kind.PUT, b"\0", b""), Operation(Kind.PUT, LONG + b"a", blob(2, value, 5000))],
        [Operation(Kind.DELETE, b"\0"), Operation(Kind.MERGE, LONG + b"b", blob(3, 1 << 18, 1 << 30))],
        [Operation(Kind.PUT, b"\0", b"v"), Operation(Kind.PUT, LONG + b"c", blob(2, value // 2, 1 << 30))],
    ]


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
async def test_they_read_the_largest(codec: Codec) -> None:
    await they_read(Style(SstOptions(codec=codec, min_filter_keys=1)), largest(8 << 20))


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
async def test_we_read_the_largest(codec: Codec) -> None:
    # The original's Python package takes a second for every few megabytes that are handed to it.
    await we_read(Style(SstOptions(codec=codec)), largest(8 << 20 if codec is Codec.ZSTD else 1 << 19))


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=share_of(60))
@given(STYLES, st.lists(OPERATIONS, min_size=1, max_size=4))
async def test_random_large_rows(style: Style, commits: list[tuple[Operation, ...]]) -> None:
    await they_read(style, commits)
    await we_read(style, commits)
