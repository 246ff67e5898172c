"""The databases that a clone shows SSTs of, and the checkpoints by which they keep these."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TypeVar

from slate_engine.errors import DatabaseDeleted
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.checkpoints import without_checkpoint
from slate_engine.state.commit import NothingStored, StateStore, Versioned
from slate_engine.state.manifest import ExternalDb, Manifest
from slate_engine.store.boundary import BoundaryLost
from slate_engine.store.numbered import BoundaryAhead

T = TypeVar("T")

PERHAPS_DELETED = (NothingStored, BoundaryAhead, BoundaryLost, DatabaseDeleted)
"""What a process gets to see that works on a database while another one deletes it; or a loss, which only a fresh look
tells."""


def neighbour(files: DatabaseFiles, path: str) -> DatabaseFiles:
    """Another database in the same store."""
    return DatabaseFiles(files.store, path, files.runtime, wal_store=files.wal_store)


async def newest_or_none(states: StateStore[T]) -> Versioned[T] | None:
    """The newest state; None if there is no database, or not any more: a boundary may be left of it, or be gone although
    we have seen it."""
    try:
        return await states.latest()
    except (BoundaryAhead, BoundaryLost, DatabaseDeleted):
        if await states.objects.list():
            raise
        return None


async def newest_afresh(files: DatabaseFiles) -> tuple[DatabaseFiles, Versioned[Manifest] | None]:
    """The same as one sees it who has never seen the database before, and his files of it. While somebody deletes it for
    good, its boundary may go during the very look; to a second one it is not missing."""
    for _ in range(2):
        afresh = neighbour(files, files.path)
        try:
            return afresh, await newest_or_none(afresh.manifests)
        except BoundaryLost as loss:
            lost = loss
    raise lost


async def release_parents(files: DatabaseFiles, parents: Iterable[ExternalDb]) -> None:
    """Delete the checkpoints by which these keep SSTs for this database. Those that are gone already need nothing."""
    for parent in parents:
        final = parent.final_checkpoint_id
        if final is None:
            continue
        manifests = neighbour(files, parent.path).manifests
        if await newest_or_none(manifests) is None:
            continue
        try:
            await manifests.update(partial(without_checkpoint, id=final))
        except PERHAPS_DELETED:
            # Somebody deletes it this very moment: then it needs nothing, either.
            if await newest_or_none(manifests) is not None:
                raise
