"""The life of a job in the compactor's book: each step a function from one state of the book to the next.

``SUBMITTED -> SCHEDULED <-> RUNNING -> COMPACTED -> COMPLETED``, or ``FAILED``. The coordinator schedules, takes jobs back
from workers that went silent, and ends them; a worker claims, shows that it lives, and says what it wrote. A step that does
not apply any more gives its very argument back, which writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from slate_engine.errors import Fenced, InternalError
from slate_engine.format.ids import Chance, Ulid
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, Context, Worker
from slate_engine.state.ssts import Ssts

OURS = "slatekeeper-"
"""The ids of our workers begin with it. SlateDB does not care what a worker is called."""


def new_worker_id(chance: Chance) -> str:
    """An id that tells coordinators whose worker it is."""
    return f"{OURS}{Ulid.new(chance)}"


def check_epoch(found: int, epoch: int, what: str) -> None:
    """Raises :class:`Fenced` if a newer coordinator has taken over."""
    if found > epoch:
        raise Fenced(
            f"compactor epoch {found} has taken the database over from this compactor ({epoch}); let one compactor only run "
            "for a database"
        )
    if found < epoch:
        raise InternalError(f"{what} is at compactor epoch {found}, below the {epoch} that was taken; was it restored?")


# --- the coordinator's steps -----------------------------------------------------------------------------------------


def take_over(book: Compactions, epoch: int) -> Compactions:
    """The book under a new epoch."""
    if book.compactor_epoch >= epoch:
        check_epoch(book.compactor_epoch, epoch, "the book of compactions")
        return book
    return replace(book, compactor_epoch=epoch)


def begin_again(book: Compactions) -> Compactions:
    """What a coordinator finds: jobs that nobody had claimed are looked at anew."""
    fresh = book.pruned()
    for job in fresh.jobs:
        if job.status is CompactionStatus.SCHEDULED:
            fresh = fresh.with_job(replace(job, status=CompactionStatus.SUBMITTED, worker=None))
    return book if fresh.jobs == book.jobs else fresh


def reclaim(book: Compactions, *, now_ms: int, timeout_ms: int) -> Compactions:
    """Jobs whose workers went silent may be claimed again, with what they have done so far."""
    for job in book.jobs:
        if job.status is CompactionStatus.RUNNING:
            silent = job.worker is None or now_ms - job.worker.last_heartbeat_ms > timeout_ms
            book = book.with_job(_released(job)) if silent else book
    return book


def with_status(book: Compactions, outcome: Mapping[Ulid, CompactionStatus]) -> Compactions:
    """Jobs that have ended, or may be claimed. What they wrote on the way counts no more."""
    changed = [job for job in book.jobs if job.id in outcome and job.status is not outcome[job.id] and job.is_active]
    for job in changed:
        book = book.with_job(replace(job, status=outcome[job.id], context=None))
    return book.pruned() if changed else book


# --- a worker's steps ------------------------------------------------------------------------------------------------


def waiting(book: Compactions) -> list[Compaction]:
    """The jobs that any worker may claim, the oldest first."""
    return [job for job in book.jobs if job.status is CompactionStatus.SCHEDULED and job.worker is None]


def claim(book: Compactions, worker: Worker, capacity: int, wanted: Collection[Ulid]) -> Compactions:
    """The oldest of the ``wanted`` jobs that still wait for a worker, as many as this one can take."""
    for job in [job for job in waiting(book) if job.id in wanted][:capacity]:
        book = book.with_job(replace(job, status=CompactionStatus.RUNNING, worker=worker))
    return book


def owned(book: Compactions, worker: str) -> list[Compaction]:
    """The jobs that this worker is at."""
    return [job for job in book.jobs if job.status is CompactionStatus.RUNNING and is_owner(job, worker)]


def is_owner(job: Compaction | None, worker: str) -> bool:
    return job is not None and job.worker is not None and job.worker.id == worker


def heartbeat(book: Compactions, worker: Worker, progress: Mapping[Ulid, Context | None]) -> Compactions:
    """The worker lives, and has come so far with those of its jobs that are still its own."""

    def beat(job: Compaction) -> Compaction:
        context = progress[job.id]
        return replace(job, worker=worker, context=job.context if context is None else context)

    return _of_owner(book, worker.id, progress, beat)


def compacted(book: Compactions, worker: Worker, id: Ulid, outputs: Ssts) -> Compactions:
    """The job is merged. If somebody else has it by now, its outputs are orphans that nobody will miss."""

    def done(job: Compaction) -> Compaction:
        return replace(job, status=CompactionStatus.COMPACTED, outputs=outputs, worker=worker, context=None)

    return _of_owner(book, worker.id, [id], done)


def release(book: Compactions, worker: str, progress: Mapping[Ulid, Context | None]) -> Compactions:
    """Others may have these jobs, and go on from where they are."""

    def leave(job: Compaction) -> Compaction:
        context = progress[job.id]
        return _released(job if context is None else replace(job, context=context))

    return _of_owner(book, worker, progress, leave)


def _released(job: Compaction) -> Compaction:
    return replace(job, status=CompactionStatus.SCHEDULED, worker=None)


def _of_owner(
    book: Compactions, worker: str, ids: Collection[Ulid], step: Callable[[Compaction], Compaction]
) -> Compactions:
    for job in owned(book, worker):
        if job.id in ids:
            book = book.with_job(step(job))
    return book
