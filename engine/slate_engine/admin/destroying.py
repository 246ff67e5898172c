"""Destroying a database (RFC-0004): softly, so that it can be brought back for a while, and for good.

*That* a database is destroyed stands in its manifest, where no process can miss it. *When* it was stands in an object of its
own as well, ``gc/destroyed_at_s``, which anybody can read. The manifest is changed first, in both directions: an object
without a mark in the manifest is a leftover, and deletes nothing.

For good: the manifest is marked, which nobody can take back; the checkpoints in parents are released; everything but the
newest manifest is deleted, and then that. Whoever repeats it after a crash goes on with what is left.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence

import numpy as np

from slate_engine.admin.copying import mark_key
from slate_engine.admin.parents import neighbour, newest_or_none, release_parents
from slate_engine.errors import CorruptData, DataError, Fenced, InvalidError
from slate_engine.lsm.fencing import fence_log
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.tenure import Tenure
from slate_engine.state.commit import NothingStored
from slate_engine.state.destroy import claimed_for_deletion, softly_destroyed, undeleted
from slate_engine.state.manifest import Manifest
from slate_engine.state.tombstone import Tombstone
from slate_engine.store.protocol import CREATE, Conflict, NotFound, ObjectMeta, ObjectStore, Update

log = logging.getLogger(__name__)

BATCH = 1000
"""Objects in one request to delete, as many as S3 takes."""
SLATEDB_MARKER = ".deleting"
"""What SlateDB puts where it is deleting a database: it has no manifest any more when that was interrupted."""

_OWN = re.compile(r"(manifest|compactions|wal|compacted|gc)/[^/]*|\.deleting")
_MANIFEST = re.compile(r"(.*/)?manifest/[0-9]{20}\.manifest")


def time_key(files: DatabaseFiles) -> str:
    return files.paths.under("gc/destroyed_at_s")


async def destroy_softly(files: DatabaseFiles) -> int:
    """Fence everybody off and mark the database; all of it stays until a garbage collector's grace period is over. Returns
    the second at which it was destroyed, which is that of the first call."""
    now_s = files.runtime.now_ms() // 1000
    committed = await files.manifests.update(lambda old: softly_destroyed(old, now_s=now_s))
    tombstone = Tombstone.of(committed.value)
    assert tombstone is not None
    if not tombstone.deleting:
        await _fence(files, committed.value)
        await write_time(files, tombstone.destroyed_at_s)
    return tombstone.destroyed_at_s


async def _fence(files: DatabaseFiles, destroyed: Manifest) -> None:
    """No writer of before adds to the log any more."""
    while True:
        try:
            await fence_log(Tenure(files, destroyed.writer_epoch))
            return
        except InvalidError as broken:
            # A log with a hole can be written no more, which is all that the fence is for.
            log.warning("the log of %r was not fenced: %s", files.path, broken)
            return
        except Fenced:
            # By somebody who destroys it at the same time: then we go on behind his files.
            newest = (await files.manifests.read_latest()).value
            if (newest.writer_epoch, Tombstone.of(newest)) != (destroyed.writer_epoch, Tombstone.of(destroyed)):
                raise


async def undelete(files: DatabaseFiles) -> None:
    """Bring a softly destroyed database back as it was. Whoever wrote it stays fenced, and opens it anew."""
    destroyed = Tombstone.of((await files.manifests.read_latest()).value)
    committed = await files.manifests.update(undeleted)
    if destroyed is not None:
        await _check_whole(files, committed.value, destroyed)
    await files.store.delete([time_key(files)])


async def _check_whole(files: DatabaseFiles, manifest: Manifest, destroyed: Tombstone) -> None:
    """A deletion for good may have gone past while our commit was on its way: then what came back is a manifest of nothing.
    Objects go before manifests, so any SST tells."""
    own = manifest.ssts.id.take(np.flatnonzero(manifest.owners < 0))
    if not len(own):
        return
    try:
        await files.store.head(files.paths.compacted(own[0]))
    except NotFound as lost:
        await files.manifests.update(lambda old: softly_destroyed(old, now_s=destroyed.destroyed_at_s))
        raise DataError(
            f"{files.path!r} is not undeleted: {lost.key} is gone, for somebody was deleting the database for good; end "
            "that, or restore the objects"
        ) from None


async def write_time(files: DatabaseFiles, destroyed_at_s: int) -> None:
    """Let the object say what the manifest says. One that says something else is from before an undelete."""
    while True:
        value, etag = await _read_time(files)
        if value == destroyed_at_s:
            return
        try:
            await files.store.put(time_key(files), b"%d" % destroyed_at_s, CREATE if etag is None else Update(etag))
            return
        except Conflict:
            continue


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


async def destroy_hard(files: DatabaseFiles, deleted: Callable[[Sequence[str]], None] = lambda keys: None) -> list[str]:
    """Delete the database for good, and return the names of its objects; ``deleted`` is told of each batch. Raises
    ``InvalidDeletion`` while checkpoints need it. Nobody may be writing it at this time: a manifest that arrives when all is
    gone would stand there alone."""
    # Afresh: an earlier attempt may have deleted the boundary, which whoever has seen it takes for a loss. And afterwards
    # nobody may go on from a manifest that he remembers: it would be one of nothing.
    given, files = files, neighbour(files, files.path)
    given.manifests = neighbour(files, files.path).manifests
    newest = await newest_or_none(files.manifests)
    if newest is None:
        await _check_unfinished(files)
    await _check_alone(files)
    if newest is not None:
        committed = await files.manifests.update(lambda old: claimed_for_deletion(old, now_ms=files.runtime.now_ms()))
        await release_parents(files, committed.value.external_dbs)
    return await _delete_all(files, deleted)


async def listed(files: DatabaseFiles) -> list[ObjectMeta]:
    """All objects that :func:`destroy_hard` would delete, those of the log first."""
    log_directory = files.paths.wal_directory + "/"
    logs = (
        [] if files.wal_store is None else [meta async for page in files.wal_store.list(log_directory) for meta in page]
    )
    return [*logs, *[meta async for page in _pages(files) for meta in page]]


async def objects_of(files: DatabaseFiles) -> list[str]:
    """Their names."""
    return [meta.key for meta in await listed(files)]


async def _delete_all(files: DatabaseFiles, deleted: Callable[[Sequence[str]], None]) -> list[str]:
    directory = files.paths.manifest + "/"
    gone: list[str] = []

    async def delete(store: ObjectStore, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), BATCH):
            batch = keys[start : start + BATCH]
            await store.delete(batch)
            deleted(batch)
            gone.extend(batch)

    if files.wal_store is not None:
        await delete(files.wal_store, [key async for key in _keys(files.wal_store, files.paths.wal_directory + "/")])
    async for page in _pages(files):
        await delete(files.store, [meta.key for meta in page if not meta.key.startswith(directory)])
    manifests = [key async for key in _keys(files.store, directory)]
    await delete(files.store, manifests[:-1])
    await delete(files.store, manifests[-1:])
    return gone


async def _pages(files: DatabaseFiles) -> AsyncIterator[list[ObjectMeta]]:
    """All that belongs to the database. At the root of a store that is only what bears the names of one."""
    root = files.paths.root
    async for page in files.store.list(f"{root}/" if root else ""):
        yield page if root else [meta for meta in page if _OWN.fullmatch(meta.key)]


async def _keys(store: ObjectStore, prefix: str) -> AsyncIterator[str]:
    async for page in store.list(prefix):
        for meta in page:
            yield meta.key


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
    async for page in _pages(files):
        for meta in page:
            if _MANIFEST.fullmatch(meta.key) and not meta.key.startswith(own):
                inner = meta.key.rpartition("/manifest/")[0]
                raise InvalidError(
                    f"{files.path!r} is not deleted, because database {inner!r} lies inside it; destroy that one first"
                )
