"""A coordinator and a worker in one: what runs inside a database that is open, in a compactor's own process, or once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from slate_engine.errors import Error, InternalError
from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction.bell import Bell
from slate_engine.lsm.compaction.commit import take_epoch
from slate_engine.lsm.compaction.coordinator import UNLIMITED, Coordinator
from slate_engine.lsm.compaction.guard import check_nobody_works, leave_name
from slate_engine.lsm.compaction.metrics import CompactionMetrics
from slate_engine.lsm.compaction.options import CompactorOptions, WorkerOptions
from slate_engine.lsm.compaction.plan import Policy
from slate_engine.lsm.compaction.worker import CompactionWorker, Progress
from slate_engine.lsm.loops import Loop
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.commit import Contended, Versioned
from slate_engine.state.compactions import Compaction, Compactions
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import CompactionsStore
from slate_engine.store.protocol import StoreUnavailable

log = logging.getLogger(__name__)


class EmbeddedCompactor:
    """Runs from :meth:`start` to :meth:`close`, or until it is fenced, which ``failed`` is told. ``committed`` hears of
    each manifest that it writes, so that whoever reads the database here need not wait to see it."""

    def __init__(
        self,
        files: DatabaseFiles,
        options: CompactorOptions,
        *,
        failed: Callable[[Error], None] = lambda error: None,
        committed: Callable[[Versioned[Manifest]], None] = lambda manifest: None,
        progressed: Callable[[Progress], None] = lambda progress: None,
        metrics: CompactionMetrics | None = None,
    ) -> None:
        self._files = files
        self._options = options
        self._failed = failed
        self._committed = committed
        self._progressed = progressed
        self._metrics = metrics
        self._compactions = CompactionsStore.open(files.store, files.paths.root, files.runtime)
        self._bell = Bell(files.runtime)
        self._loop = Loop("planning compactions", files.runtime)
        self._worker: CompactionWorker | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, *, guarded: bool = False) -> None:
        """Take the compactor's epoch from whoever has it, and begin. ``guarded`` is for a process of its own, which does
        not know who else is there: it refuses while another compactor seems to be at work."""
        if guarded:
            await check_nobody_works(self._files, self._compactions)
        claim = await take_epoch(self._files, self._compactions)
        await leave_name(self._files, claim)
        coordinator = Coordinator(
            self._files,
            self._compactions,
            claim,
            self._options,
            metrics=self._metrics,
            committed=self._committed,
            scheduled=self._poke_worker,
        )
        if self._options.worker is not None:
            self._worker = CompactionWorker(
                self._files,
                self._compactions,
                self._options.worker,
                metrics=self._metrics,
                finished=self.poke,
                progressed=self._progressed,
                gave_up=coordinator.give_up,
            )
            self._worker.start()
        self._task = asyncio.ensure_future(self._run(coordinator))

    def poke(self) -> None:
        """Something may be there to do: L0 has grown, or a job has ended."""
        self._bell.ring()

    async def close(self) -> None:
        """Stop. Jobs that are not finished are left, with what they have so far, to the next compactor."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._worker is not None:
            await self._worker.close()
            self._worker = None

    def _poke_worker(self) -> None:
        if self._worker is not None:
            self._worker.poke()

    async def _run(self, coordinator: Coordinator) -> None:
        try:
            with self._loop.running():
                while True:
                    found: Compactions | None = None
                    try:
                        found = await coordinator.turn()
                        await self._until_next_turn(coordinator, any(job.is_active for job in found.jobs))
                    except (StoreUnavailable, Contended) as trouble:
                        log.warning("compaction waits for the store: %s", trouble)
                        await self._rung_within(self._options.poll_interval)
        except Error as error:
            await self._stop(error)
        except Exception as defect:
            log.exception("the compactor broke down")
            await self._stop(InternalError(f"the compactor broke down: {defect!r}"))

    async def _until_next_turn(self, coordinator: Coordinator, active: bool) -> None:
        """Wait for the next poll, for a poke, or for a result of a worker elsewhere."""
        interval = self._options.commit_compacted_interval if active else self._options.poll_interval
        end = self._files.runtime.monotonic() + self._options.poll_interval
        while not await self._rung_within(interval):
            if self._files.runtime.monotonic() >= end or (active and await coordinator.has_results()):
                return

    async def _rung_within(self, seconds: float) -> bool:
        return await self._loop.rest(self._bell.wait(seconds), seconds)

    async def _stop(self, error: Error) -> None:
        log.error("the compactor stops: %s", error.message)
        if self._worker is not None:
            await self._worker.close()
        self._failed(error)


@dataclass(frozen=True)
class Report:
    """What came of a compaction that was asked for."""

    jobs: int
    errors: tuple[Error, ...]
    bytes_read: int
    bytes_written: int
    seconds: float


async def compact_once(
    files: DatabaseFiles,
    policy: Policy,
    options: CompactorOptions | None = None,
    *,
    force: bool = False,
    progressed: Callable[[Progress], None] = lambda progress: None,
    metrics: CompactionMetrics | None = None,
) -> Report:
    """Do what ``policy`` wants of the database as it is now, and what other jobs were left; then go.

    Takes the compactor's epoch, and refuses to do so while another compactor seems to be at work, unless forced.
    """
    options = replace(options or CompactorOptions(), policy=policy)
    compactions = CompactionsStore.open(files.store, files.paths.root, files.runtime)
    if not force:
        await check_nobody_works(files, compactions)
    began = files.runtime.monotonic()
    claim = await take_epoch(files, compactions)
    await leave_name(files, claim)
    bell = Bell(files.runtime)
    errors: list[Error] = []

    async def gave_up(job: Compaction, error: Error) -> None:
        errors.append(error)
        await coordinator.give_up(job, error)
        bell.ring()

    worker = CompactionWorker(
        files,
        compactions,
        options.worker or WorkerOptions(),
        metrics=metrics,
        finished=bell.ring,
        progressed=progressed,
        gave_up=gave_up,
    )
    coordinator = Coordinator(files, compactions, claim, options, metrics=metrics, scheduled=worker.poke)
    worker.start()
    try:
        jobs: set[Ulid] = set()
        found = await coordinator.turn(limit=UNLIMITED)
        while active := {job.id for job in found.jobs if job.is_active}:
            jobs |= active
            await bell.wait(options.commit_compacted_interval)
            found = await coordinator.turn(plan=False)
    finally:
        await worker.close()
    seconds = files.runtime.monotonic() - began
    return Report(len(jobs), tuple(errors), worker.bytes_read, worker.bytes_written, seconds)
