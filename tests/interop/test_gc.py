"""Our garbage collector and the original's on copies of one database: both delete the very same objects."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import slatedb.uniffi as u
from hypothesis import given, settings
from hypothesis import strategies as st

import slate_engine
from slate_engine.format.key_range import ALL
from slate_engine.gc.collector import Collector, collect_once
from slate_engine.gc.options import GcOptions, Kind, Task
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.manifest import Checkpoint
from tests.interop import original, ours
from tests.interop.history import Kind as Change
from tests.interop.history import Model, Operation
from tests.interop.original import Original
from tests.interop.plan import Compact, Flush, FlushWal, Keep, Plan, Reopen, Write, play_theirs
from tests.interop.strategies import UNSHRUNK, plans
from tests.interop.style import Style
from tests.share import share_of

HOUR = 3600.0
COMPACTING: dict[str, Any] = {"compactor": True, "compactor_options.checkpoint_lifetime": "1ms"}
"""With compactions, and without the checkpoints by which they keep their inputs for a while."""
AGED = Task(min_age=HOUR)
OURS = GcOptions(manifests=AGED, wal=AGED, fences=AGED, compacted=Task(min_age=0), compactions=AGED)


def theirs() -> Any:
    def directory(min_age: float) -> Any:
        return u.GarbageCollectorDirectoryOptions(interval_ms=None, min_age_ms=int(min_age * 1000), dry_run=False)

    # On local files the original cannot advance a boundary twice.
    return u.GarbageCollectorOptions(
        manifest_options=directory(HOUR),
        wal_options=directory(HOUR),
        wal_fence_options=directory(HOUR),
        compacted_options=directory(0),
        compactions_options=directory(HOUR),
        detach_options=u.GarbageCollectorScheduleOptions(interval_ms=None),
        disable_boundary_files=True,
    )


def files_of(folder: Path) -> set[str]:
    found = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    return {name for name in found if not name.startswith("gc/") and "#" not in name}


def age(folder: Path, seed: int) -> None:
    """Make some objects two hours old, and leave the others as they are."""
    for place, file in enumerate(sorted(folder.rglob("*.*"))):
        if file.is_file() and (seed >> place % 61) & 1:
            old = file.stat().st_mtime - 2 * HOUR
            os.utime(file, (old, old))


async def our_checkpoints(them: Original, path: str) -> list[Checkpoint]:
    files = ours.database(ours.folder_store(them.folder), path, them.style)
    return list((await files.manifests.read_latest()).value.checkpoints)


async def same_garbage(plan: Plan, seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "one"
        folder.mkdir()
        them = Original(folder, plan.style)
        await play_theirs(them, "db", plan.steps, Model(), **COMPACTING)
        expiring = u.CheckpointOptions(lifetime_ms=1, source=None, name="soon over")
        await them.admin("db").create_detached_checkpoint(expiring)
        await them.clone([("db", None, ALL)], "clone")
        await play_theirs(them, "clone", plan.further, Model(), **COMPACTING)
        age(folder, seed)
        other = Original(Path(name) / "other", plan.style)
        shutil.copytree(folder, other.folder, copy_function=shutil.copy2)
        await asyncio.sleep(0.002)
        for path in ("clone", "db"):
            rows = await them.rows(path)
            await them.admin(path).run_gc_once(theirs())
            report = await collect_once(ours.database(ours.folder_store(other.folder), path, plan.style), OURS)
            assert report.errors == []
            left, right = files_of(other.folder / path), files_of(them.folder / path)
            assert left == right, (path, sorted(left - right), sorted(right - left))
            assert await our_checkpoints(other, path) == await our_checkpoints(them, path)
            for side in (them, other):
                assert ours.brief(await side.rows(path)) == ours.brief(rows)


@settings(max_examples=10, phases=UNSHRUNK)
@given(plans(), st.integers(0, 2**61 - 1))
async def test_random_databases(plan: Plan, seed: int) -> None:
    await same_garbage(plan, seed)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=share_of(200))
@given(plans(), st.integers(0, 2**61 - 1))
async def test_many_random_databases(plan: Plan, seed: int) -> None:
    await same_garbage(plan, seed)


def put(key: str, value: str) -> Write:
    return Write((Operation(Change.PUT, key.encode(), value.encode()),))


BUSY = (
    *(put("a", "1"), FlushWal(), put("b", "1"), Flush(), put("c", "1"), Flush()),
    *(Compact(), Keep(), put("a", "2"), Flush(), put("b", "2"), Flush()),
    *(Compact(runs=1), Reopen(), put("d", "3"), FlushWal(), put("e", "3"), Flush()),
    *(put("e", "4"), Flush(), Compact(), put("f", "5"), Flush(), put("g", "6")),
)


async def test_a_database_with_garbage_of_every_kind(tmp_path: Path) -> None:
    """So that the comparison above is known not to compare nothing with nothing."""
    style = Style()
    them = Original(tmp_path / "one", style)
    them.folder.mkdir()
    await play_theirs(them, "db", BUSY, Model(), **COMPACTING)
    age(them.folder, 2**61 - 1)
    everything = files_of(them.folder / "db")
    files = ours.database(ours.folder_store(them.folder), "db", style)
    report = await collect_once(files, OURS)
    gone = everything - files_of(them.folder / "db")
    for kind in (Kind.MANIFESTS, Kind.WAL, Kind.FENCES, Kind.COMPACTED, Kind.COMPACTIONS):
        assert report.kind(kind).garbage, kind
    assert gone == {each.name.removeprefix("db/") for each in report if each.kind is not Kind.CHECKPOINTS}
    assert [row.key for row in await them.rows("db")] == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


def options_of(api: Any, kinds: str) -> Any:
    """The same for both: ``api`` is the wheel, or our package in its place."""
    if kinds == "default":
        return None
    given = {}
    for kind in kinds.split():
        dry_run = kind.endswith("?")
        given[f"{kind.strip('?')}_options"] = api.GarbageCollectorDirectoryOptions(
            interval_ms=None, min_age_ms=1000, dry_run=dry_run
        )
    return api.GarbageCollectorOptions(**given, disable_boundary_files=True)


@pytest.mark.parametrize("kinds", ["default", "", "wal", "wal?", "wal_fence", "manifest compacted?", "compactions"])
async def test_run_gc_once_takes_the_same_options(tmp_path: Path, kinds: str) -> None:
    """Through the API of both: what is not given is left alone, and a dry run deletes nothing."""
    them = Original(tmp_path / "one", Style())
    them.folder.mkdir()
    await play_theirs(them, "db", BUSY, Model(), **COMPACTING)
    await them.admin("db").create_detached_checkpoint(u.CheckpointOptions(lifetime_ms=1, source=None, name="over"))
    await asyncio.sleep(1.01)
    age(them.folder, 2**61 - 1)
    other = Original(tmp_path / "other", Style())
    shutil.copytree(them.folder, other.folder, copy_function=shutil.copy2)
    store = slate_engine.ObjectStoreBuilder(slate_engine.ObjectStoreType.LOCAL)
    store.with_config("local_path", str(other.folder))
    local = store.build()
    assert await them.admin("db").run_gc_once(options_of(u, kinds)) is None
    admin = slate_engine.AdminBuilder("db", local).build()
    assert await admin.run_gc_once(options_of(slate_engine, kinds)) is None
    assert files_of(other.folder / "db") == files_of(them.folder / "db")
    assert await our_checkpoints(other, "db") == await our_checkpoints(them, "db")
    assert await slate_engine.AdminBuilder("nowhere", local).build().run_gc_once(None) is None


async def test_beside_a_live_writer_and_its_compactor(tmp_path: Path) -> None:
    """An eager collector of ours runs all the time while the original writes, flushes and compacts."""
    style = Style()
    them = Original(tmp_path, style)
    eager = Task(min_age=0)
    options = GcOptions(manifests=eager, wal=eager, compacted=eager, compactions=eager)
    files = DatabaseFiles(ours.folder_store(tmp_path), "db", ours.RUNTIME)
    deleted: list[str] = []
    expected = {}
    # The inputs of a compaction are kept until the writer has heard of it: nothing else protects them here.
    settings = COMPACTING | {"compactor_options.checkpoint_lifetime": "2s", "manifest_poll_interval": "50ms"}
    async with them.writer("db", **settings) as db:
        collector = Collector(files, options)

        async def collect() -> None:
            while True:
                report = await collector.collect()
                assert report.errors == []
                deleted.extend(each.name for each in report if each.kind is not Kind.FENCES)
                await asyncio.sleep(0.02)

        collecting = asyncio.ensure_future(collect())
        for turn in range(12):
            for number in range(20):
                key, value = b"%03d" % (number * 7 % 100 + turn), b"%d" % turn
                await original.write(db, [Operation(Change.PUT, key, value)])
                expected[key] = value
            await original.flush(db)
            if turn % 3 == 2:
                await them.compact("db", 0, 8, turn % 2)
            await asyncio.sleep(0.3)
            assert not collecting.done(), collecting.result()
        assert {row.key: row.value for row in await original.scan(db)} == expected
        collecting.cancel()
        await asyncio.gather(collecting, return_exceptions=True)
    assert {row.key: row.value for row in await them.rows("db")} == expected
    assert any("/compacted/" in name for name in deleted)
    assert any("/manifest/" in name for name in deleted)
    assert any("/wal/" in name for name in deleted)
