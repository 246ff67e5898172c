"""What operations do, in terms of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.admin.copying import copy_database
from slate_engine.admin.destroying import destroy_hard, destroy_softly, undelete
from slate_engine.admin.parents import newest_afresh
from slate_engine.admin.restoring import RestoreOptions, restore
from slate_engine.gc.collector import collect_once
from slate_engine.gc.options import GcOptions, dry
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.server.admin.operations import Progress
from slate_engine.server.admin.requests import (
    CloneOperation,
    CollectOperation,
    CopyOperation,
    DestroyOperation,
    RestoreOperation,
    UndeleteOperation,
    Work,
)
from slate_engine.server.http.problems import Problem
from slate_engine.state.commit import NothingStored
from slate_engine.state.destroy import claimed_for_deletion
from slate_engine.state.manifest import Manifest
from slate_engine.state.tombstone import Tombstone, life_of

_WORK: TypeAdapter[Any] = TypeAdapter(Work)


class Workbench:
    """Carries out the work of one database's operations."""

    def __init__(self, files: DatabaseFiles, collection: GcOptions) -> None:
        self._files = files
        self._collection = collection

    async def carry(self, work: Mapping[str, Any], id: UUID, progress: Progress) -> Mapping[str, Any]:
        match _WORK.validate_python(dict(work)):
            case CloneOperation() as wanted:
                return await self._clone(wanted, id)
            case CopyOperation() as wanted:
                made = await copy_database(self._files, self._at(wanted.target), wanted.checkpoint, progress, id=id)
                return {"path": wanted.target, "manifest_id": made.id}
            case DestroyOperation(mode="soft"):
                return {"destroyed_at_s": await destroy_softly(self._files)}
            case DestroyOperation() as wanted:
                return await self._destroy_for_good(wanted.destroyed_at_s)
            case UndeleteOperation():
                await undelete(self._files)
                return {}
            case RestoreOperation() as wanted:
                # The operation's id is the kept checkpoint's, so a repetition does not keep it twice.
                options = RestoreOptions(keep_id=id, lifetime_ms=milliseconds(wanted.keep_seconds))
                restored = await restore(self._files, wanted.checkpoint, options)
                return {"manifest_id": restored.manifest_id, "kept": str(restored.kept)}
            case CollectOperation() as wanted:
                return await self._collect(wanted.dry_run)
        raise AssertionError(f"work of an unknown kind: {work!r}")

    async def _clone(self, wanted: CloneOperation, id: UUID) -> Mapping[str, Any]:
        sources = [CloneSource(source.path, source.checkpoint) for source in wanted.sources]
        sources = sources or [CloneSource(self._files.path, wanted.checkpoint)]
        # The operation's id, so a repetition knows the clone that it has made before.
        made = await create_clone(self._at(wanted.target), sources, id=id)
        return {"path": wanted.target, "manifest_id": made.id}

    async def _destroy_for_good(self, destroyed_at_s: int | None) -> Mapping[str, Any]:
        """That nothing is there is what was wanted: the client may not have heard of it, and asks again."""
        files, newest = await newest_afresh(self._files)
        if newest is None:
            # A deletion takes the manifest last, and a copy writes it last: what is here without one is not what was meant.
            return {"objects": 0}
        try:
            if destroyed_at_s is None:
                destroyed_at_s = await _mark_unnamed(files)
            return {"objects": len(await destroy_hard(self._files, destroyed_at_s=destroyed_at_s))}
        except NothingStored:
            return {"objects": 0}

    async def _collect(self, dry_run: bool) -> Mapping[str, Any]:
        report = await collect_once(self._files, dry(self._collection) if dry_run else self._collection)
        if report.errors:
            raise report.errors[0]
        return {
            "objects": sum(len(kind.garbage) for kind in report.kinds),
            "size_bytes": report.size,
            "kinds": {kind.kind.value: len(kind.garbage) for kind in report.kinds},
            "gone": report.gone,
            "waiting": report.waiting,
        }

    def _at(self, path: str) -> DatabaseFiles:
        files = self._files
        return DatabaseFiles(files.store, path, files.runtime, wal_store=files.wal_store)


async def _mark_unnamed(files: DatabaseFiles) -> int:
    """Mark what a request may delete that names no destruction; gives the second of the mark."""
    marked = await files.manifests.update(partial(_marked_unnamed, now_ms=files.runtime.now_ms()))
    tombstone = Tombstone.of(marked.value)
    assert tombstone is not None
    return tombstone.destroyed_at_s


def _marked_unnamed(manifest: Manifest, *, now_ms: int) -> Manifest:
    """Only what can hold no rows that a writer has acknowledged: a client that did not hear the answer asks again, and by
    then the next database may be at this path."""
    life = life_of(manifest)
    if life not in ("under construction", "being deleted"):
        raise Problem(
            409,
            "destruction-not-named",
            "The request does not say what is meant",
            f"nothing is deleted: the database is {life}, and may be another one than the one that was meant. Destroy it "
            "softly first, and give the destroyed_at_s that /v1/status tells then",
        )
    return claimed_for_deletion(manifest, now_ms=now_ms)


def milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
