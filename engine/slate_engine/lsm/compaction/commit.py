"""How a coordinator takes over, and how the results of jobs become part of the database.

The order is SlateDB's, and each step leaves a sound database behind. First a manifest that only adds a checkpoint, so that
the inputs outlive the readers that still use them; then the manifest with the outputs instead of the inputs; then the book,
in which the jobs have ended. Until the last step the book protects the outputs from garbage collection.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from slate_engine.errors import DatabaseDeleted, InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction import book
from slate_engine.lsm.compaction.result import has_result, movable, with_drain, with_move, with_result
from slate_engine.lsm.compaction.specs import find_flaw
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import uuid4
from slate_engine.state.checkpoints import NotInitialized, with_checkpoint
from slate_engine.state.commit import NothingStored, Versioned
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, DrainSpec, TieredSpec
from slate_engine.state.epochs import claim_compactor
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import CompactionsStore
from slate_engine.state.tombstone import check_not_deleted

log = logging.getLogger(__name__)

COMPLETED, FAILED = CompactionStatus.COMPLETED, CompactionStatus.FAILED


@dataclass(frozen=True)
class Claim:
    """The epoch of a coordinator: all that have a smaller one are fenced."""

    epoch: int
    path: str = ""

    def check(self, manifest: Manifest) -> Manifest:
        check_not_deleted(manifest, self.path)
        book.check_epoch(manifest.compactor_epoch, self.epoch, "the manifest")
        return manifest

    def check_book(self, found: Compactions) -> Compactions:
        book.check_epoch(found.compactor_epoch, self.epoch, "the book of compactions")
        return found


async def take_epoch(files: DatabaseFiles, compactions: CompactionsStore) -> Claim:
    """Become the coordinator of a database: of two that try, the later one is."""

    def claim_epoch(old: Manifest) -> Manifest:
        if not old.initialized:
            raise NotInitialized
        return claim_compactor(old)

    epoch = (await files.manifests.update(claim_epoch)).value.compactor_epoch
    if await compactions.latest() is None:
        await compactions.create_first(Compactions())
        await keep_if_there(files, compactions.objects.key(1))
    await compactions.update(lambda old: book.take_over(old, epoch))
    claim = Claim(epoch, files.path)
    await compactions.update(lambda old: book.begin_again(claim.check_book(old)))
    return claim


async def keep_if_there(files: DatabaseFiles, key: str) -> None:
    """Delete what was just created beside the manifests, if the database was deleted meanwhile; and say so."""
    try:
        check_not_deleted((await files.manifests.read_latest()).value, files.path)
    except (DatabaseDeleted, NothingStored):
        await files.store.delete([key])
        raise


def is_local(job: Compaction, manifest: Manifest, *, trivial_moves: bool) -> bool:
    """Whether a job needs no worker: a drain, and a merge of what does not overlap, if that is wanted."""
    if isinstance(job.spec, DrainSpec):
        return True
    return trivial_moves and find_flaw(job, manifest, Compactions()) is None and movable(manifest, job.spec) is not None


class _Unprotected(InvalidError):
    """The checkpoint that keeps the inputs is gone again."""


class Commits:
    """The manifests of one coordinator."""

    def __init__(self, files: DatabaseFiles, claim: Claim, lifetime_ms: int) -> None:
        self._files = files
        self._runtime = files.runtime
        self._claim = claim
        self._lifetime_ms = lifetime_ms

    async def commit(
        self, jobs: Sequence[Compaction], found: Compactions
    ) -> tuple[Versioned[Manifest], dict[Ulid, CompactionStatus]]:
        """Put the results of these jobs into the manifest; gives it, and how each job has ended."""
        while True:
            newest = await self._files.manifests.read_latest()
            manifest, outcome = _applied(self._claim.check(newest.value), jobs, found)
            if manifest is newest.value:
                return newest, outcome
            with contextlib.suppress(_Unprotected):
                return await self._replace_inputs(jobs, found)

    async def _replace_inputs(
        self, jobs: Sequence[Compaction], found: Compactions
    ) -> tuple[Versioned[Manifest], dict[Ulid, CompactionStatus]]:
        protection = uuid4(self._runtime)
        outcome: dict[Ulid, CompactionStatus] = {}
        await self._files.manifests.update(lambda old: self._protected(old, protection))
        committed = await self._files.manifests.update(
            lambda old: self._committed(old, protection, jobs, found, outcome)
        )
        return committed, outcome

    def _protected(self, old: Manifest, id: UUID) -> Manifest:
        now_ms = self._runtime.now_ms()
        return with_checkpoint(self._claim.check(old), id=id, now_ms=now_ms, lifetime_ms=self._lifetime_ms)

    def _committed(
        self,
        old: Manifest,
        protection: UUID,
        jobs: Sequence[Compaction],
        found: Compactions,
        outcome: dict[Ulid, CompactionStatus],
    ) -> Manifest:
        checkpoint = self._claim.check(old).checkpoint(protection)
        if checkpoint is None or checkpoint.is_expired(self._runtime.now_ms() / 1000):
            raise _Unprotected("the inputs of a compaction are to be kept for their readers, and are not any more")
        manifest, ends = _applied(old, jobs, found)
        outcome.update(ends)
        return manifest


def _applied(
    manifest: Manifest, jobs: Sequence[Compaction], found: Compactions
) -> tuple[Manifest, dict[Ulid, CompactionStatus]]:
    """The manifest with all results that fit it, and how each job ends by that."""
    outcome: dict[Ulid, CompactionStatus] = {}
    for job in jobs:
        if job.status is CompactionStatus.COMPACTED and has_result(manifest, job):
            outcome[job.id] = COMPLETED
            continue
        flaw = find_flaw(job, manifest, found)
        if flaw is not None:
            log.warning("compaction %s has failed: %s", job.id, flaw)
        outcome[job.id] = COMPLETED if flaw is None else FAILED
        if flaw is None:
            manifest = _with(manifest, job)
    return manifest, outcome


def _with(manifest: Manifest, job: Compaction) -> Manifest:
    if job.status is CompactionStatus.COMPACTED:
        return with_result(manifest, job)
    if isinstance(job.spec, TieredSpec):
        return with_move(manifest, job.spec)
    return with_drain(manifest, job.spec)
