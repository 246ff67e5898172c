"""Checkpoints from outside (RFC-0004): made, prolonged, deleted and listed without a writer.

Each change is one commit of the manifest, and a change whose answer was lost may simply be made again. It takes six requests
(a listing, four GETs, a PUT), four if the newest manifest is known already, a listing more if the log holds rows that are in
no SST, and three more with the whole log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import UUID

from slate_engine.admin.parents import neighbour, newest_or_none
from slate_engine.errors import DataError, InvalidError
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import wal_frontier
from slate_engine.runtime import uuid4
from slate_engine.state.checkpoints import (
    CheckpointExpired,
    CheckpointMissing,
    with_checkpoint,
    with_checkpoint_refreshed,
    without_checkpoint,
)
from slate_engine.state.commit import Versioned
from slate_engine.state.manifest import Checkpoint, Manifest
from slate_engine.store.protocol import NotFound


@dataclass(frozen=True)
class CheckpointOptions:
    """``lifetime_ms`` None is for ever; ``source`` an existing checkpoint whose state is kept instead of the present one.

    Whoever gives the ``id`` may repeat the request without harm. With ``whole_log`` the checkpoint holds every row that is
    durable now; without it, as SlateDB has it, only those of which the newest manifest knows."""

    lifetime_ms: int | None = None
    source: UUID | None = None
    name: str | None = None
    id: UUID | None = None
    whole_log: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointCreated:
    """A new checkpoint, and the number of the manifest that it keeps."""

    id: UUID
    manifest_id: int


async def create_checkpoint(files: DatabaseFiles, options: CheckpointOptions | None = None) -> CheckpointCreated:
    """Keep the present state, or that of another checkpoint."""
    options = options or CheckpointOptions()
    id = options.id or uuid4(files.runtime)
    committed = await commit_checkpoint(files, replace(options, id=id))
    made = committed.value.checkpoint(id)
    assert made is not None
    return CheckpointCreated(id, made.manifest_id)


async def commit_checkpoint(files: DatabaseFiles, options: CheckpointOptions) -> Versioned[Manifest]:
    """The same, for those who go on with the manifest that it is in; ``options`` give the id. Raises
    :class:`~slate_engine.lsm.replay.WalTruncated` if a file of the log is missing that the checkpoint needs."""
    if options.source is not None:
        return await _commit_checkpoint(files, options)
    if options.whole_log:
        return await _commit_with_log(files, options)
    checked = 0

    def check(old: Manifest) -> None:
        if old.needed_wal_ids and old.wal_id_last_seen > checked:
            raise _LogNotSeen(old)

    while True:
        try:
            return await _commit_checkpoint(files, options, check)
        except _LogNotSeen as seen:
            await files.check_log(seen.newest)
            checked = seen.newest.wal_id_last_seen


async def _commit_with_log(files: DatabaseFiles, options: CheckpointOptions) -> Versioned[Manifest]:
    known = (await files.manifests.read_latest()).value
    end = files.log_end(known)
    while True:
        last = await wal_frontier(files.log_store, files.paths, known.replay_after_wal_id)

        def check(old: Manifest, last: int = last) -> None:
            if last < old.replay_after_wal_id or end.lacks(last, old):
                raise _LogNotSeen(old)

        try:
            return await _commit_checkpoint(files, options, check, last)
        except _LogNotSeen as seen:
            known = seen.newest
            await end.is_at(last, known)


class _LogNotSeen(Exception):
    """The log has not been looked at for this manifest. Some of it was flushed and collected before it was listed, or a file
    of it is missing: what looks like its end may be a gap, and the checkpoint would miss what comes behind it."""

    def __init__(self, newest: Manifest) -> None:
        super().__init__()
        self.newest = newest


async def _commit_checkpoint(
    files: DatabaseFiles,
    options: CheckpointOptions,
    check: Callable[[Manifest], None] = lambda old: None,
    last_wal_id: int = 0,
) -> Versioned[Manifest]:
    """With the log up to ``last_wal_id``, if the manifest does not know of more. ``check`` may refuse the manifest."""
    assert options.id is not None
    id = options.id

    def change(old: Manifest) -> Manifest:
        # A clock that is asked again for each attempt does not promise more time than there is.
        now_ms = files.runtime.now_ms()
        new = with_checkpoint(
            old, id=id, now_ms=now_ms, lifetime_ms=options.lifetime_ms, name=options.name, source=options.source
        )
        if new is old:
            return old
        check(old)
        return replace(new, wal_id_last_seen=max(old.wal_id_last_seen, last_wal_id))

    return await files.manifests.update(change)


async def refresh_checkpoint(files: DatabaseFiles, id: UUID, lifetime_ms: int | None, *, force: bool = False) -> None:
    """The checkpoint lives for ``lifetime_ms`` from now on, or forever. Raises ``CheckpointMissing``, and
    :class:`NeededByClone` if it would expire under a clone, unless with ``force``."""

    def refreshed(old: Manifest) -> Manifest:
        return with_checkpoint_refreshed(old, id, now_ms=files.runtime.now_ms(), lifetime_ms=lifetime_ms)

    await _update(files, id, refreshed, force=force or lifetime_ms is None)


async def delete_checkpoint(files: DatabaseFiles, id: UUID, *, force: bool = False) -> None:
    """What only this checkpoint kept is garbage now. It is no error if it is gone already. Raises :class:`NeededByClone` if
    a clone reads what it keeps, unless with ``force``."""
    await _update(files, id, lambda old: without_checkpoint(old, id), force=force)


class NeededByClone(InvalidError):
    """A clone reads SSTs that this checkpoint keeps; without it the next garbage collection deletes them."""

    def __init__(self, id: UUID, clone: str) -> None:
        super().__init__(
            f"checkpoint {id} keeps SSTs that clone {clone!r} reads; it is deleted when that clone is destroyed or has "
            "detached. To break the clone nevertheless, use `slate delete-checkpoint --force`"
        )


async def _update(files: DatabaseFiles, id: UUID, change: Callable[[Manifest], Manifest], *, force: bool) -> None:
    """Change a checkpoint that no clone needs. A clone's own manifest tells, and only a final checkpoint makes it look: the
    clone names that one before its parent has it, and never names it again after it has let go of it."""
    free = force

    def checked(old: Manifest) -> Manifest:
        found = old.checkpoint(id)
        if not free and found is not None and found.clone is not None:
            raise _Final(found.clone)
        return change(old)

    try:
        await files.manifests.update(checked)
    except _Final as final:
        clone = await newest_or_none(neighbour(files, final.clone).manifests)
        if clone is not None and any(parent.final_checkpoint_id == id for parent in clone.value.external_dbs):
            raise NeededByClone(id, final.clone) from None
        free = True
        await files.manifests.update(checked)


class _Final(Exception):
    """The checkpoint is, or was, one that a clone needs."""

    def __init__(self, clone: str) -> None:
        super().__init__()
        self.clone = clone


async def list_checkpoints(files: DatabaseFiles, name: str | None = None) -> list[Checkpoint]:
    """All checkpoints, or those of this name; also those that have expired and are not collected yet."""
    newest = await files.manifests.read_latest()
    return [each for each in newest.value.checkpoints if name is None or each.name == name]


async def read_kept(files: DatabaseFiles, newest: Manifest, id: UUID) -> Manifest:
    """The manifest that a checkpoint keeps; ``newest`` is the newest of the database. Refuses one that may go any moment."""
    checkpoint = newest.checkpoint(id)
    if checkpoint is None:
        raise CheckpointMissing(id)
    if checkpoint.is_expired(files.runtime.now_ms() / 1000):
        raise CheckpointExpired(id)
    try:
        return await files.manifests.read(checkpoint.manifest_id)
    except NotFound:
        raise DataError(
            f"checkpoint {id} of {files.path!r} keeps manifest {checkpoint.manifest_id}, but that is gone; use another one"
        ) from None
