"""SlateDB itself beside two-phase CAS: it reads what we wrote, and is not misled by our temporaries."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest
import slatedb.uniffi as slatedb

from slate_engine.runtime import SystemRuntime
from slate_engine.store.boundary import Boundary
from slate_engine.store.files import FileStore
from slate_engine.store.numbered import NumberedObjects
from slate_engine.store.two_phase import TwoPhaseStore, open_transactions
from slate_engine.store.two_phase.record import intent
from tests.store.two_phase.doubles import Crash, Steps

SAMPLE = Path(__file__).parents[2] / "data" / "store" / "main"
RUNTIME = SystemRuntime()
YEAR_MS = 365 * 24 * 3600 * 1000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    # Not copytree's own copy: that keeps times of modification, and the collector goes by them.
    shutil.copytree(SAMPLE, tmp_path / "store" / "main", copy_function=shutil.copyfile)
    return tmp_path / "store"


def wheel(folder: Path) -> slatedb.Admin:
    builder = slatedb.ObjectStoreBuilder(slatedb.ObjectStoreType.LOCAL)
    builder.with_config("local_path", str(folder))
    return slatedb.AdminBuilder("main", builder.build()).build()


async def collect_wal(folder: Path, min_age_ms: int) -> set[str]:
    """The WAL files that the wheel's collector deletes."""
    before = {path.name for path in (folder / "main" / "wal").iterdir()}
    wal = slatedb.GarbageCollectorDirectoryOptions(interval_ms=None, min_age_ms=min_age_ms, dry_run=False)
    options = slatedb.GarbageCollectorOptions(
        manifest_options=None,
        wal_options=wal,
        wal_fence_options=None,
        compacted_options=None,
        compactions_options=None,
        detach_options=None,
    )
    await asyncio.wait_for(wheel(folder).run_gc_once(options), 60)
    return before - {path.name for path in (folder / "main" / "wal").iterdir()}


async def test_the_wheel_reads_manifests_that_two_phase_wrote(folder: Path, tmp_path: Path) -> None:
    store = TwoPhaseStore(
        FileStore(folder, RUNTIME), open_transactions(f"sqlite:///{tmp_path}/transactions.db", RUNTIME), RUNTIME
    )
    boundary = Boundary(store, "main", "manifest", RUNTIME)
    manifests = NumberedObjects(store, "main/manifest", "manifest", boundary, RUNTIME)
    newest = await manifests.latest()
    assert newest is not None
    for _ in range(3):
        newest = await manifests.latest()
        assert newest is not None
        await manifests.create_next(newest.id, newest.data)
    await manifests.advance_boundary(newest.id)
    await manifests.advance_boundary(newest.id)

    # A write of ours that was cut off leaves its temporary there.
    steps = Steps(crash_after=2)
    dying = TwoPhaseStore(steps.over(FileStore(folder, RUNTIME)), store._transactions, RUNTIME)
    with pytest.raises(Crash):
        await NumberedObjects(dying, "main/manifest", "manifest", None, RUNTIME).create_next(newest.id + 1, b"never")
    assert len(list((folder / "main" / "manifest" / ".two-phase").iterdir())) == 1

    admin = wheel(folder)
    found = await asyncio.wait_for(admin.read_manifest(None), 60)
    assert found is not None
    assert found.id == newest.id + 1
    assert (folder / "main" / "gc" / "manifest.boundary").read_text() == str(newest.id)
    created = await asyncio.wait_for(
        admin.create_detached_checkpoint(slatedb.CheckpointOptions(lifetime_ms=None, source=None, name="x")), 60
    )
    assert created.manifest_id == newest.id + 2
    await store.close()


@pytest.mark.parametrize("misplaced", [False, True])
async def test_the_collector_of_the_wheel_passes_over_our_temporaries(folder: Path, misplaced: bool) -> None:
    """An old temporary of WAL file 3, which is itself too young to be collected. Where RFC-0001 puts temporaries, the
    collector takes its age for that of the file."""
    name = f"{3:020d}.sst"
    source = intent(f"s3://bucket/main/wal/{name}", b"x", RUNTIME).source.removeprefix("s3://bucket/")
    temporary = folder / (source.replace(".two-phase/", "") if misplaced else source)
    temporary.parent.mkdir(exist_ok=True)
    temporary.write_bytes(b"x")
    os.utime(temporary, (1_000_000_000, 1_000_000_000))
    assert await collect_wal(folder, min_age_ms=YEAR_MS) == ({name} if misplaced else set())
    assert temporary.exists()
