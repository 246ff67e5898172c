"""Our compactor at work while the original runs: beside its writer, under its coordinator, and against its compactor."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import slatedb.uniffi as u

from slate_engine.errors import CloseReason, Error, Fenced
from slate_engine.format.sst_build import SstOptions
from slate_engine.lsm.compaction.compactor import EmbeddedCompactor, compact_once
from slate_engine.lsm.compaction.guard import CompactorAlive
from slate_engine.lsm.compaction.options import CompactorOptions, MergeOptions, WorkerOptions
from slate_engine.lsm.compaction.plan import Major, SizeTiered
from slate_engine.lsm.compaction.worker import CompactionWorker
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.compactions import CompactionStatus
from slate_engine.state.stores import CompactionsStore
from tests.interop import original, ours
from tests.interop.history import Kind, Model, Operation
from tests.interop.original import Original
from tests.interop.style import Style
from tests.interop.test_compaction import IN_MEMORY

STYLE = Style(SstOptions(block_size=1024, min_filter_keys=20))
MERGE = MergeOptions(STYLE.sst, max_sst_size=4096, max_subcompactions=3, min_range_bytes=1)
QUICK = CompactorOptions(
    policy=SizeTiered(min_compaction_sources=3, max_compaction_sources=5),
    worker=WorkerOptions(MERGE, compactions_poll_interval=0.05, heartbeat_interval=0.05),
    poll_interval=0.05,
    commit_compacted_interval=0.02,
)


@dataclass
class Busy:
    """A database that the original writes to, and what must be read from it."""

    folder: Path
    model: Model = field(default_factory=Model)
    chance: random.Random = field(default_factory=lambda: random.Random(5))

    @property
    def them(self) -> Original:
        return Original(self.folder, STYLE)

    def files(self) -> DatabaseFiles:
        return ours.database(ours.folder_store(self.folder), "db", STYLE)

    async def fill(self, db: Any, flushes: int) -> None:
        for _ in range(flushes):
            for _ in range(3):
                self.model.apply(await original.write(db, self._operations()))
            await original.flush(db)

    def _operations(self) -> tuple[Operation, ...]:
        kinds = self.chance.choices([Kind.PUT, Kind.DELETE, Kind.MERGE], [6, 2, 2], k=20)
        keys = self.chance.sample(range(120), len(kinds))
        return tuple(
            Operation(kind, b"key%03d" % key, b"" if kind is Kind.DELETE else self.chance.randbytes(30))
            for kind, key in zip(kinds, keys, strict=True)
        )


@pytest.fixture
async def busy() -> AsyncIterator[Busy]:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        yield Busy(Path(folder))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(1500):
        if await condition():
            return
        await asyncio.sleep(0.02)
    raise TimeoutError("what the test waits for does not happen")


@asynccontextmanager
async def compactor(files: DatabaseFiles, failed: Callable[[Error], None]) -> AsyncIterator[EmbeddedCompactor]:
    running = EmbeddedCompactor(files, QUICK, failed=failed)
    await running.start()
    try:
        yield running
    finally:
        await running.close()


async def test_beside_a_writer_of_the_original(busy: Busy) -> None:
    errors: list[Error] = []
    async with busy.them.writer("db", manifest_poll_interval="20ms") as db:
        await busy.fill(db, 1)
        async with compactor(busy.files(), errors.append):
            for _ in range(10):
                await busy.fill(db, 2)
                expected = busy.model.rows()
                assert await original.scan(db) == expected
                assert await ours.scan(await busy.files().latest()) == expected
                await asyncio.sleep(0.05)

            async def is_compacted() -> bool:
                root = (await busy.files().manifest()).root
                return len(root.l0) < 3 and len(root.runs) > 0

            await until(is_compacted)
            assert await original.scan(db) == expected
        assert db.status().close_reason is None
    assert not errors
    assert await busy.them.rows("db") == expected
    # And the original's own compactor goes on from there.
    async with busy.them.writer("db", compactor=True) as db:
        await busy.fill(db, 2)
        assert await busy.them.compact("db", 0, 9, 9)
        assert await original.scan(db) == busy.model.rows()


async def test_as_a_worker_of_the_originals_coordinator(busy: Busy) -> None:
    settings = {
        "compactor_options.worker": None,
        "compactor_options.scheduler_options.min_compaction_sources": "4",
        "compactor_options.scheduler_options.max_compaction_sources": "8",
        "manifest_poll_interval": "20ms",
    }
    async with busy.them.writer("db", compactor=True, **settings) as db:
        files = busy.files()
        compactions = CompactionsStore.open(files.store, files.paths.root, files.runtime)
        workers = [CompactionWorker(busy.files(), compactions, QUICK.worker or WorkerOptions()) for _ in range(2)]
        for worker in workers:
            worker.start()
        try:
            for _ in range(6):
                await busy.fill(db, 4)
                assert await original.scan(db) == busy.model.rows()

            async def is_compacted() -> bool:
                root = (await files.manifest()).root
                return len(root.l0) < 4 and len(root.runs) > 0

            await until(is_compacted)
        finally:
            for worker in workers:
                await worker.close()
        assert sum(worker.bytes_read for worker in workers) > 0
        assert db.status().close_reason is None, "a worker takes nobody's place"
        assert await original.scan(db) == busy.model.rows()
    book = (await compactions.read_latest()).value
    assert [job.status for job in book.jobs if not job.is_active] == [CompactionStatus.COMPLETED]
    assert await ours.scan(await busy.files().latest()) == busy.model.rows()


async def test_a_compactor_of_the_original_that_works_is_not_disturbed(busy: Busy) -> None:
    async with busy.them.writer("db", compactor=True) as db:
        await busy.fill(db, 3)
        with pytest.raises(CompactorAlive, match="compactor_options") as refusal:
            await compact_once(busy.files(), Major(), QUICK)
        assert "force" in refusal.value.message
        await busy.fill(db, 1)
        assert db.status().close_reason is None
        assert await original.scan(db) == busy.model.rows()


async def test_forced_it_takes_the_place_and_the_writer_closes(busy: Busy) -> None:
    async with busy.them.writer("db", compactor=True) as db:
        await busy.fill(db, 3)
        report = await compact_once(busy.files(), Major(), QUICK, force=True)
        assert report.jobs == 1

        async def is_fenced() -> bool:
            return bool(db.status().close_reason == u.CloseReason.FENCED)

        await until(is_fenced)
        with pytest.raises(u.Error):
            await db.put(b"k", b"v")
    assert await ours.scan(await busy.files().latest()) == busy.model.rows()


async def test_a_compactor_of_the_original_that_begins_fences_ours(busy: Busy) -> None:
    errors: list[Error] = []
    async with busy.them.writer("db") as db:
        await busy.fill(db, 2)
    async with compactor(busy.files(), errors.append), busy.them.writer("db", compactor=True) as db:

        async def is_fenced() -> bool:
            return bool(errors)

        await until(is_fenced)
        assert isinstance(errors[0], Fenced)
        assert errors[0].reason is CloseReason.FENCED
        await busy.fill(db, 5)
        assert await busy.them.compact("db", 0, 9, 9)
        assert await original.scan(db) == busy.model.rows()
