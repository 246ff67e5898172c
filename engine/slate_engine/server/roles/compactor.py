"""The compactor: plans, merges and commits; or only merges what another process has planned."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aiohttp import web

from slate_engine.api.companion_options import compactor_options
from slate_engine.api.configuration import CompactorSettings
from slate_engine.api.db_builder import sst_options
from slate_engine.errors import Error, InvalidError
from slate_engine.lsm.compaction.compactor import EmbeddedCompactor
from slate_engine.lsm.compaction.metrics import CompactionMetrics
from slate_engine.lsm.compaction.options import CompactorOptions, WorkerOptions
from slate_engine.lsm.compaction.worker import CompactionWorker, Progress
from slate_engine.server.config import Config
from slate_engine.server.roles.role import Surroundings
from slate_engine.server.settings import settings_of
from slate_engine.state.commit import NothingStored
from slate_engine.state.stores import CompactionsStore

log = logging.getLogger(__name__)

LOOK_EVERY = 5.0
"""For a database that is not there yet, in seconds."""


class CompactorRole:
    """Takes the compactor's epoch: a compactor of ours that worked before ends by that. Somebody else's is not disturbed,
    unless that is forced."""

    name = "the compactor"

    def __init__(self, surroundings: Surroundings) -> None:
        config = surroundings.config
        self._surroundings = surroundings
        self._files = surroundings.open_files()
        self._metrics = CompactionMetrics.of(surroundings.registry)
        self._options = options_of(config)
        self._failure: asyncio.Future[Error] | None = None
        self._compactor: EmbeddedCompactor | None = None
        self._worker: CompactionWorker | None = None
        self._progress = Progress(0, 0, 0)

    async def start(self) -> None:
        await self._until_there_is_a_database()
        self._failure = asyncio.get_running_loop().create_future()
        config = self._surroundings.config.compactor
        if config.worker_only:
            assert self._options.worker is not None
            compactions = CompactionsStore.open(self._files.store, self._files.paths.root, self._files.runtime)
            self._worker = CompactionWorker(
                self._files,
                compactions,
                self._options.worker,
                metrics=self._metrics,
                progressed=self._note,
                failed=self._fail,
            )
            self._worker.start()
            return
        self._compactor = EmbeddedCompactor(
            self._files, self._options, failed=self._fail, progressed=self._note, metrics=self._metrics
        )
        await self._compactor.start(guarded=not config.force)

    async def _until_there_is_a_database(self) -> None:
        """A writer that starts at the same time makes it in a moment."""
        while True:
            try:
                await self._files.manifests.read_latest()
                return
            except NothingStored:
                self._surroundings.health.starting = f"there is no database at {self._files.path!r} yet"
            await self._surroundings.runtime.sleep(LOOK_EVERY)

    def _fail(self, error: Error) -> None:
        if self._failure is not None and not self._failure.done():
            self._failure.set_result(error)

    def _note(self, progress: Progress) -> None:
        self._progress = progress

    async def ended(self) -> None:
        assert self._failure is not None
        raise await self._failure

    async def drain(self, seconds: float) -> None:
        """A job that is not finished is left, with what it has so far, to the next compactor."""
        if self._compactor is not None:
            await self._compactor.close()
        if self._worker is not None:
            await self._worker.close()

    def status(self) -> Mapping[str, Any]:
        return {"role": "compactor", "path": self._files.path, "progress": self._progress._asdict()}

    def add_routes(self, application: web.Application) -> None:
        """A compactor has none beyond those of every service."""


def options_of(config: Config) -> CompactorOptions:
    """Those of the database's settings, so that what is compacted is written as the writer writes it; and what is left to
    others, of which SlateDB's settings know nothing."""
    values = settings_of(config.settings).values
    found = compactor_options(values.compactor_options or CompactorSettings(), sst_options(values))
    if found is None:
        raise InvalidError("settings.compactor_options says that nothing is compacted: leave it out for the defaults")
    given = config.compactor
    worker = found.worker or (WorkerOptions() if given.worker_only else None)
    if worker is not None:
        worker = replace(worker, max_job_bytes=given.max_job_bytes, leave_seconds=given.leave_seconds)
    return replace(found, worker=worker)
