"""Jobs that one engine has left half done, gone on with by the other: what is stored is not merged a second time."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction.commit import take_epoch
from slate_engine.lsm.compaction.compactor import compact_once
from slate_engine.lsm.compaction.coordinator import Coordinator
from slate_engine.lsm.compaction.options import CompactorOptions, WorkerOptions
from slate_engine.lsm.compaction.plan import Major
from slate_engine.lsm.compaction.worker import CompactionWorker
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.compactions import Compaction, CompactionStatus
from slate_engine.state.stores import CompactionsStore
from slate_engine.store.protocol import Buffer
from tests.interop import original, ours
from tests.interop.history import Kind, Operation
from tests.interop.test_compaction import IN_MEMORY
from tests.interop.test_compaction_live import MERGE, Busy, until

OPTIONS = CompactorOptions(policy=Major(), worker=WorkerOptions(replace(MERGE, max_sst_size=1), memory_bytes=1))
ENOUGH = 40
"""So many uploads get through: a part of the job's."""


@pytest.fixture
async def busy() -> AsyncIterator[Busy]:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        yield Busy(Path(folder))


def book_of(files: DatabaseFiles) -> CompactionsStore:
    return CompactionsStore.open(files.store, files.paths.root, files.runtime)


async def job_of(files: DatabaseFiles) -> Compaction | None:
    """The job that is under way."""
    found = await book_of(files).latest()
    active = [] if found is None else [job for job in found.value.jobs if job.is_active]
    return active[0] if active else None


def progress(job: Compaction | None) -> list[Ulid]:
    """The SSTs that are stored of a job that is not finished."""
    parts = job.context.subcompactions if job is not None and job.context is not None else ()
    return [id for part in parts for id in part.outputs.id]


async def fill(busy: Busy, db: Any) -> None:
    """Three SSTs in L0, which come to hundreds of the smallest SSTs."""
    for _ in range(3):
        rows = [Operation(Kind.PUT, b"key%05d" % key, busy.chance.randbytes(300)) for key in range(1500)]
        busy.model.apply(await original.write(db, tuple(rows)))
        await original.flush(db)


async def begin_and_die(files: DatabaseFiles) -> None:
    """Our compactor gives a job out, and our worker is killed when it has told of a part of it."""
    store = files.store
    put_stream = store.put_stream
    uploads = 0

    async def some(key: str, chunks: AsyncIterable[Buffer]) -> str:
        nonlocal uploads
        uploads += 1
        if uploads > ENOUGH:
            await asyncio.Event().wait()
        return await put_stream(key, chunks)

    store.put_stream = some  # type: ignore[method-assign]
    compactions = book_of(files)
    claim = await take_epoch(files, compactions)
    await Coordinator(files, compactions, claim, OPTIONS).turn()
    worker = CompactionWorker(files, compactions, OPTIONS.worker or WorkerOptions())
    assert await worker.claim() == 1

    async def has_told() -> bool:
        await worker.beat()
        return len(progress(await job_of(files))) > 1

    await until(has_told)
    for running in worker._running.values():
        assert running.task is not None
        running.task.cancel()


async def test_the_original_goes_on_with_what_we_have_left(busy: Busy) -> None:
    async with busy.them.writer("db") as db:
        await fill(busy, db)
    await begin_and_die(busy.files())
    left = await job_of(busy.files())
    assert left is not None
    assert left.status is CompactionStatus.RUNNING
    stored = progress(left)
    settings = {"compactor_options.worker_heartbeat_timeout": "100ms", "manifest_poll_interval": "20ms"}
    async with busy.them.writer("db", compactor=True, **settings) as db:

        async def is_done() -> bool:
            return await job_of(busy.files()) is None

        await until(is_done)
        assert await original.scan(db) == busy.model.rows()
        assert db.status().close_reason is None
    manifest = await busy.files().manifest()
    assert not len(manifest.root.l0)
    assert set(stored) <= set(manifest.ssts.id), "it has begun again from the start"
    assert await ours.scan(await busy.files().latest()) == busy.model.rows()


async def test_we_go_on_with_what_the_original_has_left(busy: Busy) -> None:
    """Its job is brought back to a moment at which a part of it was done, as if it had been killed then."""
    quick = {"compactor_options.worker.heartbeat_interval": "1ms", "compactor_options.worker.max_sst_size": 1}
    async with busy.them.writer("db", compactor=True, **quick) as db:
        await fill(busy, db)
        before = len(list((busy.folder / "db/manifest").iterdir()))
        assert await busy.them.compact("db", 0, 99, 99)
    stored = await go_back(busy, before)
    report = await compact_once(busy.files(), Major(), replace(OPTIONS, worker_heartbeat_timeout=0.1), force=True)
    assert not report.errors
    manifest = await busy.files().manifest()
    assert not len(manifest.root.l0)
    assert set(stored) <= set(manifest.ssts.id), "we have begun again from the start"
    assert await ours.scan(await busy.files().latest()) == busy.model.rows()
    assert await busy.them.rows("db") == busy.model.rows()


async def go_back(busy: Busy, manifest: int) -> list[Ulid]:
    """Make ``manifest`` the newest again, and of the book a state in which about half of the job was done; gives the SSTs
    that were stored by then."""
    files = busy.files()
    compactions = book_of(files)
    ids = [entry.id for entry in await compactions.objects.list()]
    half_done = [id for id in ids if any(map(progress, (await compactions.read(id)).jobs))]
    assert half_done, "the original has never told of its progress"
    there = half_done[len(half_done) // 2]
    (job,) = [job for job in (await compactions.read(there)).jobs if job.is_active]
    for name, newest in (("manifest", manifest), ("compactions", there)):
        for path in (busy.folder / "db" / name).iterdir():
            if int(path.stem) > newest:
                path.unlink()
    return progress(job)
