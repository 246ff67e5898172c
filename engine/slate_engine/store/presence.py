"""Whether the database that a process remembers is still there, or was deleted, and perhaps replaced by another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slate_engine.errors import DatabaseDeleted
from slate_engine.runtime import Moment
from slate_engine.store.protocol import NotFound, ObjectStore

if TYPE_CHECKING:
    from slate_engine.store.numbered import Numbered

_CLOCK_STEP_MS = 1000
"""Stores tell the times of objects in whole seconds."""


class Presence:
    """Of the database whose numbered objects are in ``directory``."""

    def __init__(self, store: ObjectStore, directory: str) -> None:
        self._store = store
        self._root = directory.removesuffix("/").rpartition("/")[0]

    def deleted(self) -> DatabaseDeleted:
        return DatabaseDeleted(self._root)

    async def has(self, key: str, known: Numbered) -> bool:
        """Whether this very object still exists under ``key``, and not another one of the same number."""
        try:
            if (await self._store.head(key)).etag == known.etag:
                return True
            return bytes((await self._store.get(key)).data) == bytes(known.data)
        except NotFound:
            return False

    async def is_older(self, key: str, known: Numbered, confirmed: Moment) -> bool:
        """Whether the database has an object from before ``confirmed``, when ``known`` was the newest; by the clock of the
        store. That of ``key`` was created after it; raises ``NotFound`` if it is gone."""
        created_ms = (await self._store.head(key)).last_modified_ms
        before_ms = max(known.modified_ms + 1, created_ms - int(confirmed.awake() * 1000) - _CLOCK_STEP_MS)
        for name in ("compacted", "wal", "gc"):
            async for page in self._store.list(f"{self._root}/{name}/" if self._root else f"{name}/"):
                if any(meta.last_modified_ms < before_ms for meta in page):
                    return True
        return False
