"""Which jobs a worker leaves, for a while, to another one that is made for large jobs.

A compactor beside which Spark jobs run does the small jobs itself and leaves the large ones in the book, where a driver
finds them. Nobody promises that one comes, so a large job is taken after all when it has waited for long enough.

How long it has waited is told by its id, which holds the time when it was planned: that survives any restart. A job that
somebody claimed and lost waits anew from then, since whoever comes back for it should find it; but once only, for one that
dies again and again must not keep it for ever. The book has no place for the time of that, so it is this worker's own
memory: after a restart the job counts as waiting since it was planned, and is taken sooner, which does no harm.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction.options import WorkerOptions
from slate_engine.lsm.compaction.specs import describe, input_bytes
from slate_engine.runtime import Runtime
from slate_engine.state.compactions import Compaction, Compactions
from slate_engine.state.manifest import Manifest

log = logging.getLogger(__name__)


class Patience:
    """That of one worker, whose id is ``worker``."""

    def __init__(self, options: WorkerOptions, runtime: Runtime, worker: str) -> None:
        self._options = options
        self._runtime = runtime
        self._worker = worker
        self._claimed: set[Ulid] = set()
        """Jobs that were seen with another worker."""
        self._lost: dict[Ulid, int] = {}
        """Those of them that wait again, and since when."""
        self._told: set[Ulid] = set()

    def note(self, found: Compactions) -> None:
        """Look who has which job. To be called whenever the book is seen."""
        active = {job.id: job for job in found.jobs if job.is_active}
        for id, job in active.items():
            if job.worker is None and id in self._claimed:
                self._lost.setdefault(id, self._runtime.now_ms())
            elif job.worker is not None and job.worker.id != self._worker:
                self._claimed.add(id)
        self._lost = {id: since for id, since in self._lost.items() if id in active}
        self._claimed &= active.keys()
        self._told &= active.keys()

    def chosen(self, waiting: Sequence[Compaction], manifest: Manifest, *, at_large_one: bool) -> list[Compaction]:
        """Those of ``waiting`` that this worker may have: the small ones, and the oldest large one for which nobody came.

        Large ones are done one at a time, so that there is always room for small ones beside them."""
        chosen: list[Compaction] = []
        for job in waiting:
            size = input_bytes(job.spec, manifest)
            if not self._options.leaves(size):
                chosen.append(job)
            elif self._is_left(job):
                self._tell(job, size)
            elif not at_large_one:
                at_large_one = True
                chosen.append(job)
        return chosen

    def _is_left(self, job: Compaction) -> bool:
        since = self._lost.get(job.id, job.id.ms)
        # An id from the future comes of a clock that was wrong; that must not prolong the wait by more than its length.
        return abs(self._runtime.now_ms() - since) < self._options.leave_seconds * 1000

    def _tell(self, job: Compaction, size: int) -> None:
        if job.id not in self._told:
            self._told.add(job.id)
            log.info(
                "compaction %s (%s) is left to a worker for large ones: it reads %.1f MB, and is taken here if nobody comes "
                "for it within %g s",
                job.id,
                describe(job.spec),
                size / 1e6,
                self._options.leave_seconds,
            )
