"""Unions of two projections of one database: the original gives their L0 views equal ids, and compactions must not care."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import slatedb.uniffi as u

from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.errors import Error
from slate_engine.format.key_range import ALL, KeyRange
from slate_engine.lsm.commit import Change
from slate_engine.lsm.compaction.commit import take_epoch
from slate_engine.lsm.compaction.compactor import compact_once
from slate_engine.lsm.compaction.options import CompactorOptions
from slate_engine.lsm.compaction.plan import Policy, SizeTiered
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import CompactionsStore
from tests.interop import original, ours
from tests.interop.history import Kind, Operation
from tests.interop.original import Original
from tests.interop.style import Style
from tests.interop.test_compaction import IN_MEMORY
from tests.interop.test_compaction_live import compactor, until

KEYS = [b"k%02d" % number for number in range(40)]
HALVES = KeyRange.half_open(None, b"k20"), KeyRange.half_open(b"k20", None)
FLUSHES = 6
LAST = {key: number % FLUSHES for number, key in enumerate(KEYS)}
"""The last flush that writes a key; every earlier one does so, too. So each SST has rows that show, in both halves."""
ROWS = {key: b"%s of flush %d" % (key, last) for key, last in LAST.items()}
MAKERS = ["theirs", "ours"]


@pytest.fixture
async def them() -> AsyncIterator[Original]:
    """A database of six L0s that overwrite each other, and its unions."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        made = Original(Path(folder), Style())
        async with made.writer("db") as db:
            for number in range(FLUSHES):
                rows = [(key, b"%s of flush %d" % (key, number)) for key, last in LAST.items() if number <= last]
                await original.write(db, [Operation(Kind.PUT, key, value) for key, value in rows])
                await original.flush(db)
        await made.settle("db")
        for number, half in enumerate(HALVES):
            await made.clone([("db", None, half)], f"their {number}")
            await create_clone(files(made, f"our {number}"), [CloneSource("db", keys=half)])
        await made.clone([("their 0", None, ALL), ("their 1", None, ALL)], "theirs")
        await create_clone(files(made, "ours"), [CloneSource("our 0"), CloneSource("our 1")])
        yield made


def files(them: Original, path: str) -> DatabaseFiles:
    return ours.database(ours.folder_store(them.folder), path, them.style)


def book_of(them: Original, path: str) -> CompactionsStore:
    of = files(them, path)
    return CompactionsStore.open(of.store, of.paths.root, of.runtime)


async def newest(them: Original, path: str) -> Manifest:
    return (await files(them, path).manifests.read_latest()).value


async def check(them: Original, path: str, expected: dict[bytes, bytes]) -> None:
    """Both read the same."""
    assert {row.key: row.value for row in await them.rows(path)} == expected
    assert {row.key: row.value for row in await ours.scan(await files(them, path).latest())} == expected


async def test_ours_never_repeat_an_id(them: Original) -> None:
    repeated = {path: len(l0) - len({*l0.ids}) for path in MAKERS for l0 in [(await newest(them, path)).root.l0]}
    assert repeated == {"theirs": FLUSHES, "ours": 0}
    # Nor does a clone of ours of one that the original made, whole or in part, or a union of parts that it made.
    await create_clone(files(them, "clone"), [CloneSource("theirs")])
    await create_clone(files(them, "union"), [CloneSource("their 0"), CloneSource("their 1")])
    for path in ("clone", "union"):
        l0 = (await newest(them, path)).root.l0
        assert len({*l0.ids}) == len(l0) == len((await newest(them, "theirs")).root.l0)
        assert sorted(l0.ids.ms) == sorted((await newest(them, "theirs")).root.l0.ids.ms)
        await check(them, path, ROWS)


@pytest.mark.parametrize("path", MAKERS)
@pytest.mark.parametrize("trivial_moves", [False, True])
@pytest.mark.parametrize("policy", [SizeTiered(), SizeTiered(2, 3)], ids=["default", "small"])
async def test_compacted_by_ours(them: Original, path: str, policy: Policy, trivial_moves: bool) -> None:
    options = CompactorOptions(enable_trivial_move=trivial_moves)
    for _ in range(4):
        await compact_once(files(them, path), policy, options, force=True)
        await check(them, path, ROWS)
    assert (await newest(them, path)).root.runs
    # The original goes on with what is left.
    async with them.writer(path) as db:
        await original.write(db, [Operation(Kind.PUT, b"new", b"row")])
    await check(them, path, {**ROWS, b"new": b"row"})


async def test_ours_compacted_by_the_original(them: Original) -> None:
    """All of L0 at once. If it takes a part, SlateDB 0.17 cuts L0 at the first view that shows the SST of the newest view
    that it took. So it loses rows of any union, whatever the ids of its views."""
    expected = {**ROWS, b"k01": b"by the writer"}
    async with them.writer("ours", compactor=True) as db:
        await original.write(db, [Operation(Kind.PUT, b"k01", b"by the writer")])
        await original.flush(db)
        assert await them.compact("ours", 0, len((await newest(them, "ours")).root.l0), 0)
        assert {row.key: row.value for row in await original.scan(db)} == expected
    assert len((await newest(them, "ours")).root.runs) == 1
    await check(them, "ours", expected)


async def test_what_the_original_has_merged_of_repeated_ids_does_not_count(them: Original) -> None:
    """Its worker merges one of two views twice, and the other never. Its compactor stops before it commits that."""
    views = (await them.admin("theirs").read_manifest(None)).l0
    await take_epoch(files(them, "theirs"), book_of(them, "theirs"))
    sources = [u.SourceId.SST_VIEW(view.id) for view in views]
    job = await them.submit("theirs", u.CompactionSpec.TIERED(segment=b"", sources=sources, destination=0))
    never = dict.fromkeys(("compactor_options.poll_interval", "compactor_options.commit_compacted_interval"), "1h")
    async with them.writer("theirs", compactor=True, **never):

        async def is_compacted() -> bool:
            return bool((await them.admin("theirs").read_compaction(job, None)).status == u.CompactionStatus.COMPACTED)

        await until(is_compacted)
    await check(them, "theirs", ROWS)
    await compact_once(files(them, "theirs"), SizeTiered(), force=True)
    (run,) = (await newest(them, "theirs")).root.runs
    assert run.views
    await check(them, "theirs", ROWS)


@pytest.mark.parametrize("path", MAKERS)
async def test_beside_a_writer_of_the_original(them: Original, path: str) -> None:
    """It has its own list of L0, and cuts it where the compactor's marker says."""
    expected, errors = dict(ROWS), list[Error]()
    async with them.writer(path, manifest_poll_interval="20ms") as db:
        async with compactor(files(them, path), errors.append):
            for number in range(12):
                await original.write(db, [Operation(Kind.PUT, KEYS[3 * number], b"by the writer")])
                expected[KEYS[3 * number]] = b"by the writer"
                await original.flush(db)
                assert {row.key: row.value for row in await original.scan(db)} == expected

            async def is_compacted() -> bool:
                return len((await newest(them, path)).root.l0) < 3

            await until(is_compacted)
        # What it flushes now is merged with what the compactor left.
        await original.write(db, [Operation(Kind.PUT, b"last", b"row")])
        await original.flush(db)
        expected[b"last"] = b"row"
        assert {row.key: row.value for row in await original.scan(db)} == expected
        assert db.status().close_reason is None
    assert not errors
    assert len((await newest(them, path)).root.l0) < 5
    await check(them, path, expected)


@pytest.mark.parametrize("path", MAKERS)
async def test_beside_a_writer_of_ours(them: Original, path: str) -> None:
    expected, errors = dict(ROWS), list[Error]()
    writer = await Writer.open(files(them, path), WriterOptions(manifest_poll_interval=0.02))
    async with compactor(files(them, path), errors.append):
        for number in range(12):
            await (await writer.write([Change(KEYS[3 * number], b"by the writer")])).durable()
            expected[KEYS[3 * number]] = b"by the writer"
            await writer.flush_memtable()
            rows = await ours.scan(writer.snapshot())
            assert {row.key: row.value for row in rows} == expected

        async def is_compacted() -> bool:
            return len((await newest(them, path)).root.l0) < 3

        await until(is_compacted)
    await writer.close()
    assert not errors
    await check(them, path, expected)
