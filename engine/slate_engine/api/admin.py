"""Looking into a database, and caring for it, without writing to it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TypeVar

from slate_engine.admin import checkpoints, copying, destroying, restoring
from slate_engine.api import arguments
from slate_engine.api.building import Builder, Unmade, instance
from slate_engine.api.checkpoint_ids import checkpoint_id
from slate_engine.api.clones import CloneBuilder, database_files
from slate_engine.api.collecting import collection_options
from slate_engine.api.compactions import Compaction, CompactionSpec, CompactorStateView, VersionedCompactions
from slate_engine.api.db_builder import database_path
from slate_engine.api.inspection import (
    checkpoint_record,
    compaction_record,
    compactions_record,
    engine_spec,
    manifest_record,
)
from slate_engine.api.object_store import ObjectStore
from slate_engine.api.options import CheckpointOptions, CloneSourceSpec, GarbageCollectorOptions
from slate_engine.api.records import Checkpoint, CheckpointCreateResult, VersionedManifest
from slate_engine.api.wheel_errors import as_the_wheel_has_them
from slate_engine.errors import DataError, InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.gc.collector import collect_once
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state import compactions
from slate_engine.state.checkpoints import CheckpointMissing
from slate_engine.state.commit import NothingStored, StateStore, Versioned
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import CompactionsStore, ManifestStore
from slate_engine.store.protocol import NotFound

T = TypeVar("T")

_GREATEST_ID = 2**64 - 1
_TIMES = range(-8_334_601_228_800, 8_210_266_876_800)
"""The seconds that the original's calendar can show."""


class Admin(Unmade):
    """The database at one path of a store, whether or not somebody writes it at the moment."""

    _path: str
    _store: ObjectStore
    _wal_store: ObjectStore | None
    _files: DatabaseFiles
    _compactions: CompactionsStore

    @classmethod
    def of(cls, path: str, store: ObjectStore, wal_store: ObjectStore | None = None) -> Admin:
        made = cls.__new__(cls)
        made._path, made._store, made._wal_store = path, store, wal_store
        made._look_afresh()
        return made

    def _look_afresh(self) -> None:
        """Forget what was seen of the database so far."""
        self._files = database_files(self._path, self._store, self._wal_store)
        self._compactions = CompactionsStore.open(self._store.store, self._path, self._store.runtime, caretaker=True)

    @property
    def _manifests(self) -> ManifestStore:
        return self._files.manifests

    # --- manifests and compactions -------------------------------------------------------------------------------

    async def read_manifest(self, id: int | None) -> VersionedManifest | None:
        """The manifest with this number, or the newest; None if there is none."""
        found = await _read(self._manifests, id)
        return None if found is None else manifest_record(found.id, found.value)

    async def list_manifests(self, _from: int | None, to: int | None) -> list[VersionedManifest]:
        """The manifests from number ``_from`` on and before ``to``."""
        return [manifest_record(each.id, each.value) for each in await _list(self._manifests, _from, to)]

    async def read_compactions(self, id: int | None) -> VersionedCompactions | None:
        """The compactor's state with this number, or the newest; None if there is none."""
        found = await _read(self._compactions, id)
        return None if found is None else compactions_record(found.id, found.value)

    async def list_compactions(self, _from: int | None, to: int | None) -> list[VersionedCompactions]:
        """The states of the compactor from number ``_from`` on and before ``to``."""
        return [compactions_record(each.id, each.value) for each in await _list(self._compactions, _from, to)]

    async def read_compaction(self, compaction_id: str, compactions_id: int | None) -> Compaction | None:
        """One compaction, as the compactor's state with this number (or the newest) has it."""
        id = _ulid(compaction_id)
        found = await _read(self._compactions, compactions_id)
        job = None if found is None else found.value.job(id)
        return None if job is None else compaction_record(job)

    async def read_compactor_state_view(self) -> CompactorStateView:
        """What a compactor would decide on now."""
        state = await self.read_compactions(None)
        newest = await self._existing()
        return CompactorStateView(compactions=state, manifest=manifest_record(newest.id, newest.value))

    async def submit_compaction(self, spec: CompactionSpec) -> Compaction:
        """Ask the database's compactor for a compaction. Whether it can be done is for the compactor to judge."""
        job = compactions.Compaction(Ulid.new(self._store.runtime), engine_spec(spec))
        try:
            await self._compactions.update(lambda old: old if old.job(job.id) is not None else old.with_job(job))
        except NothingStored:
            raise DataError(
                f"Data error: invalid DB state error: no compactor has run on {self._path!r} yet, so nobody would take the "
                "request; start one first"
            ) from None
        return compaction_record(job)

    # --- checkpoints ---------------------------------------------------------------------------------------------

    async def list_checkpoints(self, name_filter: str | None) -> list[Checkpoint]:
        """All checkpoints, or those of this name; the empty name is that of those without one."""
        found = (await self._existing()).value.checkpoints
        if name_filter is not None:
            name = arguments.text(name_filter, "name_filter") or None
            found = tuple(each for each in found if (each.name or None) == name)
        return [checkpoint_record(each) for each in found]

    async def create_detached_checkpoint(self, options: CheckpointOptions) -> CheckpointCreateResult:
        """A checkpoint of the newest manifest, or of what another one keeps. A writer records how far its log goes when it
        flushes and when it closes. What it has written since is not in the checkpoint; ``Db.create_checkpoint`` includes it.
        After a kill, open the database and close it first."""
        wanted = instance(options, CheckpointOptions, "options")
        engine_options = checkpoints.CheckpointOptions(
            lifetime_ms=None if wanted.lifetime_ms is None else arguments.unsigned(wanted.lifetime_ms, "lifetime_ms"),
            source=None if wanted.source is None else checkpoint_id(wanted.source),
            name=None if wanted.name is None else arguments.text(wanted.name, "name"),
        )
        with self._as_the_wheel_has_them():
            made = await checkpoints.create_checkpoint(self._files, engine_options)
        return CheckpointCreateResult(id=str(made.id), manifest_id=made.manifest_id)

    async def refresh_checkpoint(self, id: str, lifetime_ms: int | None) -> None:
        """The checkpoint lives for so long from now on, or for ever."""
        wanted = checkpoint_id(id)
        lifetime = None if lifetime_ms is None else arguments.unsigned(lifetime_ms, "lifetime_ms")
        with self._as_the_wheel_has_them():
            try:
                await checkpoints.refresh_checkpoint(self._files, wanted, lifetime)
            except CheckpointMissing as missing:
                raise DataError(f"Data error: invalid DB state error: {missing}") from missing

    async def delete_checkpoint(self, id: str) -> None:
        """Give up what the checkpoint keeps. Nothing happens if there is none."""
        wanted = checkpoint_id(id)
        with self._as_the_wheel_has_them():
            await checkpoints.delete_checkpoint(self._files, wanted)

    # --- time ----------------------------------------------------------------------------------------------------

    async def get_sequence_for_timestamp(self, timestamp_secs: int, round_up: bool) -> int | None:
        """The sequence number that had been written at this unix time, as far as it is known; to the next known one before
        or after."""
        time = arguments.signed(timestamp_secs, "timestamp_secs")
        if time not in _TIMES:
            raise InvalidError(f"invalid timestamp seconds: {time}")
        newest = await self._manifests.latest()
        return None if newest is None else newest.value.sequence_tracker.seq_at(time, round_up=bool(round_up))

    async def get_timestamp_for_sequence(self, seq: int, round_up: bool) -> int | None:
        """The unix time at which this sequence number was written, likewise."""
        wanted = arguments.unsigned(seq, "seq")
        newest = await self._manifests.latest()
        return None if newest is None else newest.value.sequence_tracker.time_of(wanted, round_up=bool(round_up))

    # --- garbage -------------------------------------------------------------------------------------------------

    async def run_gc_once(self, options: GarbageCollectorOptions | None) -> None:
        """Collect garbage once: all kinds by default, and only those that are given if any options are. If one kind fails,
        that is logged, as in the original, and the others are collected; :mod:`slate_engine.gc` says more."""
        wanted = collection_options(options)
        if wanted is not None:
            await collect_once(self._files, wanted)

    # --- whole databases -----------------------------------------------------------------------------------------

    def create_clone_builder_from_source(self, source: CloneSourceSpec) -> CloneBuilder:
        """A builder that makes this path a clone of ``source``."""
        return CloneBuilder.of(source, self._path, self._store, self._wal_store)

    async def delete_db(self, confirm: bool) -> list[str]:
        """Delete the database for good, and return the names of its objects; without ``confirm`` only these. Where there is
        no database, nothing happens. Unlike the original's, it refuses while checkpoints (those of clones, too) need it."""
        if not confirm:
            return await destroying.objects_of(self._files)
        try:
            return await destroying.destroy_hard(self._files)
        except NothingStored:
            if await destroying.objects_of(self._files):
                raise
            return []
        finally:
            self._look_afresh()

    async def destroy(self, soft: bool) -> None:
        """Take the database out of use: for good, or softly, so that all of it stays until a collector's grace is over."""
        with self._as_the_wheel_has_them():
            await (destroying.destroy_softly(self._files) if soft else destroying.destroy_hard(self._files))
        self._look_afresh()

    async def undelete(self) -> None:
        """Bring a softly destroyed database back as it was."""
        with self._as_the_wheel_has_them():
            await destroying.undelete(self._files)

    async def restore(self, checkpoint: str) -> CheckpointCreateResult:
        """Make the state of a checkpoint the present one, in place. Returns the checkpoint that keeps what was there."""
        with self._as_the_wheel_has_them():
            done = await restoring.restore(self._files, checkpoint_id(checkpoint))
        return CheckpointCreateResult(id=str(done.kept), manifest_id=done.kept_manifest_id)

    async def copy_to(self, path: str, object_store: ObjectStore | None = None, checkpoint: str | None = None) -> None:
        """Make a database at ``path``, of this store or of another, that begins like this one and shares nothing with it."""
        wanted = None if checkpoint is None else checkpoint_id(checkpoint)
        if object_store is None:
            target = database_files(database_path(path), self._store, self._wal_store)
        else:
            target = database_files(database_path(path), instance(object_store, ObjectStore, "object_store"))
        with self._as_the_wheel_has_them():
            await copying.copy_database(self._files, target, wanted)

    async def _existing(self) -> Versioned[Manifest]:
        with self._as_the_wheel_has_them():
            return await self._manifests.read_latest()

    def _as_the_wheel_has_them(self) -> AbstractContextManager[None]:
        return as_the_wheel_has_them(self._path, self._store.store.url)


class AdminBuilder(Builder):
    """An administrator's view of the database at ``path`` of a store."""

    def __init__(self, path: str, object_store: ObjectStore) -> None:
        self._path: str = database_path(path)
        self._store: ObjectStore = instance(object_store, ObjectStore, "object_store")
        self._wal_store: ObjectStore | None = None

    def with_seed(self, seed: int) -> None:
        """Checked and otherwise without effect: chance comes from the object store's runtime, which a test can replace."""
        self._check_unused()
        arguments.unsigned(seed, "seed")

    def with_wal_object_store(self, wal_object_store: ObjectStore) -> None:
        """Where the write-ahead log is, if not with the rest."""
        self._check_unused()
        self._wal_store = instance(wal_object_store, ObjectStore, "wal_object_store")

    def build(self) -> Admin:
        self._consume()
        return Admin.of(self._path, self._store, self._wal_store)


async def _read(store: StateStore[T], id: int | None) -> Versioned[T] | None:
    if id is None:
        return await store.latest()
    return await _or_none(store, arguments.unsigned(id, "id"))


async def _list(store: StateStore[T], first: int | None, before: int | None) -> list[Versioned[T]]:
    start = 0 if first is None else arguments.unsigned(first, "_from")
    stop = _GREATEST_ID if before is None else arguments.unsigned(before, "to") - 1
    if start > stop:
        return []
    # One that a collector deletes between the listing and the reading is passed over.
    found = [await _or_none(store, entry.id) for entry in await store.objects.list(start, stop)]
    return [each for each in found if each is not None]


async def _or_none(store: StateStore[T], id: int) -> Versioned[T] | None:
    try:
        return Versioned(id, await store.read(id))
    except NotFound:
        return None


def _ulid(text: str) -> Ulid:
    found = arguments.text(text, "compaction_id")
    try:
        return Ulid.parse(found.upper())
    except ValueError:
        reason = "invalid length" if len(found) != 26 else "invalid character"
        raise InvalidError(f"invalid compaction_id ULID: {reason}: {found!r}") from None
