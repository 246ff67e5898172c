"""What must hold after every single change of the bucket, whoever made it.

* The numbers of manifests and of compactors' books go up by one. Epochs, sequence numbers, replay points and boundaries
  never go back. A job goes from step to step and from hand to hand as the protocol says (:mod:`tests.simulation.jobs`).
* Every SST exists that a live state shows: the newest one of each database, and those that checkpoints in it keep; of a
  clone also those that lie in its parents. The same holds for the WAL files of which such a state knows, and for the
  manifest that a checkpoint keeps; and no SST goes that a job has written and may publish.
* A WAL file is written once, and its sequence numbers lie between those of its neighbours.
* A manifest or a book goes only below the boundary, and never the newest.
* A destroyed database is given up for good only when its grace is over.

A state counts from the moment in which its manifest is created, so these rules need no clock and no allowance for what is
under way: a collector that goes by an older state may only take what no later one needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from slate_engine.state.compactions import Compactions
from slate_engine.state.manifest import Manifest
from slate_engine.state.tombstone import Tombstone
from slate_engine.store.protocol import Buffer
from tests.simulation.jobs import check_jobs, outputs_of
from tests.simulation.loop import SimulatedRuntime
from tests.simulation.memo import decode_compactions, decode_manifest
from tests.simulation.versions import Versions
from tests.simulation.wal_files import WalFiles

_KEY = re.compile(
    r"(?P<root>.+)/(?P<kind>manifest|compactions|wal|compacted|gc)/(?P<name>[^/.]+)\.(?P<extension>[a-z]+)"
)
_NEVER_BACK = (
    "writer_epoch",
    "compactor_epoch",
    "replay_after_wal_id",
    "wal_id_last_seen",
    "last_l0_seq",
    "last_l0_clock_tick",
)

MOST_SKEW = 10.0
"""By so many seconds a process that deletes a database may be ahead of the time."""

Sst = tuple[str, str]
"""The path of the database that holds it, and its id."""


@dataclass
class Database:
    """What is in the bucket of one."""

    manifests: Versions[Manifest] = field(default_factory=lambda: Versions("manifest", _NEVER_BACK))
    books: Versions[Compactions] = field(default_factory=lambda: Versions("book", ("compactor_epoch",)))
    wal: WalFiles = field(default_factory=WalFiles)
    ssts: set[str] = field(default_factory=set)
    shown: dict[int, frozenset[Sst]] = field(default_factory=dict)
    """The SSTs of each manifest."""
    promised: frozenset[str] = frozenset()
    """Those of the jobs in the newest book."""
    is_gone: bool = False
    """All its manifests are deleted. One that was on its way and comes after that stands there alone, a state of nothing."""

    @property
    def newest(self) -> Manifest | None:
        return self.manifests.newest

    @property
    def is_live(self) -> bool:
        """Neither under construction nor being deleted for good."""
        newest = self.newest
        if newest is None or self.is_gone:
            return False
        tombstone = Tombstone.of(newest)
        return newest.initialized if tombstone is None else not tombstone.deleting

    @property
    def is_being_deleted(self) -> bool:
        tombstone = None if self.newest is None else Tombstone.of(self.newest)
        return tombstone is not None and tombstone.deleting

    def live(self) -> Iterator[int]:
        """The manifests of the states that count."""
        newest = self.newest
        if newest is not None and self.is_live:
            yield self.manifests.newest_id
            yield from {checkpoint.manifest_id for checkpoint in newest.checkpoints}


class Inspector:
    """Told of every change. ``fail`` ends the run."""

    def __init__(self, runtime: SimulatedRuntime, fail: Callable[[BaseException], None]) -> None:
        self._runtime = runtime
        self._fail = fail
        self._databases: dict[str, Database] = {}
        self.grace: float | None = None
        """For how many seconds a destroyed database can be brought back, less than what clocks disagree by."""

    def is_going(self, root: str) -> bool:
        """Whether a database is gone, or being deleted for good."""
        return not self._databases[root].is_live

    def stored(self, key: str, data: Buffer) -> None:
        self._look(key, data)

    def deleted(self, key: str) -> None:
        self._look(key, None)

    def _look(self, key: str, data: Buffer | None) -> None:
        found = _KEY.fullmatch(key)
        if found is None:
            return
        try:
            database = self._databases.setdefault(found["root"], Database())
            match found["kind"], found["extension"]:
                case "manifest", "manifest":
                    self._manifest(found["root"], database, int(found["name"]), data)
                case "compacted", "sst":
                    self._sst(found["root"], database, found["name"], data)
                case "wal", "sst":
                    self._wal(database, int(found["name"]), data)
                case "compactions", "compactions":
                    self._book(found["root"], database, int(found["name"]), data)
                case "gc", "boundary":
                    self._boundary(database, found["name"], data)
        except AssertionError as wrong:
            self._fail(wrong)

    # --- one kind after the other --------------------------------------------------------------------------------

    def _manifest(self, root: str, database: Database, id: int, data: Buffer | None) -> None:
        if data is None:
            self._manifest_gone(database, id)
            return
        manifest = decode_manifest(data, object=f"{root}/manifest/{id}")
        before = database.newest
        database.is_gone = database.is_gone and id > 1
        database.shown[id] = frozenset(_shown(root, manifest))
        if database.is_being_deleted and id < database.manifests.newest_id:
            # It was on its way when its place was deleted. Whoever does that has to find it: nothing may be left at the end.
            database.manifests.found[id] = manifest
            return
        if not database.manifests.add(id, manifest, is_live=database.is_live):
            return
        if (tombstone := Tombstone.of(manifest)) is not None and tombstone.deleting:
            self._check_grace(tombstone, before)
        for kept in database.live():
            state = database.manifests.found.get(kept)
            assert state is not None, f"a checkpoint in manifest {id} keeps manifest {kept}, which is gone"
            missing = [sst for sst in database.shown[kept] if sst[1] not in self._databases[sst[0]].ssts]
            assert not missing, f"manifest {kept}, which counts as of {id}, shows SSTs that are gone: {missing}"
            unread = database.wal.missing(state)
            assert not unread, f"manifest {kept}, which counts as of {id}, knows of WAL files that are gone: {unread}"

    def _manifest_gone(self, database: Database, id: int) -> None:
        if database.is_live:
            assert id not in set(database.live()), f"manifest {id} was deleted, which a checkpoint keeps"
        last = database.is_being_deleted and id == database.manifests.newest_id
        database.manifests.remove(id, is_live=database.is_live)
        del database.shown[id]
        database.is_gone = database.is_gone or last or not database.manifests.found

    def _book(self, root: str, database: Database, id: int, data: Buffer | None) -> None:
        if data is None:
            database.books.remove(id, is_live=database.is_live)
            return
        book = decode_compactions(data, object=f"{root}/compactions/{id}")
        before = database.books.newest
        if not database.books.add(id, book, is_live=database.is_live) or not database.is_live:
            return
        if before is not None:
            check_jobs(before, book)
        newest = database.newest
        assert newest is not None
        assert book.compactor_epoch <= newest.compactor_epoch, f"book {id} has an epoch that no manifest has given out"
        database.promised = frozenset(str(id) for id in outputs_of(book))
        missing = database.promised - database.ssts
        assert not missing, f"a job in book {id} has written SSTs that are gone: {missing}"

    def _sst(self, root: str, database: Database, id: str, data: Buffer | None) -> None:
        if data is not None:
            database.ssts.add(id)
            return
        database.ssts.discard(id)
        assert id not in database.promised or not database.is_live, f"SST {id} was deleted, which a job may publish"
        for path, other in self._databases.items():
            for live in other.live():
                assert (root, id) not in other.shown[live], (
                    f"SST {id} was deleted, which manifest {live} of {path} shows"
                )

    def _wal(self, database: Database, id: int, data: Buffer | None) -> None:
        if data is not None:
            database.wal.add(id, data, database.newest)
            return
        database.wal.remove(id)
        for number in database.live():
            state = database.manifests.found[number]
            if number == database.manifests.newest_id:
                # The file at which replay begins stays, too: whoever takes over may be about to look at it.
                needed = id >= state.replay_after_wal_id
            else:
                needed = state.replay_after_wal_id < id <= state.wal_id_last_seen
            assert not needed, f"WAL file {id} was deleted, which manifest {number} needs"

    def _boundary(self, database: Database, of: str, data: Buffer | None) -> None:
        boundary = 0 if data is None else int(bytes(data))
        versions: Versions[Manifest] | Versions[Compactions] = (
            database.manifests if of == "manifest" else database.books
        )
        versions.advance(boundary, is_live=database.is_live)

    def _check_grace(self, tombstone: Tombstone, before: Manifest | None) -> None:
        now_s = self._runtime.now_ms() / 1000
        if self.grace is not None:
            since = now_s - tombstone.destroyed_at_s
            assert since >= self.grace, f"a database was deleted {since:g} s after it was destroyed, not {self.grace:g}"
        for checkpoint in before.checkpoints if before is not None else ():
            ends = checkpoint.expire_time_s
            needed = ends is None or ends > now_s + MOST_SKEW
            assert not needed, f"a database was deleted while checkpoint {checkpoint.id} keeps it until {ends}"


def _shown(root: str, manifest: Manifest) -> Iterator[Sst]:
    paths = [external.path for external in manifest.external_dbs]
    for owner, id in zip(manifest.owners.tolist(), manifest.ssts.id, strict=True):
        yield (root if owner < 0 else paths[owner]), str(id)
