"""Numbered objects: ``<directory>/00000000000000000007.<extension>``, each the successor of the one before.

This is how SlateDB commits a manifest or a compactions file: read the newest, create the next id, and if somebody else was
faster, read and try again. Ids are consecutive, so an id whose successor does not exist is the newest. Two things keep
that true although old objects are deleted:

* a write at or below the :class:`~slate_engine.store.boundary.Boundary` counts as lost, even if the name was free;
* the newest at or below the boundary cannot be the newest, it is merely what a stale view shows.

**Finding the newest** without a listing: remember the newest, and ask for its successor. "Not found" proves that nothing is
newer, provided that the successor was not created *and deleted* since; in that case the boundary, read after that answer,
has reached it. So a poll of an unchanged namespace is one GET that finds nothing and one conditional GET of the boundary.
Where that proof does not hold, the answer comes from a listing: without a boundary, and when the memory is so old that a
collector which keeps no boundaries (SlateDB's, on local files) may have deleted the successor unseen.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass

from slate_engine.errors import DataError, InvalidError
from slate_engine.runtime import Runtime
from slate_engine.store.boundary import MAX_ID, Boundary
from slate_engine.store.protocol import CREATE, Buffer, Conflict, NotFound, ObjectMeta, ObjectStore, StoreUnavailable

log = logging.getLogger(__name__)
_DIGITS = re.compile(r"[0-9]{20}")
_READS = 10


class StaleWrite(Conflict):
    """The object was created, but its id is at or below the boundary: the write came too late, and counts as lost."""

    def __init__(self, key: str, id: int, boundary: int) -> None:
        super().__init__(key, CREATE)
        self.id = id
        self.boundary = boundary
        self.message = (
            f"object {key} was created too late: ids up to {boundary} may have been deleted, so this write counts as lost; "
            "read the newest state and apply the change to it"
        )
        self.args = (self.message,)


class BoundaryAhead(DataError):
    """The boundary has reached the newest object, so no state counts as valid. Somebody advanced it too far, or deleted
    or lost the newest objects."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A numbered object as it was read."""

    id: int
    data: Buffer
    etag: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A numbered object as a listing shows it."""

    id: int
    meta: ObjectMeta


class NumberedObjects:
    """One namespace: all ``*.extension`` files in ``directory``, kept safe by ``boundary``.

    ``boundary=None`` is for namespaces without one; then nothing stops a writer that stalled past a deletion. ``patience``
    is how long :meth:`latest` waits for a newest object that is above the boundary; ``remember`` for how many seconds the
    newest is trusted without a listing, and is to stay below the age at which collectors delete (300 s in SlateDB).
    """

    def __init__(
        self,
        store: ObjectStore,
        directory: str,
        extension: str,
        boundary: Boundary | None,
        runtime: Runtime,
        *,
        patience: float = 5.0,
        remember: float = 60.0,
    ) -> None:
        self._store = store
        self._directory = directory.rstrip("/") + "/"
        self._extension = extension
        self._boundary = boundary
        self._runtime = runtime
        self._patience = patience
        self._remember_ms = int(remember * 1000)
        self._newest: Numbered | None = None
        self._taken = 0
        self._confirmed_ms = 0
        self._warned = False

    def key(self, id: int) -> str:
        if not 0 <= id <= MAX_ID:
            raise InvalidError(f"{id} is not an id: ids are numbers of 64 bits")
        return f"{self._directory}{id:020d}.{self._extension}"

    async def latest(self) -> Numbered | None:
        """The newest object, or None if there has never been one."""
        deadline = self._runtime.monotonic() + self._patience
        delay = 0.01
        while True:
            asked_ms = self._runtime.now_ms()
            newest = await self._follow() if self._trusted(asked_ms) else await self._search()
            boundary = await self._boundary.read() if self._boundary else 0
            if newest is None and boundary == 0:
                return None
            if newest is not None and newest.id > boundary:
                self._keep(newest, asked_ms)
                return newest
            # A collector and writers went past while we looked; look again, from a listing.
            self._newest = None
            if self._runtime.monotonic() >= deadline:
                await self._check_not_ahead(boundary)
            await self._runtime.sleep(self._runtime.uniform(delay / 2, delay))
            delay = min(delay * 2, 0.5)

    async def read(self, id: int) -> Numbered:
        """The object with this id, wherever the boundary is: checkpoints keep old manifests alive. Raises ``NotFound``."""
        found = await self._store.get(self.key(id))
        return Numbered(id, found.data, found.meta.etag)

    async def list(self, first: int = 0, last: int = MAX_ID) -> list[Entry]:
        """The objects with ids from ``first`` to ``last``, both included, in order."""
        entries: list[Entry] = []
        async for page in self._store.list(self._directory, start_after=self.key(first - 1) if first > 0 else ""):
            for meta in page:
                id = self._id(meta.key)
                if id is None:
                    continue
                if id > last:
                    return entries
                entries.append(Entry(id, meta))
        return entries

    async def create_next(self, after_id: int, data: Buffer) -> int:
        """Create the successor of ``after_id`` (0 for the first) and return its id.

        Raises :class:`Conflict` if somebody else did, or :class:`StaleWrite` if it was done and undone long ago.
        """
        id = after_id + 1
        key = self.key(id)
        asked_ms = self._runtime.now_ms()
        try:
            etag = await self._store.put(key, data, CREATE)
        except Conflict:
            self._taken = id
            raise
        if self._boundary is not None:
            boundary = await self._confirm(key, self._boundary)
            if id <= boundary:
                self._newest = None
                self._boundary.reject(key, boundary)
                raise StaleWrite(key, id, boundary)
        self._keep(Numbered(id, data, etag), asked_ms)
        return id

    async def advance_boundary(self, to: int) -> int:
        """Give up all ids up to ``to``, which has to be below the newest. Returns the durable boundary."""
        if self._boundary is None:
            raise InvalidError(f"{self._directory} has no boundary to advance")
        newest = await self._newest_id()
        if newest is None or to >= newest:
            raise InvalidError(
                f"the boundary of {self._directory} cannot go to {to}: the newest id is {newest}, and has to stay above it"
            )
        return await self._boundary.advance(to)

    async def delete(self, ids: Iterable[int]) -> None:
        """Delete these, all of which have to be given up already (``advance_boundary``). The newest is never deleted."""
        doomed = sorted(set(ids))
        if not doomed:
            return
        newest = await self._newest_id()
        if newest is not None and doomed[-1] >= newest:
            raise InvalidError(
                f"{self.key(doomed[-1])} is not deleted: the newest is {newest}, and it and what follows stay"
            )
        if self._boundary is not None:
            boundary = await self._boundary.read()
            if doomed[-1] > boundary:
                raise InvalidError(
                    f"{self.key(doomed[-1])} is not deleted: its boundary is {boundary}; advance it to {doomed[-1]} first"
                )
        await self._store.delete([self.key(id) for id in doomed])

    @staticmethod
    async def _confirm(key: str, boundary: Boundary) -> int:
        try:
            return await boundary.read()
        except StoreUnavailable as failure:
            raise StoreUnavailable(
                f"object {key} was created, but its boundary could not be read: {failure}; read the newest state anew",
                retryable=failure.retryable,
                unknown_outcome=True,
            ) from failure

    async def _follow(self) -> Numbered | None:
        """From the remembered newest to the present one: one GET if nothing changed, two if there is one new object."""
        newest = self._newest
        assert newest is not None
        try:
            newest = await self.read(newest.id + 1)
            await self._store.head(self.key(newest.id + 1))
        except NotFound:
            # One that we have met ourselves and that is gone again: what we remember is of the past, or of a namespace that
            # somebody has deleted. Then only a listing tells.
            return newest if newest.id >= self._taken else await self._search()
        return await self._search(above=newest.id) or newest

    async def _search(self, above: int | None = None) -> Numbered | None:
        """The newest by listing, from the boundary on: what is below does not matter here."""
        if above is None:
            above = await self._boundary.read() if self._boundary else 0
        for _ in range(_READS):
            entries = await self.list(above + 1)
            if not entries:
                return None
            try:
                return await self.read(entries[-1].id)
            except NotFound:
                continue  # deleted between listing and reading, so there must be newer ones
        raise StoreUnavailable(
            f"{self.key(entries[-1].id)} is listed but cannot be read; is something deleting objects?"
        )

    async def _newest_id(self) -> int | None:
        entries = await self.list()
        return entries[-1].id if entries else None

    def _trusted(self, now_ms: int) -> bool:
        return (
            self._boundary is not None
            and self._newest is not None
            and self._newest.id < MAX_ID
            and 0 <= now_ms - self._confirmed_ms < self._remember_ms
        )

    def _keep(self, newest: Numbered, confirmed_ms: int) -> None:
        # Calls may overtake each other; what is older than the memory adds nothing to it.
        if self._newest is None or newest.id >= self._newest.id:
            self._newest, self._confirmed_ms = newest, confirmed_ms

    def _id(self, key: str) -> int | None:
        stem, dot, extension = key.removeprefix(self._directory).partition(".")
        if dot and extension == self._extension and _DIGITS.fullmatch(stem) and int(stem) <= MAX_ID:
            return int(stem)
        if not self._warned:
            self._warned = True
            log.warning("%s is not named like the objects here; it and others like it are passed over", key)
        return None

    async def _check_not_ahead(self, boundary: int) -> None:
        """Raises :class:`BoundaryAhead`, unless others only are faster than we can look."""
        newest = await self._newest_id()
        if newest is not None and newest > boundary:
            return
        found = f"its newest object is {newest}" if newest is not None else "it holds no objects"
        name = self._boundary.key if self._boundary else ""
        raise BoundaryAhead(
            f"{self._directory} is given up to id {boundary} by {name}, but {found}. Restore the newer objects if they were "
            "lost; if the number was set too high, stop all writers and collectors and set it below the newest id"
        )
