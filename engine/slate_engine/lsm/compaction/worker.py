"""A worker: claims jobs that wait, merges them, and says what it wrote. It never touches the manifest.

Any number of workers share the jobs of one coordinator, ours or SlateDB's. What one does counts only while the book says
that the job is its own: a worker that was silent for too long has lost it, and its outputs are orphans.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from slate_engine.errors import DatabaseDeleted, Error, InternalError
from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction import book
from slate_engine.lsm.compaction.bell import Bell
from slate_engine.lsm.compaction.execution import Execution, Moved
from slate_engine.lsm.compaction.inputs import SourcesGone
from slate_engine.lsm.compaction.metrics import CompactionMetrics
from slate_engine.lsm.compaction.options import WorkerOptions
from slate_engine.lsm.compaction.patience import Patience
from slate_engine.lsm.compaction.resources import Resources
from slate_engine.lsm.compaction.specs import describe
from slate_engine.lsm.loops import Loop
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.commit import Contended
from slate_engine.state.compactions import Compaction, Compactions, Context, Worker
from slate_engine.state.stores import CompactionsStore
from slate_engine.state.tombstone import check_not_deleted
from slate_engine.store.protocol import StoreUnavailable

log = logging.getLogger(__name__)

GaveUp: TypeAlias = Callable[[Compaction, Error], Awaitable[None]]

PAUSE = 5.0
"""How long a store that failed is left alone."""


@dataclass
class _Running:
    """A job of this worker, and its task once that is begun."""

    execution: Execution
    task: asyncio.Task[None] | None = None
    merged: bool = False
    """All that is left is to say so."""


class Progress(NamedTuple):
    """How far a worker is with the jobs that it has at the moment: of so many, bytes merged and bytes in all."""

    jobs: int
    done: int
    total: int


class CompactionWorker:
    """Works from :meth:`start` to :meth:`close`, or until the database is deleted; then it calls ``failed``. It calls
    ``finished`` whenever it has changed the list of compactions, and ``progressed`` whenever it has come further with a job.
    ``gave_up`` decides what becomes of a job that cannot be done, which otherwise is left to other workers."""

    def __init__(
        self,
        files: DatabaseFiles,
        compactions: CompactionsStore,
        options: WorkerOptions,
        *,
        metrics: CompactionMetrics | None = None,
        finished: Callable[[], None] = lambda: None,
        progressed: Callable[[Progress], None] = lambda progress: None,
        gave_up: GaveUp | None = None,
        failed: Callable[[Error], None] = lambda error: None,
    ) -> None:
        self._files = files
        self._runtime = files.runtime
        self._compactions = compactions
        self._options = options
        self._metrics = metrics or CompactionMetrics.of()
        self._finished = finished
        self._progressed = progressed
        self._gave_up = gave_up or self._leave_to_others
        self._failed = failed
        self._ending: asyncio.Task[None] | None = None
        self.id = book.new_worker_id(files.runtime)
        self.bytes_read = 0
        self.bytes_written = 0
        self._running: dict[Ulid, _Running] = {}
        self._refused: dict[Ulid, float] = {}
        """Until when a job is not to be claimed again: it failed here."""
        self._patience = Patience(options, files.runtime, self.id)
        self._resources = Resources(options.max_threads, options.memory_bytes, options.merge.max_subcompactions)
        self._bell = Bell(files.runtime)
        self._merging = Loop("merging", files.runtime)
        """All jobs in one: one may well wait for what another holds, but not all of them."""
        self._loops: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._loops = [asyncio.ensure_future(self._claim_for_ever()), asyncio.ensure_future(self._beat_for_ever())]

    def poke(self) -> None:
        """There may be something to claim: no need to wait for the next look."""
        self._bell.ring()

    async def close(self) -> None:
        """Stop, and leave the jobs, with what they have so far, to others."""
        left = dict(self._running)
        tasks = [*self._loops, *(running.task for running in left.values() if running.task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self._release({id: running.execution.context for id, running in left.items()})
        except DatabaseDeleted:
            for running in left.values():
                await running.execution.discard()
        except Error as trouble:
            log.warning("jobs could not be released; they will be taken for dead after a while: %s", trouble)

    def _end(self, deleted: DatabaseDeleted) -> None:
        """There is nothing left to work for."""
        if self._ending is None:
            log.error("the worker stops: %s", deleted.message)
            self._ending = asyncio.ensure_future(self.close())
            self._failed(deleted)

    @property
    def progress(self) -> Progress:
        executions = [running.execution for running in self._running.values()]
        done, total = sum(each.bytes_read for each in executions), sum(each.input_bytes for each in executions)
        return Progress(len(executions), done, total)

    def _as_of_now(self) -> Worker:
        return Worker(self.id, self._runtime.now_ms())

    # --- claiming ------------------------------------------------------------------------------------------------

    async def _claim_for_ever(self) -> None:
        interval, loop = self._options.compactions_poll_interval, Loop("claiming compactions", self._runtime)
        with loop.running():
            while True:
                try:
                    await self.claim()
                except DatabaseDeleted as deleted:
                    self._end(deleted)
                    return
                except Error as trouble:
                    # Whatever it is, the store or what is in it: it may be better at the next look.
                    log.warning("jobs cannot be claimed at the moment: %s", trouble)
                # Many workers are not to look all at the same time.
                pause = self._runtime.uniform(interval / 2, interval * 3 / 2)
                await loop.rest(self._bell.wait(pause), pause)

    async def claim(self) -> int:
        """Claim what there is room for, and begin with it; how many jobs that were."""
        capacity = self._options.max_concurrent_compactions - len(self._running)
        newest = await self._compactions.latest() if capacity > 0 else None
        if newest is None:
            # No coordinator has planned anything yet, if the database is there.
            check_not_deleted((await self._files.manifests.read_latest()).value, self._files.path)
            return 0
        wanted = await self._wanted(newest.value)
        claimed = await self._compactions.update(lambda old: book.claim(old, self._as_of_now(), capacity, wanted))
        mine = [job for job in book.owned(claimed.value, self.id) if job.id not in self._running]
        if not mine:
            return 0
        # Only a manifest that is read after the claim is sure to show what the job was planned on.
        manifest = (await self._files.manifests.read_latest()).value
        for job in mine:
            try:
                execution = Execution(self._files, job, manifest, self._options.merge, self._resources, self._moved)
                running = self._running[job.id] = _Running(execution)
                running.task = asyncio.ensure_future(self._carry_out(job, running))
            except SourcesGone as gone:
                log.warning("compaction %s is released: %s", job.id, gone)
                self._refused[job.id] = math.inf
                await self._release({job.id: None})
        return len(mine)

    async def _wanted(self, found: Compactions) -> set[Ulid]:
        """The jobs that wait and are for this worker."""
        self._patience.note(found)
        now = self._runtime.monotonic()
        not_again = {*self._running, *(id for id, until in self._refused.items() if until > now)}
        waiting = [job for job in book.waiting(found) if job.id not in not_again]
        if waiting and self._options.max_job_bytes is not None:
            # Read after the book, so it shows what the jobs in there were planned on.
            manifest = (await self._files.manifests.read_latest()).value
            at_large_one = any(self._options.leaves(each.execution.input_bytes) for each in self._running.values())
            waiting = self._patience.chosen(waiting, manifest, at_large_one=at_large_one)
        return {job.id for job in waiting}

    async def _release(self, progress: dict[Ulid, Context | None]) -> None:
        if progress:
            await self._compactions.update(lambda old: book.release(old, self.id, progress))
            self._finished()

    # --- merging -------------------------------------------------------------------------------------------------

    async def _carry_out(self, job: Compaction, running: _Running) -> None:
        with self._merging.running():
            try:
                await self._try(job, running)
            except DatabaseDeleted as deleted:
                self._running[job.id] = running
                self._end(deleted)

    async def _try(self, job: Compaction, running: _Running) -> None:
        try:
            await self._merge(job, running)
        except StoreUnavailable as trouble:
            log.warning("compaction %s is put off, the store failed: %s", job.id, trouble)
            self._refused[job.id] = self._runtime.monotonic() + PAUSE
            await self._patiently(lambda: self._release({job.id: running.execution.context}))
        except Error as error:
            await self._give_up(job, error)
        except Exception as defect:
            log.exception("compaction %s broke down", job.id)
            await self._give_up(job, InternalError(f"the merge broke down: {defect!r}"))
        finally:
            self._running.pop(job.id, None)

    async def _merge(self, job: Compaction, running: _Running) -> None:
        began = self._runtime.monotonic()
        execution = running.execution
        what = "goes on" if execution.context is not None else "begins"
        log.info("compaction %s %s: %s, %.1f MB", job.id, what, describe(job.spec), execution.input_bytes / 1e6)
        with self._metrics.running.track_inprogress():
            outputs = await execution.run()
        running.merged = True
        await self._patiently(
            lambda: self._compactions.update(lambda old: book.compacted(old, self._as_of_now(), job.id, outputs))
        )
        seconds = self._runtime.monotonic() - began
        self._metrics.merged(execution.bytes_read, execution.l0_bytes, seconds)
        log.info(
            "compaction %s has merged %d rows to %d, %.1f MB to %.1f MB, in %.1f s",
            job.id,
            execution.rows_read,
            execution.rows_written,
            execution.input_bytes / 1e6,
            execution.output_bytes / 1e6,
            seconds,
        )
        self._finished()

    def _moved(self, moved: Moved) -> None:
        self._metrics.moved(*moved)
        self.bytes_read += moved.read
        self.bytes_written += moved.written
        self._progressed(self.progress)

    async def _give_up(self, job: Compaction, error: Error) -> None:
        """An input is corrupt, or the merge operator failed: trying again does not help."""
        self._metrics.failed(error)
        log.error("compaction %s cannot be done: %s", job.id, error)
        self._refused[job.id] = math.inf
        await self._patiently(lambda: self._gave_up(job, error))

    async def _leave_to_others(self, job: Compaction, error: Error) -> None:
        await self._release({job.id: None})

    async def _patiently(self, attempt: Callable[[], Awaitable[object]]) -> None:
        """Try until the store answers, as long as this worker lives."""
        while True:
            try:
                await attempt()
                return
            except (StoreUnavailable, Contended) as trouble:
                log.warning("the book of compactions cannot be written, trying again: %s", trouble)
            await self._runtime.sleep(self._runtime.uniform(PAUSE / 2, PAUSE))

    # --- living --------------------------------------------------------------------------------------------------

    async def _beat_for_ever(self) -> None:
        loop = Loop("the worker's heartbeat", self._runtime)
        with loop.running():
            while True:
                await loop.sleep(self._options.heartbeat_interval)
                try:
                    await self.beat()
                except DatabaseDeleted as deleted:
                    self._end(deleted)
                    return
                except Error as trouble:
                    log.warning("no heartbeat: %s", trouble)

    async def beat(self) -> None:
        """Say of all jobs how far they are, and leave off from those that are not ours any more."""
        merging = {id: running for id, running in self._running.items() if not running.merged}
        if not merging:
            return
        progress = {id: running.execution.context for id, running in merging.items()}
        told = await self._compactions.update(lambda old: book.heartbeat(old, self._as_of_now(), progress))
        self._patience.note(told.value)
        mine = {job.id for job in book.owned(told.value, self.id)}
        for id, running in merging.items():
            if id not in mine and not running.merged and running.task is not None:
                log.warning("compaction %s is not this worker's any more: it was silent for too long", id)
                running.task.cancel()
