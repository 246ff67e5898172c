"""Safety mechanisms of compaction switched off, one at a time, as in :mod:`tests.simulation.planted`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from slate_engine.lsm.compaction import book, commit, inputs, result
from slate_engine.lsm.compaction.commit import Commits
from slate_engine.lsm.compaction.coordinator import Coordinator
from slate_engine.lsm.compaction.execution import Execution
from slate_engine.lsm.compaction.inputs import Inputs
from slate_engine.state.compactions import Compactions, CompactionStatus
from slate_engine.state.manifest import Manifest
from tests.simulation.mutation import edited

Switch = AbstractContextManager[object]


# --- which rows stay -------------------------------------------------------------------------------------------------


def tombstones_always_dropped() -> Switch:
    """Also where something older lies below, which then comes back."""
    return mock.patch.object(inputs, "is_deepest", return_value=True)


def snapshots_not_retained_by_compactions() -> Switch:
    return edited(Inputs, "of", "Rules(manifest.recent_snapshot_min_seq, ", "Rules(2**63, ")


def overlapping_ssts_moved() -> Switch:
    """As if they were a run as they are."""
    return edited(result, "movable", "Views.of(views) if apart else None", "Views.of(views)")


def sources_stay() -> Switch:
    """What a job has merged is still in level 0 beside its result, and merged again."""
    return edited(result, "_replaced", "tree.without_l0(spec.l0_views).without_runs", "tree.without_runs")


def jobs_begun_anew_beside_what_they_have() -> Switch:
    """Whoever goes on with another's job keeps what that one has written, and writes it once more."""
    return edited(Execution, "_mark", "if not part.outputs:", "if part.outputs or not part.outputs:")


# --- whose word counts -----------------------------------------------------------------------------------------------


def compactor_epochs_not_checked() -> Switch:
    """An older coordinator goes on beside a newer one."""
    return mock.patch.object(book, "check_epoch", return_value=None)


def compactor_epoch_not_checked_at_commit() -> Switch:
    """It is looked at before every step but the last."""
    return edited(Commits, "_committed", "self._claim.check(old).checkpoint", "old.checkpoint")


def results_not_checked_at_commit() -> Switch:
    """They are put into the manifest whatever has become of their sources."""
    return edited(commit, "_applied", "flaw = find_flaw(job, manifest, found)", "flaw = None")


def anybodys_results_count() -> Switch:
    """Also those of a worker from which the job was taken back."""
    return edited(book, "_of_owner", "for job in owned(book, worker):", "for job in book.jobs:")


def silent_workers_keep_their_jobs() -> Switch:
    return edited(book, "reclaim", "if silent else book", "if not job.worker else book")


# --- what garbage collection may take --------------------------------------------------------------------------------


def jobs_older_than_the_book() -> Switch:
    """Their ids follow a clock that may have been set back, while collectors go by the oldest job that they have seen."""
    return edited(Coordinator, "_with_job", "Ulid.new(self._runtime, newest_ms)", "Ulid.new(self._runtime)")


def inputs_not_protected() -> Switch:
    """No checkpoint keeps the inputs for those who still read them."""

    async def at_once(self: Commits, jobs: Any, found: Compactions) -> Any:
        outcome: dict[Any, CompactionStatus] = {}

        def change(old: Manifest) -> Manifest:
            manifest, ends = commit._applied(self._claim.check(old), jobs, found)
            outcome.update(ends)
            return manifest

        return await self._files.manifests.update(change), outcome

    return mock.patch.object(Commits, "_replace_inputs", at_once)
