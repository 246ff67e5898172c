"""Safety mechanisms of compaction switched off, one at a time, as in :mod:`tests.simulation.planted`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Any
from unittest import mock

from slate_engine.errors import Error
from slate_engine.lsm.compaction import book, commit, inputs, result, specs
from slate_engine.lsm.compaction.commit import Commits
from slate_engine.lsm.compaction.coordinator import Coordinator
from slate_engine.lsm.compaction.execution import Execution
from slate_engine.lsm.compaction.inputs import Inputs
from slate_engine.lsm.compaction.output import RunWriter
from slate_engine.lsm.compaction.plan import Proposal
from slate_engine.lsm.compaction.resources import Resources
from slate_engine.state import compactions_write
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus
from slate_engine.state.manifest import Manifest
from slate_engine.state.views import Views
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
    return edited(result, "_replaced", "tree.without_oldest_l0(len(spec.l0_views)).without_runs", "tree.without_runs")


def jobs_begun_anew_beside_what_they_have() -> Switch:
    """Whoever goes on with another's job keeps what that one has written, and writes it once more."""
    return edited(Execution, "_mark", "if not part.outputs:", "if part.outputs or not part.outputs:")


# --- which views of L0 go --------------------------------------------------------------------------------------------


@contextmanager
def clones_keep_view_ids() -> Iterator[None]:
    """A view that a projection cuts down keeps its id, and a union keeps the ids that repeat."""
    with (
        edited(Views, "projected", "narrowed[table.visible[kept]]", "narrowed[table.visible[kept]] & False"),
        edited(Views, "with_distinct_ids", "if repeats.any()", "if False"),
    ):
        yield


@contextmanager
def repeated_view_ids_split() -> Iterator[None]:
    """A job takes one of two views of L0 with the same id, and leaves the other."""
    with (
        edited(specs, "flaw_of_repeats", "if wanted == taken:", "if wanted >= taken:"),
        edited(Views, "whole_from", "while start < len(self) and", "while False and"),
    ):
        yield


@contextmanager
def l0_views_removed_by_id() -> Iterator[None]:
    """Such a job takes both out of the manifest, and the commit does not look at what it takes out."""
    by_id = "replace(tree, l0=Views.of(view for view in tree.l0 if view.id not in spec.l0_views)).without_runs"
    with (
        repeated_view_ids_split(),
        edited(result, "_replaced", "tree.without_oldest_l0(len(spec.l0_views)).without_runs", by_id),
        mock.patch.object(result, "_check_removed", return_value=None),
    ):
        yield


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


@contextmanager
def jobs_recorded_after_their_outputs() -> Iterator[None]:
    """A coordinator has each job merged as soon as it is planned, and enters it into the book when its outputs are there.
    The book would not take a job that is older than others in it, so there are two who take care."""
    with_job, turn = Coordinator._with_job, Coordinator.turn
    merging: set[asyncio.Task[None]] = set()

    async def merge(self: Coordinator, job: Compaction, manifest: Manifest) -> None:
        worker = self._options.worker
        assert worker is not None
        resources = Resources(worker.max_threads, worker.memory_bytes)
        execution = Execution(self._files, job, manifest, worker.merge, resources, lambda moved: None)
        with suppress(Error):
            done = replace(job, status=CompactionStatus.COMPACTED, outputs=await execution.run())
            await self._compactions.update(lambda old: self._claim.check_book(old).with_job(done))
        self._failed.pop(job.id, None)

    def merged_first(self: Coordinator, found: Compactions, manifest: Manifest, proposal: Proposal) -> Compactions:
        planned = with_job(self, found, manifest, proposal)
        job = next(job for job in planned.jobs if found.job(job.id) is None)
        if self._options.worker is None or job.status is not CompactionStatus.SCHEDULED:
            return planned
        self._failed[job.id] = job, math.inf  # so that nothing else is planned on its sources
        merging.add(asyncio.ensure_future(merge(self, job, manifest)))
        return found

    async def turn_with_all(self: Coordinator, **how: Any) -> Compactions:
        return self._avoiding(await turn(self, **how))

    older = 'raise InvalidCompactions(f"the new compaction'
    with (
        mock.patch.object(Coordinator, "_with_job", merged_first),
        mock.patch.object(Coordinator, "turn", turn_with_all),
        edited(compactions_write, "check_compactions_succession", older, older.replace("raise ", "")),
    ):
        yield


@contextmanager
def outputs_older_than_their_job() -> Iterator[None]:
    """Their ids follow the worker's clock, which may be behind the coordinator's; and the book takes such a job."""
    with (
        edited(RunWriter, "write", "Ulid.new(self._runtime, self._min_ms)", "Ulid.new(self._runtime)"),
        edited(compactions_write, "validate_compactions", "int(outputs.id.ms.min()) < job.id.ms", "False"),
    ):
        yield


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
