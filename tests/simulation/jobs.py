"""What may become of a compactor's jobs from one book to the next, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator

from slate_engine.format.ids import Ulid
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus

SUBMITTED, SCHEDULED = CompactionStatus.SUBMITTED, CompactionStatus.SCHEDULED
RUNNING, COMPACTED = CompactionStatus.RUNNING, CompactionStatus.COMPACTED
ENDED = {CompactionStatus.COMPLETED, CompactionStatus.FAILED}
STEPS: dict[CompactionStatus, set[CompactionStatus]] = {
    SUBMITTED: {SUBMITTED, SCHEDULED, *ENDED},
    SCHEDULED: {SUBMITTED, SCHEDULED, RUNNING, *ENDED},
    RUNNING: {RUNNING, SCHEDULED, COMPACTED, *ENDED},
    COMPACTED: {COMPACTED, *ENDED},
    **{ended: {ended} for ended in ENDED},
}


def check_jobs(before: Compactions, after: Compactions) -> None:
    """None is forgotten before it has ended, none comes back after that, and a job that a worker has claimed is nobody
    else's until it was given back."""
    newest_ended = max((job.id for job in after.jobs if not job.is_active), default=None)
    for job in before.jobs:
        later = after.job(job.id)
        if later is None:
            # Of those that have ended, now or before, the newest is kept.
            kept = newest_ended is not None and newest_ended > job.id
            assert kept, f"compaction {job.id} was {job.status.name} and is forgotten"
            continue
        assert later.status in STEPS[job.status], (
            f"compaction {job.id} was {job.status.name} and is {later.status.name}"
        )
        if job.status is RUNNING and later.status in (RUNNING, COMPACTED):
            assert _worker(job) == _worker(later), (
                f"compaction {job.id} is worker {_worker(job)}'s, and {_worker(later)} has {later.status.name} it"
            )


def outputs_of(book: Compactions) -> Iterator[Ulid]:
    """The SSTs that a job has written and may yet publish. None is older than the job, by which collectors go."""
    for job in book.jobs:
        if job.is_active:
            for id in (id for ssts in job.all_outputs() for id in ssts.id):
                assert id.ms >= job.id.ms, f"compaction {job.id} has written SST {id}, which is older"
                yield id


def _worker(job: Compaction) -> str | None:
    return None if job.worker is None else job.worker.id
