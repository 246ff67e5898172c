"""The collector's safety mechanisms, switched off one at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from slate_engine.gc import collector, compacted
from slate_engine.gc.options import GcOptions, Kind, Task
from slate_engine.gc.references import Referenced, States
from slate_engine.gc.report import Found
from slate_engine.gc.wal import WalFile
from slate_engine.lsm.paths import Paths
from slate_engine.state.commit import Versioned
from slate_engine.state.manifest import Manifest
from slate_engine.store.numbered import Entry
from slate_engine.store.protocol import ObjectStore
from tests.simulation import actors


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


def fences_collected() -> AbstractContextManager[object]:
    def with_fences(**options: Any) -> GcOptions:
        return GcOptions(**options, fences=Task(min_age=1.0))

    return mock.patch.object(actors, "GcOptions", with_fences)
