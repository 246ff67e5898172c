"""One collector for one database: each pass looks for all kinds of garbage that are due, in order, and deletes them.

A pass goes by one look at the state: the compactor's book, and then the newest manifest. What no state needed at that time
none will ever need, because every later one is made from these; so there is no hurry in deleting it, and no second look.

What a pass has seen is remembered. As long as neither the manifest nor the book has changed, and nothing that was too young
has come of age, there can be no new garbage but orphans, and for these everything is listed now and then. So a pass over a
database in which nothing happens costs its look, and no more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from slate_engine.admin.parents import neighbour, newest_or_none, release_parents
from slate_engine.errors import DatabaseDeleted, Error
from slate_engine.gc.compacted import Cutoff, unseen_ssts
from slate_engine.gc.destroyed import collect_destroyed, delete_lone_boundaries
from slate_engine.gc.inventory import Inventory
from slate_engine.gc.leftovers import Leftovers
from slate_engine.gc.numbered import number_of, old_versions
from slate_engine.gc.options import GcOptions, Kind, Task
from slate_engine.gc.references import States
from slate_engine.gc.report import Deleted, Found, Garbage, KindReport, Report, unheard
from slate_engine.gc.wal import WalFile, list_wal, replayed_files
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.checkpoints import without_expired_checkpoints
from slate_engine.state.commit import StateStore, Versioned
from slate_engine.state.compactions import Compactions
from slate_engine.state.detach import detachable, detached
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import CompactionsStore, ManifestStore
from slate_engine.state.tombstone import Tombstone, show_second
from slate_engine.store.boundary import BoundaryLost
from slate_engine.store.numbered import NumberedObjects
from slate_engine.store.protocol import ObjectStore

log = logging.getLogger(__name__)

BATCH = 1000
"""Objects in one request to delete, as many as S3 takes."""


@dataclass
class Look:
    """What one pass goes by: the book, the newest manifest, and what more of the database it has seen on its way."""

    now_ms: int
    book: Versioned[Compactions] | None
    newest: Versioned[Manifest]
    wal: list[WalFile] | None = field(default=None)

    def seen(self, kind: Kind) -> tuple[int, ...]:
        """What has to change before there can be new garbage of this kind."""
        book_id = 0 if self.book is None else self.book.id
        return {Kind.COMPACTIONS: (book_id,), Kind.COMPACTED: (self.newest.id, book_id)}.get(kind, (self.newest.id,))


@dataclass(frozen=True)
class Settled:
    """A kind of which all garbage was collected, or told of, when the state was ``seen``."""

    seen: tuple[int, ...]
    ripe_ms: int | None
    listed_ms: int


class Collector:
    """Collects the garbage of ``files``; :meth:`collect` is one pass. ``deleted`` hears of the progress."""

    def __init__(self, files: DatabaseFiles, options: GcOptions | None = None, deleted: Deleted = unheard) -> None:
        self._files = files
        self._options = options or GcOptions()
        self._deleted = deleted
        self._runtime = files.runtime
        self._wal_store = files.log_store
        self._books = CompactionsStore.open(files.store, files.paths.root, files.runtime)
        # A reader of its own, lest the manifests of checkpoints push the newest one out of memory.
        self._states = States(ManifestStore.open(files.store, files.paths.root, files.runtime))
        self._inventory = Inventory(files.store, files.paths)
        self._leftovers = Leftovers(files)
        self._settled: dict[Kind, Settled] = {}
        self._collectors: dict[Kind, Callable[[Task, Look], Coroutine[Any, Any, KindReport]]] = {
            Kind.MANIFESTS: self._manifests,
            Kind.WAL: lambda task, look: self._wal(Kind.WAL, task, look),
            Kind.FENCES: lambda task, look: self._wal(Kind.FENCES, task, look),
            Kind.COMPACTED: self._compacted,
            Kind.COMPACTIONS: self._compactions,
            Kind.DETACH: self._detach,
            Kind.TWO_PHASE: self._two_phase,
        }

    async def collect(self, kinds: Collection[Kind] = tuple(Kind)) -> Report:
        """One pass. What goes wrong with one kind is reported, and does not keep the others from being collected."""
        path = self._files.path
        book, newest = await self._book_and_manifest(kinds)
        if newest is None:
            if Kind.DESTROYED in kinds and (task := self._options.destroyed) is not None and not task.dry_run:
                await delete_lone_boundaries(self._files)
            return Report(path, gone=True)
        reports: list[KindReport] = []
        waiting = None
        if Kind.DESTROYED in kinds and Tombstone.of(newest.value) is not None:
            fate = await collect_destroyed(self._files, newest.value, self._options.destroyed, self._deleted)
            if fate.waiting is None:
                return Report(path, (fate.report,), gone=not fate.report.dry_run)
            reports, waiting = [fate.report], fate.waiting
        look = Look(self._runtime.now_ms(), book, newest)
        if Kind.CHECKPOINTS in kinds and (task := self._options.checkpoints) is not None:
            reports.append(await self._guarded(Kind.CHECKPOINTS, task, look, self._checkpoints))
        for kind, collect in self._collectors.items():
            if kind in kinds and (task := self._options.task(kind)) is not None:
                reports.append(await self._kind(kind, task, look, collect))
        return Report(path, tuple(reports), waiting=waiting)

    async def _book_and_manifest(
        self, kinds: Collection[Kind]
    ) -> tuple[Versioned[Compactions] | None, Versioned[Manifest] | None]:
        """In this order: see :mod:`slate_engine.gc.compacted`."""
        wanted = Kind.COMPACTED in kinds or Kind.COMPACTIONS in kinds
        book = None
        try:
            book = await newest_or_none(self._books) if wanted else None
            return book, await newest_or_none(self._files.manifests)
        except (BoundaryLost, DatabaseDeleted) as loss:
            # A loss, unless somebody has begun to delete all of it, and died before he came to the manifests; or has come
            # to the end, and what is there now was on its way until then.
            newest = await newest_or_none(neighbour(self._files, self._files.path).manifests)
            if newest is None or (isinstance(loss, DatabaseDeleted) and Tombstone.of(newest.value) is None):
                return book, None  # the deletion has ended since, or there is another database by now
            if Tombstone.of(newest.value) is None:
                raise
            return book, newest

    async def _kind(
        self, kind: Kind, task: Task, look: Look, collect: Callable[[Task, Look], Coroutine[Any, Any, KindReport]]
    ) -> KindReport:
        if self._is_settled(kind, look):
            return KindReport(kind, dry_run=task.dry_run)
        return await self._guarded(kind, task, look, collect)

    async def _guarded(
        self, kind: Kind, task: Task, look: Look, collect: Callable[[Task, Look], Coroutine[Any, Any, KindReport]]
    ) -> KindReport:
        try:
            return await collect(task, look)
        except Error as error:
            log.error("garbage of kind %s of %r was not collected: %s", kind.value, self._files.path, error)
            return KindReport(kind, dry_run=task.dry_run, error=error)

    # --- one kind after the other --------------------------------------------------------------------------------

    async def _checkpoints(self, task: Task, look: Look) -> KindReport:
        """Expired ones leave the manifest by a change of it: one that is prolonged at the same moment stays. The rest of
        the pass goes by the state without them; if it may change nothing at all, as if they were gone."""

        def change(old: Manifest) -> Manifest:
            return without_expired_checkpoints(old, now_ms=look.now_ms)

        before = look.newest.value
        if change(before) is before:
            return KindReport(Kind.CHECKPOINTS, dry_run=task.dry_run)
        if not task.dry_run:
            look.newest = await self._files.manifests.update(change)
        elif self._options.only_dry:
            look.newest = Versioned(look.newest.id + 1, change(before))
        after = change(before) if task.dry_run else look.newest.value
        garbage = [
            Garbage(
                Kind.CHECKPOINTS, str(each.id), 0, f"{each.name or 'it'} expired at {show_second(each.expire_time_s)}"
            )
            for each in before.checkpoints
            if each.expire_time_s is not None and after.checkpoint(each.id) is None
        ]
        return KindReport(Kind.CHECKPOINTS, garbage, task.dry_run)

    async def _manifests(self, task: Task, look: Look) -> KindReport:
        held = {checkpoint.manifest_id for checkpoint in look.newest.value.checkpoints}
        objects = self._versions(self._files.manifests, "manifest")
        found = old_versions(Kind.MANIFESTS, await objects.list(), look.newest.id, held, task, look.now_ms)
        return await self._finish_versions(Kind.MANIFESTS, task, look, found, objects)

    async def _compactions(self, task: Task, look: Look) -> KindReport:
        if look.book is None:
            return self._done(Kind.COMPACTIONS, task, look, Found())
        objects = self._versions(self._books, "compactions")
        found = old_versions(Kind.COMPACTIONS, await objects.list(), look.book.id, (), task, look.now_ms)
        return await self._finish_versions(Kind.COMPACTIONS, task, look, found, objects)

    def _versions(self, states: StateStore[Any], name: str) -> NumberedObjects:
        if self._options.boundary_files:
            return states.objects
        # Here a writer must not stall for longer than the minimum age.
        return NumberedObjects(self._files.store, self._files.paths.under(name), name, None, self._runtime)

    async def _finish_versions(
        self, kind: Kind, task: Task, look: Look, found: Found, objects: NumberedObjects
    ) -> KindReport:
        if found.garbage and not task.dry_run:
            numbers = [number_of(each) for each in found.garbage]
            if self._options.boundary_files:
                await objects.advance_boundary(max(numbers))
            await objects.delete(numbers)
            self._deleted(kind, len(numbers))
        return self._done(kind, task, look, found)

    async def _wal(self, kind: Kind, task: Task, look: Look) -> KindReport:
        if look.wal is None:
            look.wal = await list_wal(self._wal_store, self._files.paths, look.newest.value.replay_after_wal_id)
        referenced = await self._states.referenced(look.newest)
        found = replayed_files(kind, look.wal, referenced, task, look.now_ms)
        await self._delete(self._wal_store, task, found.garbage)
        return self._done(kind, task, look, found)

    async def _compacted(self, task: Task, look: Look) -> KindReport:
        referenced = await self._states.referenced(look.newest)
        await self._inventory.refresh(look.now_ms, self._options.sweep_interval)
        cutoff = Cutoff.of(look.now_ms, task, None if look.book is None else look.book.value, look.newest.value)
        unseen = unseen_ssts(self._inventory, referenced, cutoff, self._files.paths)
        await self._delete(self._files.store, task, unseen.found.garbage)
        if not task.dry_run:
            self._inventory.forget(unseen.ids)
        return self._done(Kind.COMPACTED, task, look, unseen.found)

    async def _detach(self, task: Task, look: Look) -> KindReport:
        """From the parent first: a crash in between leaves an entry that is detached the next time, and not a checkpoint
        that nobody ever deletes."""
        if all(len(external.sst_ids) for external in look.newest.value.external_dbs):
            return self._done(Kind.DETACH, task, look, Found())
        referenced = await self._states.referenced(look.newest)
        parents = detachable(look.newest.value, referenced.attached)
        if parents and not task.dry_run:
            await release_parents(self._files, parents)
            finals = {parent.final_checkpoint_id for parent in parents if parent.final_checkpoint_id is not None}
            await self._files.manifests.update(lambda old: detached(old, finals))
        garbage = [
            Garbage(
                Kind.DETACH,
                parent.path,
                0,
                f"no state shows its SSTs, which checkpoint {parent.final_checkpoint_id} keeps",
            )
            for parent in parents
        ]
        return self._done(Kind.DETACH, task, look, Found(garbage))

    async def _two_phase(self, task: Task, look: Look) -> KindReport:
        return await self._leftovers.collect(task, look.now_ms, self._options.sweep_interval)

    async def _delete(self, store: ObjectStore, task: Task, garbage: Sequence[Garbage]) -> None:
        if task.dry_run:
            return
        for start in range(0, len(garbage), BATCH):
            batch = garbage[start : start + BATCH]
            await store.delete([each.name for each in batch])
            self._deleted(batch[0].kind, len(batch))

    # --- what need not be looked at again ------------------------------------------------------------------------

    def _is_settled(self, kind: Kind, look: Look) -> bool:
        settled = self._settled.get(kind)
        if settled is None or settled.seen != look.seen(kind):
            return False
        if settled.ripe_ms is not None and look.now_ms >= settled.ripe_ms:
            return False
        return 0 <= look.now_ms - settled.listed_ms < self._options.sweep_interval * 1000

    def _done(self, kind: Kind, task: Task, look: Look, found: Found) -> KindReport:
        self._settled[kind] = Settled(look.seen(kind), found.ripe_ms, look.now_ms)
        return KindReport(kind, found.garbage, task.dry_run)


async def collect_once(files: DatabaseFiles, options: GcOptions | None = None, deleted: Deleted = unheard) -> Report:
    """One pass over a database by a collector that has seen nothing before."""
    return await Collector(files, options, deleted).collect()
