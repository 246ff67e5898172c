"""Deleting the objects of a database for good, in an order that never shows a living database where there is none."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from slate_engine.admin.copying import mark_key
from slate_engine.admin.ownership import owner_key
from slate_engine.lsm.fencing import close_log
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.tenure import Tenure
from slate_engine.runtime import Moment
from slate_engine.state.destroy import LINGER
from slate_engine.state.manifest import Manifest
from slate_engine.store.boundary import Boundary, BoundaryLost
from slate_engine.store.protocol import ObjectMeta, ObjectStore

BATCH = 1000
"""Objects in one request to delete, as many as S3 takes."""

_OWN = re.compile(r"(manifest|compactions|wal|compacted|gc)/[^/]*|\.deleting")


class Deletion:
    """Deletes the objects of a database, in an order in which no process takes it for alive; ``gone`` are their names."""

    def __init__(self, files: DatabaseFiles, deleted: Callable[[Sequence[str]], None]) -> None:
        self._files = files
        self._deleted = deleted
        self._manifests = files.paths.manifest + "/"
        self._closed = Moment(files.runtime)
        self._last: set[str] = {files.paths.boundary("manifest")}
        """What goes at the end, only before the newest manifest: what tells processes that the database is closed, and whose
        it is. The operator waits for its own databases only. The boundary of the compactions goes with them: with nothing
        behind it, a worker that has seen it would take "missing" for "unchanged"."""
        self._last.add(owner_key(files))
        self.gone: list[str] = []

    async def give_up_before(self, mark: int) -> None:
        """Give up the ids of all manifests before the mark. A process that has seen a boundary, and remembers an older
        manifest, would take a deleted successor for one that never was, and not find the mark. Where there is no boundary,
        no process relies on one."""
        boundary = Boundary(self._files.store, self._files.paths.root, "manifest", self._files.runtime)
        with contextlib.suppress(BoundaryLost):  # another process deletes the database at the same time, and is further
            await boundary.read()
            if boundary.was_seen:
                await boundary.advance(mark - 1)

    async def close(self, destroyed: Manifest) -> None:
        """No writer of before adds to the log any more. The mark has shut out everything else."""
        ends = await close_log(Tenure(self._files, destroyed.writer_epoch))
        self._last |= {self._files.paths.wal(id) for id in ends}
        self._closed = Moment(self._files.runtime)

    async def linger(self) -> None:
        await self._files.runtime.sleep(max(0.0, LINGER - self._closed.awake()))

    async def sweep(self, *, final: bool = False) -> None:
        """All but what goes at the end, and the last manifest before the mark: it leads others to that."""
        files = self._files
        manifests = [key async for key in _keys(files.store, self._manifests)]
        await self._delete(files.store, manifests[: -1 if final else -2])
        if files.wal_store is not None:
            await self._delete(files.wal_store, [key async for key in _keys(files.wal_store, self._logs)], self._last)
        async for page in pages(files):
            keys = [meta.key for meta in page if not meta.key.startswith(self._manifests)]
            await self._delete(files.store, keys, self._last)

    async def finish(self) -> list[str]:
        files, self._last = self._files, set()
        await self.sweep(final=True)
        await self._delete(files.store, [key async for key in _keys(files.store, self._manifests)])
        strays = [meta.key async for page in pages(files) for meta in page]
        if not {files.manifests.objects.key(1), mark_key(files)} & set(strays):
            # No new database, and no copy that becomes one: these were on their way when all else was deleted.
            await self._delete(files.store, strays)
        return self.gone

    @property
    def _logs(self) -> str:
        return self._files.paths.wal_directory + "/"

    async def _delete(self, store: ObjectStore, keys: Sequence[str], but: Collection[str] = ()) -> None:
        keys = [key for key in keys if key not in but]
        for start in range(0, len(keys), BATCH):
            batch = keys[start : start + BATCH]
            await store.delete(batch)
            self._deleted(batch)
            self.gone.extend(batch)


async def pages(files: DatabaseFiles) -> AsyncIterator[list[ObjectMeta]]:
    """All that belongs to the database. At the root of a store that is only what bears the names of one."""
    root = files.paths.root
    async for page in files.store.list(f"{root}/" if root else ""):
        yield page if root else [meta for meta in page if _OWN.fullmatch(meta.key)]


async def _keys(store: ObjectStore, prefix: str) -> AsyncIterator[str]:
    async for page in store.list(prefix):
        for meta in page:
            yield meta.key
