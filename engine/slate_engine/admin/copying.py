"""Deep copies: a database that begins as another one is, and shares nothing with it.

The objects come first and the manifest last, so a copy that is not finished is no database. A mark beside it says what it
is going to be. Whoever makes the same copy again copies only what is not there yet; whoever gives it up destroys it for
good, as if it were a database. Inside one store the service copies, without the bytes passing through here; to another
store they stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from uuid import UUID

from slate_engine.admin.checkpoints import CheckpointOptions, commit_checkpoint, delete_checkpoint, refresh_checkpoint
from slate_engine.admin.parents import neighbour, newest_or_none
from slate_engine.admin.transfers import AT_ONCE, Transfer, carry_out
from slate_engine.errors import Error, InvalidError
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import wal_ids
from slate_engine.runtime import uuid4
from slate_engine.state.checkpoints import check_usable
from slate_engine.state.commit import Versioned
from slate_engine.state.manifest import Manifest
from slate_engine.store.protocol import NotFound

log = logging.getLogger(__name__)

HOLD_MS = 3_600_000
"""The source keeps its state for so long, and is asked to keep it on while the copy lasts."""
BATCH = 16 * AT_ONCE
"""After so many objects we look whether the source has to be asked again."""

Progress = Callable[[int, int], None]
Move = Callable[[Sequence[Transfer], Callable[[], None]], Awaitable[None]]
"""Makes copies, and tells of each: here, or by others."""


def mark_key(target: DatabaseFiles) -> str:
    """The object that stands beside a copy from its first object until its end."""
    return target.paths.under("gc/copying")


async def copy_database(
    source: DatabaseFiles,
    target: DatabaseFiles,
    checkpoint: UUID | None = None,
    progress: Progress = lambda done, total: None,
    move: Move = carry_out,
) -> Versioned[Manifest]:
    """Make ``target`` a copy of the source as it is, or at a checkpoint. ``progress`` is told how many of how many objects
    are there. The service copies if both are in the very same ``store``. ``move`` is for those who have others copy."""
    mark = f"{source.store.url} {source.paths.root} {checkpoint or 'as it is'}".encode()
    standing = await newest_or_none(target.manifests)
    if standing is not None:
        await _check_ours(source, target, mark)
        return standing
    hold = uuid4(source.runtime)
    name = f"copying to {target.paths.root}"
    options = CheckpointOptions(HOLD_MS, source=checkpoint, name=name, id=hold, whole_log=True)
    held = await commit_checkpoint(source, options)
    try:
        kept = held.value.checkpoint(hold)
        assert kept is not None
        manifest = held.value if checkpoint is None else await source.manifests.read(kept.manifest_id)
        check_usable(manifest)
        await target.store.put(mark_key(target), mark)
        await _copy_objects(source, target, manifest, hold, progress, move)
        committed = await _commit(target, manifest)
    except (Exception, asyncio.CancelledError):
        with contextlib.suppress(Error):  # it expires by itself; what went wrong first is what the caller has to know
            await delete_checkpoint(source, hold)
        raise
    await target.store.delete([mark_key(target)])
    await delete_checkpoint(source, hold)
    return committed


async def _check_ours(source: DatabaseFiles, target: DatabaseFiles, mark: bytes) -> None:
    """A database with our mark is a copy of which only the end of the story was lost."""
    with contextlib.suppress(NotFound):
        if bytes((await target.store.get(mark_key(target))).data) == mark:
            await target.store.delete([mark_key(target)])
            return
    if source.store.url == target.store.url and source.paths == target.paths:
        # Not refused before: another endpoint may have a bucket of the same name, and that is another place.
        raise InvalidError(
            f"{source.path!r} cannot be copied to itself, nor to where a database stands already; choose another path"
        )
    raise InvalidError(f"at {target.path!r} there is a database already; choose another path, or destroy it")


async def _commit(target: DatabaseFiles, manifest: Manifest) -> Versioned[Manifest]:
    alone = replace(manifest, checkpoints=(), external_dbs=())
    committed = await target.manifests.create_first(alone)
    if committed.value is not alone:
        raise InvalidError(
            f"somebody made a database at {target.path!r} while it was being copied to; it was left alone"
        )
    return committed


async def _copy_objects(
    source: DatabaseFiles, target: DatabaseFiles, manifest: Manifest, hold: UUID, progress: Progress, move: Move
) -> None:
    ids = range(manifest.replay_after_wal_id + 1, manifest.wal_id_last_seen + 1)
    await _drop_other_log(target, ids)
    log_stores = source.wal_store or source.store, target.wal_store or target.store
    work = [transfer async for transfer in _missing_ssts(source, target, manifest)]
    total = len(manifest.ssts) + len(ids)
    present = len(manifest.ssts) - len(work)
    work += [Transfer(log_stores[0], source.paths.wal(id), log_stores[1], target.paths.wal(id)) for id in ids]

    def one_more() -> None:
        nonlocal present
        present += 1
        progress(present, total)

    progress(present, total)
    runtime = source.runtime
    renew_at = runtime.monotonic() + HOLD_MS / 3000
    for start in range(0, len(work), BATCH):
        await move(work[start : start + BATCH], one_more)
        if runtime.monotonic() >= renew_at:
            await refresh_checkpoint(source, hold, HOLD_MS)
            renew_at = runtime.monotonic() + HOLD_MS / 3000


async def _drop_other_log(target: DatabaseFiles, wanted: Sequence[int]) -> None:
    """An earlier attempt may have copied another part of the log, which whoever opens the copy would replay, too. A database
    has a manifest before it has a log: what lies here while there is none belongs to nobody."""
    store = target.wal_store or target.store
    others = [id for id in await wal_ids(store, target.paths, 0) if id not in wanted]
    if others and await newest_or_none(target.manifests) is None:
        log.warning("%d WAL files that an earlier copy left at %r are deleted", len(others), target.path)
        await store.delete([target.paths.wal(id) for id in others])


async def _missing_ssts(source: DatabaseFiles, target: DatabaseFiles, manifest: Manifest) -> AsyncIterator[Transfer]:
    """The SSTs that have yet to be copied; each lies with the source or with one of its parents."""
    present = {meta.key async for page in target.store.list(target.paths.compacted_directory + "/") for meta in page}
    parents = [neighbour(source, external.path).paths for external in manifest.external_dbs]
    for id, owner in zip(manifest.ssts.id, manifest.owners.tolist(), strict=True):
        destination = target.paths.compacted(id)
        if destination not in present:
            home = source.paths if owner < 0 else parents[owner]
            yield Transfer(source.store, home.compacted(id), target.store, destination)
