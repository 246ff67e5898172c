"""Whether work that was interrupted may still be done.

An earlier attempt may have done it, and its process may have ended before it could say so. Since then a user may have taken
it back, or a writer may have written on what came of it: then to do it once more would undo what others did. The writer's
epoch tells, for a destroy and a restore take the next one, and so does every writer that opens the database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from slate_engine.admin.parents import newest_or_none
from slate_engine.admin.restoring import PREPARED
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import wal_ids
from slate_engine.state.manifest import Checkpoint, Manifest
from slate_engine.state.tombstone import Tombstone
from slate_engine.store.protocol import NotFound

TAKEN_BACK: dict[tuple[str, str | None], Callable[[Manifest], bool]] = {
    ("destroy", "soft"): lambda manifest: Tombstone.of(manifest) is not None,
    ("undelete", None): lambda manifest: Tombstone.of(manifest) is None,
}
"""Work that a user may take back, and how one sees that it is done."""
RESTORE = "restore"


@dataclass(frozen=True)
class Standing:
    """How far the database was when an operation was submitted."""

    epoch: int
    """The writer's."""
    last_wal_id: int | None = None
    """Of the last WAL file, for a restore: a writer that stays open adds to the log and keeps its epoch."""
    last_l0_seq: int | None = None
    """Of the last row in SSTs, for a restore: a writer without a WAL shows what it has written by this alone."""

    @classmethod
    async def of(cls, files: DatabaseFiles, work: Mapping[str, Any]) -> Standing | None:
        """None if there is no database."""
        newest = await newest_or_none(files.manifests)
        if newest is None:
            return None
        if work["kind"] != RESTORE:
            return cls(newest.value.writer_epoch)
        return await cls._with_rows(files, newest.value)

    @classmethod
    async def _with_rows(cls, files: DatabaseFiles, newest: Manifest) -> Standing:
        log = await wal_ids(files.log_store, files.paths, newest.replay_after_wal_id)
        last_wal_id = max(log, default=newest.replay_after_wal_id)
        return cls(newest.writer_epoch, last_wal_id, newest.last_l0_seq)

    async def was_left(self, files: DatabaseFiles, newest: Manifest) -> bool:
        """Whether the database was opened, or written, since."""
        if self.last_wal_id is None:
            return newest.writer_epoch != self.epoch  # an older service has written down no more
        return self != await self._with_rows(files, newest)


async def is_overtaken(files: DatabaseFiles, work: Mapping[str, Any], id: UUID, began: Standing | None) -> bool:
    """``began`` is how far the database was when the operation ``id`` was submitted; None if that is not known."""
    kind = work["kind"], work.get("mode")
    if kind not in TAKEN_BACK and work["kind"] != RESTORE:
        return False
    newest = await newest_or_none(files.manifests)
    if newest is None:
        return False
    if work["kind"] == RESTORE:
        return await _is_restore_overtaken(files, newest.value, id, began)
    return not TAKEN_BACK[kind](newest.value) and (began is None or newest.value.writer_epoch > began.epoch)


async def _is_restore_overtaken(files: DatabaseFiles, newest: Manifest, id: UUID, began: Standing | None) -> bool:
    kept = newest.checkpoint(id)
    if kept is None:
        # It never came to its first commit; or it was done, and what it had kept was deleted or has expired.
        return began is None or await began.was_left(files, newest)
    # One that is done is found by the restore itself, which then changes nothing.
    return kept.name == PREPARED and newest.writer_epoch != await _epoch_of(files, kept)


async def _epoch_of(files: DatabaseFiles, kept: Checkpoint) -> int | None:
    """The epoch that the restore took before it was interrupted; None if that has expired and is collected."""
    try:
        return (await files.manifests.read(kept.manifest_id)).writer_epoch
    except NotFound:
        return None
