"""Whether the database that a process remembers is still there, or was deleted, and perhaps replaced by another one."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from slate_engine.errors import DatabaseDeleted
from slate_engine.runtime import Moment
from slate_engine.store.protocol import COPIED, NotFound, ObjectStore

if TYPE_CHECKING:
    from slate_engine.store.numbered import Numbered

_CLOCK_STEP_MS = 1000
"""Stores tell the times of objects in whole seconds."""

SHORTEST_DELETION = 5.0
"""Seconds that a deletion of a database takes at least, from the object that announces it to the end of the last one. See
``slate_engine.state.destroy.LINGER``."""


class Trace(Enum):
    """What a process finds in the place of an object that it remembers."""

    SAME = auto()
    TWIN = auto()
    """An object with the same bytes, that was created at another time."""
    OTHER = auto()
    NONE = auto()


class Presence:
    """Of the database whose numbered objects are in ``directory``, and its log in ``log_store``."""

    def __init__(self, store: ObjectStore, directory: str, log_store: ObjectStore) -> None:
        self._store = store
        self._log_store = log_store
        self._root = directory.removesuffix("/").rpartition("/")[0]
        self._learned = ("", 0)
        """When the store created the last object of this process, which its answer to a write does not tell; by its key."""

    def deleted(self) -> DatabaseDeleted:
        return DatabaseDeleted(self._root)

    async def trace(self, key: str, known: Numbered, confirmed: Moment) -> Trace:
        """Whether ``known``, which was the newest at ``confirmed``, is still what stands under ``key``."""
        try:
            meta = await self._store.head(key)
            if meta.etag != known.etag and bytes((await self._store.get(key)).data) != bytes(known.data):
                return Trace.OTHER
        except NotFound:
            return Trace.NONE
        if COPIED in dict(meta.attributes) or self._is_of_then(key, meta.last_modified_ms, known, confirmed):
            return Trace.SAME
        return Trace.TWIN

    def is_same(self, key: str, found: Numbered, known: Numbered, confirmed: Moment) -> bool:
        """The same, of an object that was read."""
        return found.etag == known.etag and self._is_of_then(key, found.modified_ms, known, confirmed)

    def _is_of_then(self, key: str, created_ms: int, known: Numbered, confirmed: Moment) -> bool:
        """The first objects of two databases have the same bytes, and in some stores the same etags, but not one time."""
        known_ms = known.modified_ms or (self._learned[1] if self._learned[0] == key else 0)
        if known_ms:
            return abs(created_ms - known_ms) <= _CLOCK_STEP_MS
        if confirmed.age() < SHORTEST_DELETION:
            self._learned = (key, created_ms)
        return True

    async def is_older(self, key: str, known: Numbered, confirmed: Moment) -> bool:
        """Whether the database has an object from before ``confirmed``, when ``known`` was the newest; by the clock of the
        store. That of ``key`` was created after it; raises ``NotFound`` if it is gone."""
        created_ms = (await self._store.head(key)).last_modified_ms
        before_ms = max(known.modified_ms + 1, created_ms - int(confirmed.age() * 1000) - _CLOCK_STEP_MS)
        for store, name in ((self._store, "compacted"), (self._log_store, "wal"), (self._store, "gc")):
            async for page in store.list(f"{self._root}/{name}/" if self._root else f"{name}/"):
                if any(meta.last_modified_ms < before_ms for meta in page):
                    return True
        return False
