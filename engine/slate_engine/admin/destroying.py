"""Destroying a database (RFC-0004): softly, so that it can be brought back for a while, and for good.

*That* a database is destroyed stands in its manifest, where no process can miss it. *When* it was stands in an object of its
own as well, ``gc/destroyed_at_s``, which anybody can read. The manifest is changed first, in both directions: an object
without a mark in the manifest is a leftover, and deletes nothing.

Bringing it back is said in the manifest before it is done, and checked in between: see :mod:`slate_engine.state.destroy`.

For good: the manifest is marked with the next epochs, which cannot be taken back; the log is closed; the checkpoints in
parents are released. Everything else is deleted. The mark and the end of the log stay for :data:`LINGER`, so that every
process that still uses the database meets one of them; then what such processes had on their way is deleted, and at last
the end of the log and the mark. A process that comes later finds nothing, and knows that there was something. A
deletion that is repeated after a crash goes on with what is left.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from slate_engine.admin.copying import mark_key
from slate_engine.admin.deletion import Deletion, pages
from slate_engine.admin.parents import PERHAPS_DELETED, newest_afresh, release_parents
from slate_engine.errors import CorruptData, DatabaseDeleted, DataError, Fenced, InvalidError
from slate_engine.lsm.compaction.commit import Claim
from slate_engine.lsm.compaction.guard import leave_name
from slate_engine.lsm.fencing import close_log, fence_log
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import WalTruncated
from slate_engine.lsm.tenure import Tenure
from slate_engine.state.commit import NothingStored, Versioned
from slate_engine.state.destroy import (
    LINGER,
    RETURN_S,
    announced,
    claimed_for_deletion,
    softly_destroyed,
    undeleted,
    withdrawn,
)
from slate_engine.state.manifest import Manifest
from slate_engine.state.tombstone import Destroyed, Tombstone
from slate_engine.store.boundary import BoundaryLost
from slate_engine.store.numbered import BoundaryAhead
from slate_engine.store.protocol import CREATE, Conflict, NotFound, ObjectMeta, Update

log = logging.getLogger(__name__)

LOOK_EVERY = 1.0
"""Seconds between two looks at whether somebody else has brought a database back."""
SLATEDB_MARKER = ".deleting"
"""What SlateDB puts where it is deleting a database: it has no manifest any more when that was interrupted."""

_MANIFEST = re.compile(r"(.*/)?manifest/[0-9]{20}\.manifest")


class NotWhole(DataError):
    """A database cannot be brought back, because some of it is deleted already."""


def time_key(files: DatabaseFiles) -> str:
    return files.paths.under("gc/destroyed_at_s")


async def destroy_softly(files: DatabaseFiles) -> int:
    """Fence everybody off and mark the database; all of it stays until a garbage collector's grace period is over. Returns
    the second at which it was destroyed, which is that of the first call."""
    now_s = _now_s(files)
    committed = await files.manifests.update(lambda old: softly_destroyed(old, now_s=now_s))
    tombstone = Tombstone.of(committed.value)
    assert tombstone is not None
    if not tombstone.deleting:
        try:
            await _close_off(files, committed.value, tombstone)
        except PERHAPS_DELETED:
            # It looks like a loss to whoever was so slow that the grace is over, and all of it deleted.
            if not await _is_going(files):
                raise
    return tombstone.destroyed_at_s


async def _close_off(files: DatabaseFiles, destroyed: Manifest, tombstone: Tombstone) -> None:
    """All that is left to do when the manifest says that the database is destroyed."""
    await _fence(files, destroyed)
    # We took the compactor's epoch: if it is undeleted, our own need not wait for a stranger to fall silent.
    await leave_name(files, Claim(destroyed.compactor_epoch))
    await write_time(files, tombstone.destroyed_at_s)


async def _fence(files: DatabaseFiles, destroyed: Manifest) -> None:
    """No writer of before adds to the log any more."""
    while True:
        try:
            await fence_log(Tenure(files, destroyed.writer_epoch))
            return
        except (InvalidError, WalTruncated) as broken:
            # A live writer does not read its log, and may go on behind the gap. The gap itself stays, so that it is seen.
            log.warning("the log of %r has a gap: %s", files.path, broken)
            await close_log(Tenure(files, destroyed.writer_epoch), destroyed.wal_id_last_seen)
            return
        except Fenced:
            # By somebody who destroys it at the same time: then we go on behind his files.
            newest = (await files.manifests.read_latest()).value
            if (newest.writer_epoch, Tombstone.of(newest)) != (destroyed.writer_epoch, Tombstone.of(destroyed)):
                raise


async def undelete(files: DatabaseFiles) -> None:
    """Bring a softly destroyed database back as it was. Whoever wrote it stays fenced, and opens it anew."""
    try:
        await _undelete(files)
    except (BoundaryAhead, BoundaryLost, DatabaseDeleted):
        # It looks like a loss to whoever was so slow that all of it was deleted meanwhile.
        await _check_not_deleted(files)
        raise


async def _check_not_deleted(files: DatabaseFiles) -> None:
    """Raises what there is to say of a database that was deleted for good, or of what came there afterwards."""
    afresh, newest = await newest_afresh(files)
    if newest is None:
        raise NothingStored(f"the database at {files.path!r} is not undeleted: it was deleted for good meanwhile")
    tombstone = Tombstone.of(newest.value)
    if tombstone is not None and tombstone.deleting:
        raise Destroyed(tombstone)
    # What we wrote may have come when all was gone, and stands there alone.
    now_s = _now_s(afresh)
    await _check_whole(afresh, newest.value, lambda old: withdrawn(softly_destroyed(old, now_s=now_s)))


async def _undelete(files: DatabaseFiles) -> None:
    destroyed = await _announce(files)
    if destroyed is not None:
        since_s = destroyed.returning_s or 0
        back = (await files.manifests.update(lambda old: undeleted(old, now_s=_now_s(files), since_s=since_s))).value
        # Our commit may have been on its way for longer than others wait.
        await _check_whole(files, back, lambda old: softly_destroyed(old, now_s=destroyed.destroyed_at_s))
    await files.store.delete([time_key(files)])


async def _announce(files: DatabaseFiles) -> Tombstone | None:
    """Say that we bring it back; None if it lives. While another is at it we wait for him: of two at once the slower one
    would not notice what a third does after the first."""
    while True:
        before: list[Manifest] = []

        def change(old: Manifest, before: list[Manifest] = before) -> Manifest:
            before.append(old)
            return announced(old, now_s=_now_s(files))

        said = (await files.manifests.update(change)).value
        tombstone = Tombstone.of(said)
        if tombstone is None:
            return None
        if said is not before[-1]:
            # That was the first word that others can see. From here on nobody begins to delete it; did somebody before?
            await _check_whole(files, said, withdrawn)
            return tombstone
        log.warning("somebody else is bringing %r back; waiting for that, %d s at most", files.path, RETURN_S // 2)
        await files.runtime.sleep(LOOK_EVERY)


def _now_s(files: DatabaseFiles) -> int:
    return files.runtime.now_ms() // 1000


async def _check_whole(files: DatabaseFiles, manifest: Manifest, undo: Callable[[Manifest], Manifest]) -> None:
    """A deletion for good may have gone past while our commit was on its way: then we have a manifest of nothing."""
    lost = await _lost(files, manifest)
    if lost is not None:
        await files.manifests.update(undo)
        raise NotWhole(
            f"{files.path!r} is not undeleted: {lost} is gone, for somebody was deleting the database for good; end that, "
            "or restore the objects"
        )


async def _lost(files: DatabaseFiles, manifest: Manifest) -> str | None:
    """What is gone. A deletion for good takes all other objects before the manifests, so any one tells: an SST of its own,
    or if it has none, the log, in which whoever destroys a database leaves a file."""
    own = manifest.ssts.id.take(np.flatnonzero(manifest.owners < 0))
    if len(own):
        return await _missing(files, files.paths.compacted(own[0]))
    logs = files.paths.wal_directory + "/"
    async for page in files.log_store.list(logs):
        if page:
            return None
    # One who was interrupted before he came to that file left nothing that could be gone, either, unless the time is there.
    return logs if await _missing(files, time_key(files)) else None


async def _missing(files: DatabaseFiles, key: str) -> str | None:
    try:
        await files.store.head(key)
    except NotFound:
        return key
    return None


async def write_time(files: DatabaseFiles, destroyed_at_s: int) -> None:
    """Let the object say what the manifest says. One that says something else is from before an undelete."""
    while True:
        value, etag = await _read_time(files)
        if value == destroyed_at_s:
            return
        try:
            await files.store.put(time_key(files), b"%d" % destroyed_at_s, CREATE if etag is None else Update(etag))
        except Conflict:
            continue
        await _take_back_if_going(files, time_key(files))
        return


async def _take_back_if_going(files: DatabaseFiles, key: str) -> None:
    """Whoever deletes the database for good may have listed its objects before ``key`` was there, and would leave it."""
    if await _is_going(files):
        await files.store.delete([key])


async def _is_going(files: DatabaseFiles) -> bool:
    """Whether the database is gone, or being deleted for good."""
    _, newest = await newest_afresh(files)
    tombstone = None if newest is None else Tombstone.of(newest.value)
    return newest is None or (tombstone is not None and tombstone.deleting)


async def read_time(files: DatabaseFiles) -> int | None:
    """What ``gc/destroyed_at_s`` says."""
    return (await _read_time(files))[0]


async def _read_time(files: DatabaseFiles) -> tuple[int | None, str | None]:
    try:
        found = await files.store.get(time_key(files))
    except NotFound:
        return None, None
    text = bytes(found.data[:32]).strip()
    if not text.isdigit() or int(text) >= 2**64:
        raise CorruptData(f"not a number of seconds: {text!r}", object=time_key(files))
    return int(text), found.meta.etag


async def destroy_hard(
    files: DatabaseFiles,
    deleted: Callable[[Sequence[str]], None] = lambda keys: None,
    *,
    destroyed_at_s: int | None = None,
) -> list[str]:
    """Delete the database for good, and return the names of its objects; ``deleted`` is told of each batch. Raises
    ``InvalidDeletion`` while checkpoints need it, ``BeingUndeleted`` while somebody brings it back; and with the second of
    a destruction ``BroughtBack``, if that one was taken back. Processes that use the database at this time are shut out, and
    nothing that they write afterwards is acknowledged. That takes :data:`LINGER` seconds, unless it was destroyed softly
    before that."""
    # Afresh: an earlier attempt may have deleted the boundary, which whoever has seen it takes for a loss. And afterwards
    # nobody may go on from a manifest that he remembers: it would be one of nothing.
    files.look_afresh()
    files, newest = await newest_afresh(files)
    if newest is None:
        await _check_unfinished(files)
    await _check_alone(files)
    claimed = None if newest is None else await _claim(files, destroyed_at_s)
    if newest is None or claimed is None:
        return await Deletion(files, deleted).finish()
    deletion = Deletion(files, deleted)
    await deletion.give_up_before(claimed.id)
    may_be_used = not await _was_closed_before(files, newest, claimed)
    if may_be_used:
        await deletion.close(claimed.value)
    await release_parents(files, claimed.value.external_dbs)
    await deletion.sweep()
    if may_be_used:
        await deletion.linger()
        await deletion.sweep()
    return await deletion.finish()


async def _was_closed_before(files: DatabaseFiles, before: Versioned[Manifest], claimed: Versioned[Manifest]) -> bool:
    """Whether it was destroyed softly for long enough: by the clock of the store, between its mark and ours."""
    if Tombstone.of(before.value) is None or claimed.id == before.id:
        return False
    objects = files.manifests.objects
    try:
        first, second = [await files.store.head(objects.key(each.id)) for each in (before, claimed)]
    except NotFound:
        return False
    return second.last_modified_ms - first.last_modified_ms > 1000 * (LINGER + 1)


async def _claim(files: DatabaseFiles, destroyed_at_s: int | None) -> Versioned[Manifest] | None:
    """Mark the database, so that nobody can bring it back. Gives the manifest that says so, or None if somebody else deletes
    it at the same time, and has come to the end."""
    try:
        change = partial(claimed_for_deletion, now_ms=files.runtime.now_ms(), destroyed_at_s=destroyed_at_s)
        return await files.manifests.update(change)
    except PERHAPS_DELETED:
        _, newest = await newest_afresh(files)
        if newest is None:
            return None
        tombstone = Tombstone.of(newest.value)
        if tombstone is None or not tombstone.deleting:
            raise
        return newest


async def listed(files: DatabaseFiles) -> list[ObjectMeta]:
    """All objects that :func:`destroy_hard` would delete, those of the log first."""
    log_directory = files.paths.wal_directory + "/"
    logs = (
        [] if files.wal_store is None else [meta async for page in files.wal_store.list(log_directory) for meta in page]
    )
    return [*logs, *[meta async for page in pages(files) for meta in page]]


async def objects_of(files: DatabaseFiles) -> list[str]:
    """Their names."""
    return [meta.key for meta in await listed(files)]


async def _check_unfinished(files: DatabaseFiles) -> None:
    """Without a manifest, only what SlateDB was deleting may be deleted, and a copy that was given up."""
    for key in (files.paths.under(SLATEDB_MARKER), mark_key(files)):
        with contextlib.suppress(NotFound):
            await files.store.head(key)
            return
    raise NothingStored(
        f"there is no database at {files.path!r} in {files.store.url}, so nothing is deleted: is the path right?"
    )


async def _check_alone(files: DatabaseFiles) -> None:
    """A database inside another's folder would go with it."""
    own = files.paths.manifest + "/"
    async for page in pages(files):
        for meta in page:
            if _MANIFEST.fullmatch(meta.key) and not meta.key.startswith(own):
                inner = meta.key.rpartition("/manifest/")[0]
                raise InvalidError(
                    f"{files.path!r} is not deleted, because database {inner!r} lies inside it; destroy that one first"
                )
