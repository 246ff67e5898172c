"""The steps of a job in the book, and who may take them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slate_engine.errors import Fenced, InternalError
from slate_engine.format.key_range import ALL
from slate_engine.lsm.compaction import book as steps
from slate_engine.state.compactions import Compaction, CompactionStatus, Context, Subcompaction, Worker
from slate_engine.state.ssts import Ssts
from tests.unit.compaction.trees import book, handle, job, l0_spec, ulid

SUBMITTED, SCHEDULED, RUNNING = CompactionStatus.SUBMITTED, CompactionStatus.SCHEDULED, CompactionStatus.RUNNING
COMPACTED, COMPLETED, FAILED = CompactionStatus.COMPACTED, CompactionStatus.COMPLETED, CompactionStatus.FAILED
ME, OTHER = Worker("me", 1000), Worker("other", 1000)
SPEC = l0_spec([1], 0)
CONTEXT = Context((Subcompaction(ALL, Ssts.of([handle(5)])),), 7)
OUTPUTS = Ssts.of([handle(6)])


def running(number: int, worker: Worker | None, context: Context | None = None) -> Compaction:
    return replace(job(number, SPEC), worker=worker, context=context)


def test_epochs() -> None:
    with pytest.raises(Fenced):
        steps.check_epoch(3, 2, "it")
    with pytest.raises(InternalError):
        steps.check_epoch(1, 2, "it")
    with pytest.raises(Fenced):
        steps.take_over(replace(book(), compactor_epoch=5), 4)
    assert steps.take_over(replace(book(), compactor_epoch=3), 4).compactor_epoch == 4


def test_a_new_coordinator_looks_at_what_nobody_has_claimed_anew() -> None:
    found = book(job(1, SPEC, COMPLETED), job(2, SPEC, FAILED), job(3, SPEC, SCHEDULED), running(4, OTHER))
    after = steps.begin_again(found)
    assert [(each.id, each.status) for each in after.jobs] == [
        (ulid(2), FAILED),
        (ulid(3), SUBMITTED),
        (ulid(4), RUNNING),
    ]
    assert steps.begin_again(after) is after


def test_only_silent_workers_lose_their_jobs_and_their_progress_stays() -> None:
    found = book(running(1, OTHER, CONTEXT), running(2, Worker("lively", 1900)), running(3, None))
    after = steps.reclaim(found, now_ms=2001, timeout_ms=1000)
    assert [each.status for each in after.jobs] == [SCHEDULED, RUNNING, SCHEDULED]
    assert after.jobs[0].worker is None
    assert after.jobs[0].context == CONTEXT
    assert steps.reclaim(found.with_job(running(3, ME)), now_ms=2000, timeout_ms=1000).jobs[0].status is RUNNING


def test_claims() -> None:
    found = book(job(1, SPEC, SUBMITTED), job(2, SPEC, SCHEDULED), running(3, OTHER), job(4, SPEC, SCHEDULED))
    assert [each.id for each in steps.waiting(found)] == [ulid(2), ulid(4)]
    everything = [each.id for each in found.jobs]
    after = steps.claim(found, ME, 1, everything)
    assert [each.id for each in steps.owned(after, "me")] == [ulid(2)]
    assert [each.id for each in steps.owned(steps.claim(after, ME, 5, everything), "me")] == [ulid(2), ulid(4)]
    assert [each.id for each in steps.owned(steps.claim(found, ME, 1, [ulid(4)]), "me")] == [ulid(4)]
    assert steps.claim(found, ME, 5, [ulid(1), ulid(3)]) is found, "neither of them waits"
    assert steps.claim(found, ME, 0, everything) is found


def test_a_heartbeat_tells_how_far_jobs_are_that_are_still_ones_own() -> None:
    found = book(running(1, ME), running(2, OTHER), running(3, ME, CONTEXT))
    later = Worker("me", 5000)
    after = steps.heartbeat(found, later, {ulid(1): CONTEXT, ulid(2): CONTEXT, ulid(3): None, ulid(9): CONTEXT})
    assert after.jobs[0] == running(1, later, CONTEXT)
    assert after.jobs[1] == running(2, OTHER)
    assert after.jobs[2] == running(3, later, CONTEXT)


def test_a_result_counts_only_from_the_owner() -> None:
    found = book(running(1, OTHER, CONTEXT))
    assert steps.compacted(found, ME, ulid(1), OUTPUTS) is found
    assert steps.compacted(book(job(1, SPEC, SCHEDULED)), ME, ulid(1), OUTPUTS) == book(job(1, SPEC, SCHEDULED))
    (done,) = steps.compacted(book(running(1, ME, CONTEXT)), ME, ulid(1), OUTPUTS).jobs
    assert (done.status, done.outputs, done.worker, done.context) == (COMPACTED, OUTPUTS, ME, None)


def test_what_is_released_can_be_gone_on_with() -> None:
    (left,) = steps.release(book(running(1, ME)), "me", {ulid(1): CONTEXT}).jobs
    assert (left.status, left.worker, left.context) == (SCHEDULED, None, CONTEXT)
    (kept,) = steps.release(book(running(1, ME, CONTEXT)), "me", {ulid(1): None}).jobs
    assert kept.context == CONTEXT
    other = book(running(1, OTHER))
    assert steps.release(other, "me", {ulid(1): None}) is other


def test_the_book_keeps_what_is_active_and_the_newest_that_has_ended() -> None:
    found = book(job(1, SPEC, COMPLETED), replace(job(2, SPEC, COMPACTED), outputs=OUTPUTS), running(3, ME))
    after = steps.with_status(found, {ulid(2): COMPLETED})
    assert [(each.id, each.status) for each in after.jobs] == [(ulid(2), COMPLETED), (ulid(3), RUNNING)]
    assert steps.with_status(after, {ulid(2): FAILED, ulid(8): FAILED}) is after, "what has ended has ended"
