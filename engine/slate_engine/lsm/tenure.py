"""The epoch of a writer: how it signs what it writes, and how it learns that its time is over (RFC-0001).

The manifest has the last word on who may write. Beside it, each WAL file names the epoch that wrote it, in an attribute of
the object, where the store keeps such things. The original writes none, so nothing depends on it; where it is there it tells
whose file took our place.
"""

from __future__ import annotations

from dataclasses import dataclass

from slate_engine.errors import Error, Fenced
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.manifest import Manifest
from slate_engine.state.tombstone import Destroyed, Tombstone, check_not_deleted
from slate_engine.store.protocol import Create, NotFound

WRITER_EPOCH = "writer_epoch"


@dataclass(frozen=True)
class Tenure:
    """From taking the epoch to seeing a greater one."""

    files: DatabaseFiles
    epoch: int

    @property
    def create(self) -> Create:
        """How a WAL file is put: if there is none, and signed."""
        return Create(((WRITER_EPOCH, str(self.epoch)),))

    def check(self, manifest: Manifest) -> None:
        """Raises :class:`Fenced` if ``manifest`` is of another writer, ``DatabaseDeleted`` if the database is deleted."""
        check_not_deleted(manifest, self.files.path)
        if manifest.writer_epoch > self.epoch:
            raise self._over(manifest, "")
        if manifest.writer_epoch < self.epoch:
            raise Fenced(
                f"the manifest has writer epoch {manifest.writer_epoch}, and this writer has {self.epoch}: another database "
                f"was made at {self.files.path!r}, or an old manifest was brought back; open the database again"
            )

    async def author_of(self, wal_id: int) -> int | None:
        """The epoch that wrote a WAL file; None if nothing tells."""
        store = self.files.log_store
        try:
            noted = dict((await store.head(self.files.paths.wal(wal_id))).attributes).get(WRITER_EPOCH, "")
        except NotFound:
            return None
        return int(noted) if noted.isdecimal() else None

    async def taken(self, wal_id: int) -> Error:
        """Why a WAL id that was to be ours has a file of somebody else's."""
        manifest = (await self.files.manifests.read_latest()).value
        check_not_deleted(manifest, self.files.path)
        author = await self.author_of(wal_id)
        signed = "" if author is None else f": WAL file {wal_id} was written by writer epoch {author}"
        if manifest.writer_epoch > self.epoch:
            return self._over(manifest, signed)
        return Fenced(
            f"somebody else took WAL file {wal_id} while this writer has the newest epoch ({self.epoch}){signed}; let one "
            "process only write this database"
        )

    def _over(self, manifest: Manifest, signed: str) -> Fenced:
        tombstone = Tombstone.of(manifest)
        if tombstone is not None:
            return Fenced(str(Destroyed(tombstone, self.files.path)))
        return Fenced(
            f"writer epoch {manifest.writer_epoch} has taken over from this one ({self.epoch}){signed}; stop this process, "
            "or open the database again to take it back"
        )
