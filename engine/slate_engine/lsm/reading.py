"""Snapshots of databases that somebody else writes: their newest state, or a checkpoint of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from slate_engine.errors import InvalidError
from slate_engine.format.filters import Bloom
from slate_engine.lsm.cache import Cache
from slate_engine.lsm.levels import Levels
from slate_engine.lsm.log_end import LogEnd
from slate_engine.lsm.paths import Paths
from slate_engine.lsm.replay import WalTruncated, replay, wal_frontier
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.tables import DEFAULT_POLICIES, Tables
from slate_engine.lsm.visible import MergeOperator
from slate_engine.runtime import Runtime
from slate_engine.state.checkpoints import check_usable
from slate_engine.state.commit import NothingStored
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import ManifestStore
from slate_engine.store.protocol import NotFound, ObjectStore


@dataclass
class DatabaseFiles:
    """A database at ``path`` of a store, as far as it can be read without taking part in it."""

    store: ObjectStore
    path: str
    runtime: Runtime
    operator: MergeOperator | None = None
    policies: Sequence[Bloom] = DEFAULT_POLICIES
    wal_store: ObjectStore | None = None
    cache: Cache | None = None
    """What has been read is kept here; databases may share one."""
    caretaker: bool = False
    """Whether to go on with the next database at the path, once this one is deleted. Other processes end with theirs."""
    tables: Tables = field(init=False)
    manifests: ManifestStore = field(init=False)

    def __post_init__(self) -> None:
        self.paths = Paths(self.path.strip("/"))
        self.tables = Tables(self.store, self.paths, self.runtime, cache=self.cache, policies=self.policies)
        self.look_afresh()

    def look_afresh(self) -> None:
        """Forget what was seen of the database so far."""
        self.manifests = ManifestStore.open(
            self.store, self.paths.root, self.runtime, caretaker=self.caretaker, log_store=self.wal_store
        )

    @property
    def log_store(self) -> ObjectStore:
        """Where the WAL files are."""
        return self.wal_store or self.store

    def log_end(self, known: Manifest | None = None) -> LogEnd:
        """For looks at the end of the log; ``known`` is a manifest that was read before."""
        return LogEnd(self.log_store, self.paths, self.runtime, known)

    async def check_log(self, manifest: Manifest) -> None:
        """Raises :class:`WalTruncated` if a file is missing that the newest manifest needs. ``manifest`` was the newest a
        moment ago. It takes a listing, and none if ``manifest`` needs no file."""
        end = self.log_end(manifest)
        while manifest.needed_wal_ids:
            last = await wal_frontier(self.log_store, self.paths, manifest.replay_after_wal_id)
            if last >= manifest.wal_id_last_seen:
                return
            manifest = (await self.manifests.read_latest()).value
            if await end.is_at(last, manifest):
                return

    async def log_trouble(self, manifest: Manifest) -> str | None:
        """Why the log cannot be read, if a file of it is missing: what :meth:`check_log` raises, in words."""
        try:
            await self.check_log(manifest)
        except WalTruncated as lost:
            return lost.message
        return None

    async def manifest(self) -> Manifest:
        """The newest manifest, for one who wants to read."""
        found = await self.manifests.latest()
        if found is None:
            raise NothingStored(
                f"there is no database at {self.path!r} in {self.store.url}: no manifest under {self.paths.manifest}/"
            )
        return found.value

    async def latest(self) -> Snapshot:
        """The newest state, with what is only in the WAL yet."""
        manifest = await self.manifest()
        end = self.log_end(manifest)
        while True:
            last = await wal_frontier(self.log_store, self.paths, manifest.replay_after_wal_id)
            # Looked at after the log: files that were flushed and collected before we listed it look like its end.
            manifest = await self.manifest()
            check_usable(manifest)
            if not await end.is_at(last, manifest):
                continue
            try:
                return await self.at(manifest, last)
            except WalTruncated as lost:
                # Slow readers may be overtaken: what they were about to read was flushed, and collected.
                manifest = await self.manifest()
                if manifest.replay_after_wal_id < lost.id:
                    raise

    async def checkpoint(self, wanted: UUID | str) -> Snapshot:
        """The state that a checkpoint keeps, given by its id or its name."""
        manifest = await self.manifest()
        found = [each for each in manifest.checkpoints if wanted in (each.id, str(each.id), each.name)]
        if len(found) != 1:
            known = ", ".join(
                f"{each.id} ({each.name})" if each.name else str(each.id) for each in manifest.checkpoints
            )
            what = "no checkpoint" if not found else f"{len(found)} checkpoints"
            raise InvalidError(f"database {self.path!r} has {what} {str(wanted)!r}; it has: {known or 'none'}")
        try:
            kept = await self.manifests.read(found[0].manifest_id)
        except NotFound:
            raise InvalidError(
                f"checkpoint {wanted} refers to manifest {found[0].manifest_id}, which does not exist any more"
            ) from None
        return await self.at(kept, kept.wal_id_last_seen)

    async def at(self, manifest: Manifest, last_wal_id: int) -> Snapshot:
        """The state of ``manifest`` with its WAL up to ``last_wal_id``."""
        wal_ids = range(manifest.replay_after_wal_id + 1, last_wal_id + 1)
        replayed = await replay(self.log_store, self.paths, wal_ids, manifest.last_l0_seq, self.runtime)
        rows = replayed.rows()
        newest = max(manifest.last_l0_seq, int(rows.seq.max()) if len(rows) else 0)
        opener = self.tables.opener(manifest)
        levels = Levels(manifest.trees)
        return Snapshot((replayed,), levels, opener, newest, self.operator, runtime=self.runtime)
