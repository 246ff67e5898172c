"""The original beside a load: its writer, its compactor and its collector, throughout."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import slatedb.uniffi as u

from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.spark.load.commit import commit_load
from slate_engine.store.open import open_store
from tests.interop.history import Kind, Operation
from tests.interop.original import Original, write
from tests.interop.style import Style
from tests.spark.loads import begun, built

ROUNDS = 4


def greedy() -> Any:
    """Their collector with no minimum age for SSTs: it takes every one that it may. On local files it has no boundaries,
    without which it must not take manifests that somebody may still believe to be the newest."""

    def aged(seconds: int) -> Any:
        return u.GarbageCollectorDirectoryOptions(interval_ms=None, min_age_ms=seconds * 1000, dry_run=False)

    return u.GarbageCollectorOptions(
        manifest_options=aged(3600),
        wal_options=aged(3600),
        wal_fence_options=aged(3600),
        compacted_options=aged(0),
        compactions_options=aged(3600),
        detach_options=u.GarbageCollectorScheduleOptions(interval_ms=None),
        disable_boundary_files=True,
    )


async def test_their_collector_spares_what_is_not_yet_committed_and_they_read_and_compact_it(tmp_path: Path) -> None:
    them = Original(tmp_path, Style())
    files = DatabaseFiles(open_store(tmp_path.as_uri()), "db", SystemRuntime())
    settings = {"compactor_options.checkpoint_lifetime": "1ms", "l0_sst_size_bytes": 4096}
    orphan = ""
    async with them.writer("db", compactor=True, **settings) as db:
        await write(db, [Operation(Kind.PUT, b"base", b"0")])
        await db.flush_with_options(u.FlushOptions(flush_type=u.FlushType.MEM_TABLE))
        intent = await begun(files, range_partitioned=True, take_over=True)
        parts = []
        for turn in range(ROUNDS):
            parts.append(await built(files, intent, turn, {b"%d-%03d" % (turn, key): b"loaded" for key in range(200)}))
            if turn == 0:
                orphan = await _orphan(files)
            # Level 0 moves on, and a compaction ends: both marks of the collector are past what was written.
            await asyncio.sleep(0.02)
            for value in (b"1", b"2"):
                await write(db, [Operation(Kind.PUT, b"beside", value)])
                await db.flush_with_options(u.FlushOptions(flush_type=u.FlushType.MEM_TABLE))
            assert await them.compact("db", 0, 8, 8)
            await asyncio.sleep(0.02)
            await write(db, [Operation(Kind.PUT, b"beside", b"3")])
            await db.flush_with_options(u.FlushOptions(flush_type=u.FlushType.MEM_TABLE))
            await them.admin("db").run_gc_once(greedy())
    # The collector did work: an SST with a plain name, which nobody shows either, is gone.
    assert not (tmp_path / orphan).exists()
    await commit_load(files, intent, parts)
    await them.admin("db").run_gc_once(greedy())
    expected = {b"%d-%03d" % (turn, key): b"loaded" for turn in range(ROUNDS) for key in range(200)}
    expected |= {b"base": b"0", b"beside": b"3"}
    assert {row.key: row.value for row in await them.rows("db")} == expected
    async with them.writer("db", compactor=True, **settings) as db:
        await write(db, [Operation(Kind.PUT, b"0-000", b"after")])
        await db.flush_with_options(u.FlushOptions(flush_type=u.FlushType.MEM_TABLE))
        assert await them.compact("db", 0, 8, 99)
        await them.admin("db").run_gc_once(greedy())
        manifest = await them.admin("db").read_manifest(None)
        assert (len(manifest.l0), len(manifest.compacted)) == (0, 1)
    assert {row.key: row.value for row in await them.rows("db")} == {**expected, b"0-000": b"after"}


async def test_a_database_that_was_only_loaded_is_written_and_compacted_by_them(tmp_path: Path) -> None:
    """The mark that a load leaves for collectors names an SST of level 0 that has never been."""
    them = Original(tmp_path, Style())
    files = DatabaseFiles(open_store(tmp_path.as_uri()), "db", SystemRuntime())
    intent = await begun(files)
    odd, even = ({b"%03d" % key: b"loaded" for key in range(first, 200, 2)} for first in (1, 0))
    await commit_load(files, intent, [await built(files, intent, i, each) for i, each in enumerate((odd, even))])
    assert (await files.manifest()).trees.newest_l0_ms is not None
    assert {row.seq for row in await them.rows("db")} == {intent.seq}
    settings = {"compactor_options.checkpoint_lifetime": "1ms", "l0_sst_size_bytes": 4096}
    async with them.writer("db", compactor=True, **settings) as db:
        await write(db, [Operation(Kind.PUT, b"000", b"after")])
        await db.flush_with_options(u.FlushOptions(flush_type=u.FlushType.MEM_TABLE))
        assert await them.compact("db", 0, 8, 99)
        await them.admin("db").run_gc_once(greedy())
    found = {row.key: (row.value, row.seq) for row in await them.rows("db")}
    assert found.pop(b"000") == (b"after", intent.seq + 1)
    assert found == dict.fromkeys((odd | even).keys() - {b"000"}, (b"loaded", intent.seq))


async def _orphan(files: DatabaseFiles) -> str:
    """The same as a task of a load would have stored, but with the time of now in its name."""
    intent = replace(await begun(files, take_over=True), deadline_ms=0)
    part = await built(files, intent, 99, {b"x": b"1"})
    return files.paths.compacted(part.ssts[0].id)
