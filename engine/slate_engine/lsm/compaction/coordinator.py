"""The coordinator of a database: decides what is compacted, gives it out, and commits what comes back.

There is one at a time. It owns the compactor's epoch, and looks at it before every step: once a newer coordinator has
begun, the older one stops, and nothing that it does counts any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from slate_engine.errors import Error
from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction import book
from slate_engine.lsm.compaction.census import Census
from slate_engine.lsm.compaction.commit import Claim, Commits, is_local
from slate_engine.lsm.compaction.metrics import CompactionMetrics
from slate_engine.lsm.compaction.options import CompactorOptions
from slate_engine.lsm.compaction.plan import Proposal
from slate_engine.lsm.compaction.specs import describe, find_flaw, input_bytes
from slate_engine.lsm.compaction.triggers import Counts
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.commit import Versioned
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import CompactionsStore

log = logging.getLogger(__name__)

SUBMITTED, SCHEDULED = CompactionStatus.SUBMITTED, CompactionStatus.SCHEDULED
RUNNING, COMPACTED = CompactionStatus.RUNNING, CompactionStatus.COMPACTED
UNLIMITED = 1 << 30


class Coordinator:
    """Made with the claim that makes it one. ``committed`` is told of each manifest with new results, ``scheduled`` that
    there is work for a worker."""

    def __init__(
        self,
        files: DatabaseFiles,
        compactions: CompactionsStore,
        claim: Claim,
        options: CompactorOptions,
        *,
        metrics: CompactionMetrics | None = None,
        committed: Callable[[Versioned[Manifest]], None] = lambda manifest: None,
        scheduled: Callable[[], None] = lambda: None,
    ) -> None:
        self._files = files
        self._runtime = files.runtime
        self._compactions = compactions
        self._claim = claim
        self._options = options
        self._metrics = metrics or CompactionMetrics.of()
        self._committed = committed
        self._scheduled = scheduled
        self._census = Census(files)
        self._counts: Mapping[Ulid, Counts] = {}
        self._commits = Commits(files, claim, int(options.checkpoint_lifetime * 1000))
        self._failed: dict[Ulid, tuple[Compaction, float]] = {}
        """Jobs that workers could not do, and until when their sources are left alone."""
        self._reasons: dict[Ulid, str] = {}

    async def has_results(self) -> bool:
        """Whether a worker has finished something. Costs less than a whole turn."""
        found = self._claim.check_book((await self._compactions.read_latest()).value)
        return any(job.status is COMPACTED for job in found.jobs)

    async def turn(self, *, plan: bool = True, limit: int | None = None) -> Compactions:
        """Commit what is finished, take back what was left lying, schedule what is to be done. Gives the book as it is
        then. Without ``plan`` nothing new is begun; ``limit`` is for how many jobs there may be at once."""
        limit = self._options.max_concurrent_compactions if limit is None else limit
        while True:
            found = self._claim.check_book((await self._compactions.read_latest()).value)
            manifest = self._claim.check((await self._files.manifests.read_latest()).value)
            ready = [job for job in found.jobs if job.status is COMPACTED or self._is_local(job, manifest)]
            if ready:
                await self._commit(ready, found)
                continue
            if plan and self._options.triggers.max_tombstones is not None:
                self._counts = await self._census.of(manifest)
            arranged = (await self._compactions.update(partial(self._arranged, manifest, limit if plan else 0))).value
            self._report(found, arranged)
            self._metrics.observe(manifest, arranged, self._runtime.now_ms())
            if any(job.status is SCHEDULED and job.worker is None for job in arranged.jobs):
                self._scheduled()
            if not any(self._is_local(job, manifest) for job in arranged.jobs):
                return arranged
            plan = False

    async def give_up(self, job: Compaction, error: Error) -> None:
        """A worker cannot do this job; its sources are left alone for a while."""
        self._failed[job.id] = job, self._runtime.monotonic() + self._options.retry_failed_after
        await self._end({job.id: CompactionStatus.FAILED})

    def _is_local(self, job: Compaction, manifest: Manifest) -> bool:
        return job.status is SUBMITTED and is_local(job, manifest, trivial_moves=self._options.enable_trivial_move)

    async def _commit(self, jobs: list[Compaction], found: Compactions) -> None:
        manifest, outcome = await self._commits.commit(jobs, found)
        self._committed(manifest)
        await self._end(outcome)
        for job in jobs:
            log.info("compaction %s: %s, %s", job.id, outcome[job.id].name.lower(), describe(job.spec))

    async def _end(self, outcome: dict[Ulid, CompactionStatus]) -> None:
        await self._compactions.update(lambda old: book.with_status(self._claim.check_book(old), outcome))
        for status in outcome.values():
            self._metrics.ended.labels(status.name.lower()).inc()

    # --- planning ------------------------------------------------------------------------------------------------

    def _arranged(self, manifest: Manifest, limit: int, old: Compactions) -> Compactions:
        """The book with everything in it that can be decided now."""
        timeout_ms = int(self._options.worker_heartbeat_timeout * 1000)
        now_ms = self._runtime.now_ms()
        after = book.reclaim(self._claim.check_book(old), now_ms=now_ms, timeout_ms=timeout_ms)
        after = self._judged(after, manifest)
        slots = limit - sum(self._takes_a_slot(job, manifest) for job in after.jobs)
        if slots > 0:
            after = self._with_new(after, manifest, slots)
        return after if after is old else after.pruned()

    def _takes_a_slot(self, job: Compaction, manifest: Manifest) -> bool:
        """What the worker here leaves to others is in nobody's way: it may wait for long, and small jobs go on beside it."""
        if job.status not in (SUBMITTED, SCHEDULED, RUNNING):
            return False
        worker = self._options.worker
        return worker is None or not worker.leaves(input_bytes(job.spec, manifest))

    def _judged(self, found: Compactions, manifest: Manifest) -> Compactions:
        """Jobs that somebody submitted are checked; and those that nobody has claimed, for the world may have moved on."""
        for job in found.jobs:
            if job.status not in (SUBMITTED, SCHEDULED) or job.worker is not None or self._is_local(job, manifest):
                continue
            flaw = find_flaw(job, manifest, found)
            if flaw is not None:
                log.warning("compaction %s (%s) is refused: %s", job.id, describe(job.spec), flaw)
                found = book.with_status(found, {job.id: CompactionStatus.FAILED})
            elif job.status is SUBMITTED:
                found = found.with_job(replace(job, status=SCHEDULED, context=None))
        return found

    def _with_new(self, found: Compactions, manifest: Manifest, slots: int) -> Compactions:
        now = self._runtime.monotonic()
        self._failed = {id: (job, until) for id, (job, until) in self._failed.items() if until > now}
        policy, triggers = self._options.policy, self._options.triggers
        wanted = policy.propose(manifest, self._avoiding(found), slots)
        for proposal in wanted:
            found = self._with_job(found, manifest, proposal)
        if slots > len(wanted):
            for proposal in triggers.propose(manifest, self._avoiding(found), slots - len(wanted), self._counts):
                found = self._with_job(found, manifest, proposal)
        return found

    def _avoiding(self, found: Compactions) -> Compactions:
        """As the policy is to see it: a job that failed looks as if it were still running, so it keeps away from its
        sources."""
        for job, _ in self._failed.values():
            found = found.with_job(replace(job, status=RUNNING))
        return found

    def _with_job(self, found: Compactions, manifest: Manifest, proposal: Proposal) -> Compactions:
        # No job may be older than those in the book: garbage collection goes by the oldest.
        newest_ms = max((job.id.ms for job in found.jobs), default=0)
        job = Compaction(Ulid.new(self._runtime, newest_ms), proposal.spec, SUBMITTED)
        if not self._is_local(job, manifest):
            job = replace(job, status=SCHEDULED)
        self._reasons[job.id] = proposal.reason
        return found.with_job(job)

    def _report(self, before: Compactions, after: Compactions) -> None:
        for job in after.jobs:
            was = before.job(job.id)
            if was is None and job.id in self._reasons:
                log.info(
                    "compaction %s is planned: %s, because of %s", job.id, describe(job.spec), self._reasons[job.id]
                )
            elif was is not None and was.status is RUNNING and job.status is SCHEDULED:
                log.warning("compaction %s is taken back from worker %s, which went silent", job.id, was.worker)
        self._reasons = {}
