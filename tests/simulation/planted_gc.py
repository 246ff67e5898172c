"""The collector's safety mechanisms, switched off one at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from unittest import mock

from slate_engine.admin.parents import release_parents
from slate_engine.gc import collector, compacted, destroyed
from slate_engine.gc import collector as gc
from slate_engine.gc.options import Kind, Task
from slate_engine.gc.references import Referenced, States
from slate_engine.gc.report import Found, KindReport
from slate_engine.gc.wal import WalFile
from slate_engine.lsm.paths import Paths
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.commit import Versioned
from slate_engine.state.detach import detachable, detached
from slate_engine.state.manifest import Manifest
from slate_engine.store.numbered import Entry
from slate_engine.store.protocol import ObjectStore
from tests.simulation.mutation import edited
from tests.simulation.planted import acknowledged_without_a_look


def unpublished_flushes_overlooked() -> AbstractContextManager[object]:
    return mock.patch.object(compacted, "newest_l0_ms", return_value=2**62)


def running_jobs_overlooked() -> AbstractContextManager[object]:
    return mock.patch.object(compacted, "oldest_job_ms", return_value=2**62)


def checkpoints_overlooked_by_ssts() -> AbstractContextManager[object]:
    referenced = States.referenced

    async def of_the_newest(self: States, newest: Versioned[Manifest]) -> Referenced:
        return replace(await referenced(self, newest), ssts=newest.value.ssts.id)

    return mock.patch.object(States, "referenced", of_the_newest)


def checkpoints_overlooked_by_the_log() -> AbstractContextManager[object]:
    referenced = States.referenced

    async def of_the_newest(self: States, newest: Versioned[Manifest]) -> Referenced:
        return replace(await referenced(self, newest), wal=())

    return mock.patch.object(States, "referenced", of_the_newest)


def checkpoints_overlooked_by_manifests() -> AbstractContextManager[object]:
    old_versions = collector.old_versions

    def of_nobody(
        kind: Kind, entries: Sequence[Entry], newest_id: int, held: Collection[int], task: Task, now_ms: int
    ) -> Found:
        return old_versions(kind, entries, newest_id, (), task, now_ms)

    return mock.patch.object(collector, "old_versions", of_nobody)


def expired_checkpoints_can_be_prolonged() -> AbstractContextManager[object]:
    """They count as gone but stay in the manifest, where somebody may bring them back to life."""
    right = "await self._files.manifests.update(change)"
    return edited(gc.Collector, "_checkpoints", right, "Versioned(look.newest.id, change(before))")


@contextmanager
def replay_begins_later_than_it_does() -> Iterator[None]:
    """As if the log were needed from what the writer has seen on, and not from what it has flushed."""
    listed = collector.list_wal

    async def list_all(store: ObjectStore, paths: Paths, before: int) -> list[WalFile]:
        return await listed(store, paths, 2**63)

    def needs(self: Referenced, id: int) -> bool:
        return id >= self.newest.wal_id_last_seen or any(after < id <= last for after, last in self.wal)

    with mock.patch.object(collector, "list_wal", list_all), mock.patch.object(Referenced, "needs_wal", needs):
        yield


def log_deleted_at_the_replay_point() -> AbstractContextManager[object]:
    """One file too many."""
    listed, needs_wal = collector.list_wal, Referenced.needs_wal

    async def list_one_more(store: ObjectStore, paths: Paths, before: int) -> list[WalFile]:
        return await listed(store, paths, before + 1)

    def needs(self: Referenced, id: int) -> bool:
        return id != self.newest.replay_after_wal_id and needs_wal(self, id)

    both = ExitStack()
    both.enter_context(mock.patch.object(collector, "list_wal", list_one_more))
    both.enter_context(mock.patch.object(Referenced, "needs_wal", needs))
    return both


def boundary_advanced_after_the_deletion() -> AbstractContextManager[object]:
    advance = "await objects.advance_boundary(max(numbers))"
    right = f"    {advance}\n        await objects.delete(numbers)"
    wrong = f"    await self._files.store.delete(map(objects.key, numbers))\n        {advance}"
    return edited(gc.Collector, "_finish_versions", right, wrong)


def clones_let_go_before_their_parents() -> AbstractContextManager[object]:
    """A crash in between leaves a checkpoint in the parent that nobody will ever delete."""

    async def child_first(self: gc.Collector, task: Task, look: gc.Look) -> KindReport:
        referenced = await self._states.referenced(look.newest)
        parents = detachable(look.newest.value, referenced.attached)
        finals = {parent.final_checkpoint_id for parent in parents if parent.final_checkpoint_id is not None}
        if finals:
            await self._files.manifests.update(lambda old: detached(old, finals))
            await release_parents(self._files, parents)
        return self._done(Kind.DETACH, task, look, Found())

    return mock.patch.object(gc.Collector, "_detach", child_first)


def grace_ignored() -> AbstractContextManager[object]:
    async def at_once(files: DatabaseFiles, newest: Manifest, task: Task) -> tuple[str | None, str]:
        return None, "it is destroyed"

    return mock.patch.object(destroyed, "_judge", at_once)


@contextmanager
def fences_collected() -> Iterator[None]:
    """As if they were files whose rows are all in SSTs. A writer that looks before it acknowledges does not need them."""
    fence = "file.is_fence != (kind is Kind.FENCES) or referenced"
    with acknowledged_without_a_look(), edited(collector, "replayed_files", fence, "referenced"):
        yield
