"""A compactor in a thread of the test's own process: a coordinator that runs on while Spark jobs come and go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from slate_engine.errors import Error
from slate_engine.lsm.compaction.compactor import EmbeddedCompactor
from slate_engine.lsm.compaction.options import CompactorOptions, WorkerOptions
from slate_engine.lsm.compaction.plan import SizeTiered
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.compactions import Compaction
from slate_engine.state.stores import CompactionsStore

_WORKER = WorkerOptions(max_job_bytes=1, compactions_poll_interval=0.2)

LEAVING = CompactorOptions(
    policy=SizeTiered(min_compaction_sources=3),
    worker=_WORKER,
    poll_interval=0.2,
    commit_compacted_interval=0.2,
)
"""Leaves every job to others."""

IMPATIENT = replace(LEAVING, worker=replace(_WORKER, leave_seconds=0.0))
"""Takes what nobody came for."""


@contextmanager
def compacting(files: DatabaseFiles, options: CompactorOptions = LEAVING) -> Iterator[None]:
    """What goes wrong with it is a failure of the test: nobody may take its place."""
    over, errors = threading.Event(), list[Error]()

    async def run() -> None:
        compactor = EmbeddedCompactor(files, options, failed=errors.append)
        await compactor.start()
        await asyncio.to_thread(over.wait)
        await compactor.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="compactor")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not errors, errors


async def jobs_of(files: DatabaseFiles) -> list[Compaction]:
    """Those under way."""
    newest = await CompactionsStore.open(files.store, files.paths.root, files.runtime).latest()
    return [] if newest is None else [job for job in newest.value.jobs if job.is_active]
