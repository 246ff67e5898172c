"""A worker of the compactor's protocol whose hands are Spark's executors.

It claims a job from the book, has its ranges of keys merged, shows meanwhile that it lives, and says what came of it; whose
coordinator it works for is all the same. If the driver dies, its heartbeat runs out and the job waits for the next worker;
what executors had written by then is in no book and no manifest, and garbage collection finds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import replace
from uuid import UUID

from pyspark import SparkContext

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint, delete_checkpoint, refresh_checkpoint
from slate_engine.errors import Error, InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction import book
from slate_engine.lsm.compaction.inputs import Inputs
from slate_engine.lsm.compaction.options import MergeOptions, sst_options_of
from slate_engine.lsm.compaction.ranges import plan_ranges
from slate_engine.lsm.compaction.specs import input_bytes
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.spark.jobs.settings import Settings
from slate_engine.spark.load.options import CODECS
from slate_engine.spark.merging import Merged, MergeTask, merge_range
from slate_engine.spark.options import MIB, Given, Location
from slate_engine.state.commit import Contended
from slate_engine.state.compactions import Compaction, CompactionStatus, TieredSpec, Worker
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import Ssts
from slate_engine.state.stores import CompactionsStore
from slate_engine.store.protocol import StoreUnavailable

log = logging.getLogger(__name__)

LEAST_BYTES = 16 * MIB
BEAT_SECONDS = 10.0
LOOK_SECONDS = 1.0
LIFETIME_MS = 900_000
"""The driver dead, the state that executors read from is kept for so long."""


class JobLost(InvalidError):
    """Somebody else has the job by now, and what was merged of it is of no use."""

    def __init__(self, id: Ulid) -> None:
        super().__init__(
            f"compaction {id} is not this driver's any more: it was silent for too long, or another compactor has taken "
            "the database over. Nothing was changed; start it again for what is left to do"
        )


class SparkWorker:
    """Does one job after another, of one database."""

    def __init__(self, context: SparkContext, files: DatabaseFiles, location: Location, settings: Settings) -> None:
        self._context = context
        self._files = files
        self._runtime = files.runtime
        self._location = location
        self._settings = settings
        self._compactions = CompactionsStore.open(files.store, files.paths.root, files.runtime)
        self._id = book.new_worker_id(files.runtime)
        self.merged: list[Merged] = []

    def _as_of_now(self) -> Worker:
        return Worker(self._id, self._runtime.now_ms())

    async def claim(self, least_bytes: int = 0, refused: Collection[Ulid] = ()) -> Compaction | None:
        """The oldest job that waits with at least so much to read; None if there is none, or not even a book."""
        newest = await self._compactions.latest()
        waiting = [] if newest is None else [job for job in book.waiting(newest.value) if job.id not in refused]
        if not waiting:
            return None
        # Read after the book, so it shows what the jobs in there were planned on.
        manifest = (await self._files.manifests.read_latest()).value
        large = [job.id for job in waiting if input_bytes(job.spec, manifest) >= least_bytes]
        claimed = await self._compactions.update(lambda old: book.claim(old, self._as_of_now(), 1, large))
        return next(iter(book.owned(claimed.value, self._id)), None)

    async def carry_out(self, job: Compaction) -> Compaction:
        """Merge a job that was claimed; gives it with its result, as the book has it now."""
        try:
            # Read after the claim; and held, for executors will want it until the last of them is done.
            made = await create_checkpoint(self._files, CheckpointOptions(LIFETIME_MS, name="spark compaction"))
            try:
                outputs = await self._merge_alive(job, made.id, made.manifest_id)
            finally:
                await self._let_go(made.id)
        except BaseException:
            await self._compactions.update(lambda old: book.release(old, self._id, {job.id: None}))
            raise
        return replace(job, status=CompactionStatus.COMPACTED, outputs=outputs, context=None)

    async def outcome(self, job: Compaction, seconds: float) -> CompactionStatus | None:
        """How the coordinator has ended a job that was carried out; None if it has not within so many seconds."""
        end = self._runtime.monotonic() + seconds
        while True:
            try:
                ended = await self._ended(job)
            except StoreUnavailable as trouble:
                log.warning("what became of compaction %s cannot be told yet: %s", job.id, trouble)
                ended = None
            if ended is not None or self._runtime.monotonic() >= end:
                return ended
            await self._runtime.sleep(LOOK_SECONDS)

    async def _ended(self, job: Compaction) -> CompactionStatus | None:
        found = (await self._compactions.read_latest()).value.job(job.id)
        if found is not None:
            return None if found.is_active else found.status
        # The book keeps but the newest of the jobs that have ended; then the manifest tells.
        manifest = (await self._files.manifests.read_latest()).value
        return CompactionStatus.COMPLETED if _shows(manifest, job) else CompactionStatus.FAILED

    # --- merging -------------------------------------------------------------------------------------------------

    async def _merge_alive(self, job: Compaction, held: UUID, manifest_id: int) -> Ssts:
        """Merge and say so, with a heartbeat all the while. Once the job is somebody else's, there is no use in going on."""
        merging = asyncio.ensure_future(self._merge_and_tell(job, held, manifest_id))
        beating = asyncio.ensure_future(self._beat(job, held))
        try:
            await asyncio.wait([merging, beating], return_when=asyncio.FIRST_COMPLETED)
            if merging.done():
                return merging.result()
            beating.result()
            raise JobLost(job.id)
        finally:
            self._context.cancelJobGroup(str(job.id))
            for task in (merging, beating):
                task.cancel()
            await asyncio.gather(merging, beating, return_exceptions=True)

    async def _merge_and_tell(self, job: Compaction, held: UUID, manifest_id: int) -> Ssts:
        outputs = await self._merge(job, held, manifest_id)
        while True:
            try:
                told = await self._compactions.update(
                    lambda old: book.compacted(old, self._as_of_now(), job.id, outputs)
                )
                break
            except (StoreUnavailable, Contended) as trouble:
                # Too much was done for it to be lost by one request; while there is a heartbeat, it is ours.
                log.warning("the book of compactions cannot be written, trying again: %s", trouble)
            await self._runtime.sleep(LOOK_SECONDS)
        found = told.value.job(job.id)
        if found is None or found.status is not CompactionStatus.COMPACTED or not book.is_owner(found, self._id):
            raise JobLost(job.id)
        return outputs

    async def _merge(self, job: Compaction, held: UUID, manifest_id: int) -> Ssts:
        files, settings = self._files, self._settings
        if not isinstance(job.spec, TieredSpec):
            raise InvalidError("a segment is drained by the coordinator itself")
        manifest = await files.manifests.read(manifest_id)
        inputs = Inputs.of(job.spec, manifest, files.tables.opener(manifest), files.store)
        most = settings.number("ranges") or 4 * self._context.defaultParallelism
        ranges = await plan_ranges(inputs, most, min(LEAST_BYTES, max(inputs.size // most, 1)))
        task = MergeTask(
            self._location,
            settings.text("merge-operator"),
            manifest_id,
            str(held),
            replace(job, context=None),
            ranges[0],
            inputs.rules.min_seq,
            self._merge_options(manifest),
            Given({"memory": settings.text("memory-bytes")}).size("memory", 256 * MIB),
        )
        tasks = [replace(task, keys=keys) for keys in ranges]
        # The order of the answers is that of the ranges, which is that of the keys.
        answers: list[Merged] = await asyncio.to_thread(self._on_executors, tasks, str(job.id))
        self.merged += answers
        return Ssts.of(handle for answer in answers for handle in answer.outputs)

    def _on_executors(self, tasks: list[MergeTask], group: str) -> list[Merged]:
        self._context.setJobGroup(group, f"compaction {group}", interruptOnCancel=True)
        return list(self._context.parallelize(tasks, len(tasks)).map(merge_range).collect())

    def _merge_options(self, manifest: Manifest) -> MergeOptions:
        settings = self._settings
        sst = sst_options_of(manifest)
        if settings.text("codec"):
            sst = replace(sst, codec=CODECS[settings.text("codec")])
        size = Given({"size": settings.text("sst-bytes")}).size("size", 256 * MIB)
        return MergeOptions(sst, max_sst_size=size, max_subcompactions=1)

    # --- living --------------------------------------------------------------------------------------------------

    async def _beat(self, job: Compaction, held: UUID) -> None:
        """Say that the job is being worked on, until it is somebody else's."""
        while True:
            await self._runtime.sleep(BEAT_SECONDS)
            try:
                now = await self._compactions.update(lambda old: book.heartbeat(old, self._as_of_now(), {job.id: None}))
                await refresh_checkpoint(self._files, held, LIFETIME_MS)
            except Error as trouble:
                log.warning("the compaction could not say that it goes on: %s", trouble)
                continue
            if not book.is_owner(now.value.job(job.id), self._id):
                return

    async def _let_go(self, held: UUID) -> None:
        try:
            await delete_checkpoint(self._files, held)
        except Error as trouble:
            log.warning("checkpoint %s of the compaction stays until it expires: %s", held, trouble)


def _shows(manifest: Manifest, job: Compaction) -> bool:
    """Whether the manifest has what the job wrote; or, where nothing was left to write, nothing in its place."""
    if len(job.outputs):
        return set(job.outputs.id) <= set(manifest.ssts.id)
    assert isinstance(job.spec, TieredSpec)
    tree = manifest.trees.tree(job.spec.segment)
    return tree is None or tree.run(job.spec.destination) is None
