"""Clones (RFC-0004): a new database that begins as another one is, and shares its SSTs until it has rewritten them.

The steps, in an order in which a crash after any of them does no harm: keep the parents' state by checkpoints that expire
soon; commit the clone's first manifest, not initialized, which names the final checkpoints; make these in the parents; copy
the WAL; commit the manifest as initialized. A client that makes the clone again goes on where the first attempt stopped.
What an attempt leaves behind that did not come to the first manifest expires by itself.

However many SSTs there are, it takes thirty requests, four of which write, and one copy for each WAL file whose rows are in
no SST yet. Every further source or grandparent adds a constant number.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from slate_engine.admin.checkpoints import CheckpointOptions, commit_checkpoint, delete_checkpoint, read_kept
from slate_engine.admin.clone_request import CloneRequest, CloneSource
from slate_engine.admin.parents import neighbour, newest_or_none, release_parents
from slate_engine.admin.transfers import Transfer, carry_out
from slate_engine.errors import DataError, InvalidError
from slate_engine.format.key_range import ALL, KeyRange
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import check_present, replay_in_order, wal_ids
from slate_engine.runtime import uuid4
from slate_engine.state.checkpoints import (
    CheckpointExpired,
    CheckpointMissing,
    NotInitialized,
    check_usable,
    with_checkpoint,
    without_checkpoint,
)
from slate_engine.state.clones import Source, cloned, finished, projected, united, without_log
from slate_engine.state.commit import NothingStored, Versioned
from slate_engine.state.manifest import FOR_CLONE, ExternalDb, Manifest
from slate_engine.state.tombstone import Destroyed, check_alive

log = logging.getLogger(__name__)

SOURCE_LIFETIME_MS = 300_000
"""How long a parent keeps its present state for a clone that has not named its final checkpoint there yet."""


class NotThisClone(InvalidError):
    """Another database stands where the clone should be."""


async def create_clone(
    files: DatabaseFiles, sources: Sequence[CloneSource], keys: KeyRange = ALL, *, id: UUID | None = None
) -> Versioned[Manifest]:
    """Make ``files`` a clone of the sources, cut down to ``keys``; several sources must have disjoint keys. Returns its
    manifest.

    A clone that stands at the path, begun or finished, counts only if it was made for the same request: under the same
    ``id``, or from the same named checkpoints with the same keys. Otherwise it raises :class:`NotThisClone`. Without an id,
    a clone of these sources that is begun counts, too; it is finished with the state that it was begun with."""
    request = CloneRequest.of(sources, keys, id)
    if files.paths.root in {source.path for source in request.sources}:
        raise InvalidError(f"{files.path!r} cannot be a clone of itself; give the clone a path of its own")
    begun = await newest_or_none(files.manifests)
    if begun is not None and begun.value.initialized:
        await _check_made(files, begun.value, request)
        return begun
    if begun is None:
        first = await _first_manifest(files, request)
        standing = await files.manifests.create_first(first)
        _check_own(files, standing.value, first, request)
    else:
        _check_begun(files, begun.value, request)
        # None: no parent keeps the state that it was begun with, so it begins again below.
        wanted = await _shows_wanted(files, begun.value, request)
        standing = await _begin_again(files, begun, request) if wanted is False else begun
    standing = await _attach(files, standing, request)
    await _copy_log(files, request.sources[0].path, standing.value)
    finals = _finals(standing.value)

    def finish(old: Manifest) -> Manifest:
        check_alive(old, files.path)  # somebody may have given it up, and be deleting it
        if _finals(old) != finals:
            raise NotThisClone(f"{files.path!r} was changed while the clone was being made; make it again")
        return finished(old)

    return await files.manifests.update(finish)


# --- the first manifest ----------------------------------------------------------------------------------------------


async def _first_manifest(files: DatabaseFiles, request: CloneRequest) -> Manifest:
    held: list[tuple[DatabaseFiles, UUID]] = []
    try:
        found = [await _source(files, source, request, held) for source in request.sources]
        return _assembled(files, found, request)
    except InvalidError:
        # Nothing will come of it, so nobody need wait until these expire.
        for parent, id in held:
            await delete_checkpoint(parent, id)
        raise


def _assembled(files: DatabaseFiles, sources: Sequence[Source], request: CloneRequest) -> Manifest:
    def new_id() -> UUID:
        return request.final_checkpoint_id(files.runtime)

    return cloned(sources[0], new_id, files.runtime) if request.alone else united(sources, new_id, files.runtime)


async def _source(
    files: DatabaseFiles, source: CloneSource, request: CloneRequest, held: list[tuple[DatabaseFiles, UUID]]
) -> Source:
    parent = neighbour(files, source.path)
    wanted = request.keys_of(source)
    if wanted is None:
        raise InvalidError(f"of {source.path!r} no key is wanted: the ranges have none in common; leave it out")
    newest = await newest_or_none(parent.manifests)
    if newest is None:
        raise NothingStored(f"there is no database at {source.path!r} in {files.store.url} to clone")
    check_usable(newest.value, source.path)
    if source.checkpoint is not None:
        id, manifest = source.checkpoint, await read_kept(parent, newest.value, source.checkpoint)
        await check_present(parent.log_store, parent.paths, manifest.needed_wal_ids)
    else:
        id = uuid4(files.runtime)
        options = CheckpointOptions(SOURCE_LIFETIME_MS, name=_source_name(files), id=id, whole_log=True)
        manifest = (await commit_checkpoint(parent, options)).value
        held.append((parent, id))
    if wanted != ALL or not request.alone:
        await _check_log(parent, manifest)
        manifest = without_log(manifest)
    return Source(source.path, id, manifest if wanted == ALL else projected(manifest, wanted, files.runtime))


async def _check_log(parent: DatabaseFiles, manifest: Manifest) -> None:
    """WAL files cannot be cut down to a range, nor can those of several databases be replayed as one."""
    store, ids = parent.log_store, manifest.needed_wal_ids
    if len(await replay_in_order(store, parent.paths, ids, manifest.last_l0_seq, parent.runtime)):
        raise InvalidError(
            f"{parent.path!r} has rows that are in its WAL only, so no part of it can be cloned yet; flush its memtable, or "
            "take a checkpoint that was made after a flush"
        )


# --- the parents -----------------------------------------------------------------------------------------------------


def _source_name(files: DatabaseFiles) -> str:
    return f"cloning to {files.paths.root}"


async def _attach(files: DatabaseFiles, standing: Versioned[Manifest], request: CloneRequest) -> Versioned[Manifest]:
    """Have every parent keep, without end, what the clone shows of it. Returns the manifest for which they do."""
    while True:
        try:
            for external in standing.value.external_dbs:
                await _keep(files, external)
            return standing
        except (CheckpointMissing, CheckpointExpired) as gone:
            # An earlier attempt came so far and no further, and the parents have not waited.
            await release_parents(files, standing.value.external_dbs)
            if any(source.checkpoint == gone.id for source in request.sources):
                raise
            standing = await _begin_again(files, standing, request)
        except (Destroyed, NotInitialized, NothingStored):
            await release_parents(files, standing.value.external_dbs)
            raise


async def _keep(files: DatabaseFiles, external: ExternalDb) -> None:
    final = external.final_checkpoint_id
    if final is None:
        return
    parent = neighbour(files, external.path)

    def change(old: Manifest) -> Manifest:
        # Also if the checkpoint is there already: nothing is begun with a database that is going to be deleted.
        check_usable(old, external.path)
        source = external.source_checkpoint_id
        name = f"{FOR_CLONE}{files.paths.root}"
        new = with_checkpoint(old, id=final, now_ms=files.runtime.now_ms(), source=source, name=name)
        known = old.checkpoint(source)
        ours = new is not old and known is not None and known.name == _source_name(files)
        return without_checkpoint(new, source) if ours else new

    await parent.manifests.update(change)


async def _begin_again(
    files: DatabaseFiles, standing: Versioned[Manifest], request: CloneRequest
) -> Versioned[Manifest]:
    log.warning("clone %r begins again: its first state is not kept any more, or has other keys", files.path)
    first = await _first_manifest(files, request)
    given_up = standing.value.external_dbs

    def change(old: Manifest) -> Manifest:
        check_alive(old, files.path)
        if old.initialized or _finals(old) != _finals(standing.value):
            return old  # another client was faster
        return replace(
            first,
            writer_epoch=max(old.writer_epoch, first.writer_epoch),
            compactor_epoch=max(old.compactor_epoch, first.compactor_epoch),
        )

    committed = await files.manifests.update(change)
    await release_parents(
        files, [each for each in given_up if each.final_checkpoint_id not in _finals(committed.value)]
    )
    _check_own(files, committed.value, first, request)
    return committed


def _check_own(files: DatabaseFiles, standing: Manifest, first: Manifest, request: CloneRequest) -> None:
    """Of two clients that begin at once, the slower one must not finish what the other has begun for another request.
    Without an id, the clone must show what this client has just found, its log included."""
    check_alive(standing, files.path)
    if _finals(standing) == _finals(first) or request.made(standing):
        return
    same = standing.trees.shows_same(first.trees) and standing.needed_wal_ids == first.needed_wal_ids
    if request.id is not None or not same or standing.writer_epoch > first.writer_epoch:
        raise NotThisClone(f"another client makes a clone at {files.path!r} for another request; choose another path")


def _check_begun(files: DatabaseFiles, begun: Manifest, request: CloneRequest) -> None:
    """A clone that is begun must be one of the same sources, and of the same request as far as ids tell."""
    _check_sources(files, begun, request)
    if request.made(begun) or request.names_all_checkpoints:
        return
    if request.id is not None:
        raise NotThisClone(
            f"at {files.path!r} a clone is begun for another request, and it may show an older state; wait until it is "
            "finished, destroy it, or choose another path"
        )
    log.warning("clone %r was begun before; it is finished with the state of that time", files.path)


async def _shows_wanted(files: DatabaseFiles, begun: Manifest, request: CloneRequest) -> bool | None:
    """Whether a clone shows the keys that the request wants, of the state that it began with. None if no parent keeps that
    state any more: then a clone that is begun has to begin again anyway."""
    found: list[Source] = []
    for source in request.sources:
        entries = [each for each in begun.external_dbs if each.path == source.path]
        if len(entries) != 1:
            return False
        try:
            state = await _begun_with(files, entries[0], source, request)
        except (Destroyed, NotInitialized, NothingStored):
            return None
        if state is None:
            return None
        found.append(state)
    wanted = _assembled(files, found, request)
    if begun.initialized and begun.writer_epoch > wanted.writer_epoch:
        return False  # a writer has opened it: the log may hold rows of its own, which the views do not tell
    # Every attempt draws new view ids: what the views show tells.
    return wanted.trees.shows_same(begun.trees)


async def _begun_with(
    files: DatabaseFiles, entry: ExternalDb, source: CloneSource, request: CloneRequest
) -> Source | None:
    """The state that a clone was begun with, if the parent keeps it still: by the final checkpoint, or by the first."""
    named = (entry.final_checkpoint_id, entry.source_checkpoint_id)
    for id in (each for each in named if each is not None):
        with contextlib.suppress(CheckpointMissing, CheckpointExpired):
            return await _source(files, replace(source, checkpoint=id), request, [])
    return None


def _finals(manifest: Manifest) -> frozenset[UUID | None]:
    return frozenset(external.final_checkpoint_id for external in manifest.external_dbs)


def _check_sources(files: DatabaseFiles, manifest: Manifest, request: CloneRequest) -> None:
    """What stands there must be a clone of the same databases."""
    check_alive(manifest, files.path)
    for source in request.sources:
        if not any(
            external.path == source.path and source.checkpoint in (None, external.source_checkpoint_id)
            for external in manifest.external_dbs
        ):
            at = f" at checkpoint {source.checkpoint}" if source.checkpoint is not None else ""
            raise NotThisClone(
                f"at {files.path!r} there is a database already, and it is no clone of {source.path!r}{at}; choose another "
                "path, or destroy that database"
            )


async def _check_made(files: DatabaseFiles, manifest: Manifest, request: CloneRequest) -> None:
    """A finished clone must have been made for this very request. Of another one it may show an older state."""
    check_alive(manifest, files.path)
    if not request.made(manifest):
        _check_sources(files, manifest, request)
        if not request.names_all_checkpoints or await _shows_wanted(files, manifest, request) is not True:
            paths = " and ".join(repr(source.path) for source in request.sources)
            raise NotThisClone(
                f"at {files.path!r} there is a finished clone of {paths} already, and it is not known to show what is asked "
                "for now; choose another path, or destroy that database. To repeat a request safely, give it an id (--id)"
            )
    await _check_kept(files, manifest)


async def _check_kept(files: DatabaseFiles, manifest: Manifest) -> None:
    for external in manifest.external_dbs:
        final = external.final_checkpoint_id
        if final is None or not len(external.sst_ids):
            continue
        parent = await newest_or_none(neighbour(files, external.path).manifests)
        if parent is None or parent.value.checkpoint(final) is None:
            raise DataError(
                f"clone {files.path!r} is made, but {external.path!r} does not keep its SSTs any more: checkpoint {final} "
                "is gone there; destroy the clone, and make another"
            )


# --- the log ---------------------------------------------------------------------------------------------------------


async def _copy_log(files: DatabaseFiles, source: str, manifest: Manifest) -> None:
    store, origin, ids = files.log_store, neighbour(files, source).paths, manifest.needed_wal_ids
    await carry_out([Transfer(store, origin.wal(id), store, files.paths.wal(id)) for id in ids])
    behind = await wal_ids(store, files.paths, manifest.wal_id_last_seen)
    # A clone that somebody else has finished meanwhile may have a writer already; then they are its own.
    if behind and not (await files.manifests.read_latest()).value.initialized:
        raise NotThisClone(
            f"behind the log of clone {files.path!r} there are WAL files from {behind[0]} on that an earlier attempt left, "
            "and they would be replayed; destroy the clone for good, and make it again"
        )
