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

**Missing is not unchanged.** "Not found" is also what an empty folder answers. A boundary that was seen and is gone tells.
Where none was ever seen, a look also asks for the object that it remembers (one HEAD). If that is gone, a collector may have
deleted it after newer ones came: if it was the newest a moment ago, that is certain, as a deletion of the database takes
longer. After that, other objects of that time tell. If there are none, the database was deleted:
:class:`~slate_engine.errors.DatabaseDeleted`, from then on at every look. A process that saw a boundary asks for that object
too after ``remember`` seconds without a look: by then another database may stand there, with a boundary of its own. Only a
``caretaker``, such as a collector, goes on: with nothing, or with the next database.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slate_engine.errors import DatabaseDeleted, DataError, InvalidError
from slate_engine.runtime import Moment, Runtime
from slate_engine.store.boundary import MAX_ID, Boundary, BoundaryLost
from slate_engine.store.presence import SHORTEST_DELETION, Presence, Trace
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
    modified_ms: int = 0
    """When it was created, by the clock of the store; 0 if this process created it and has not asked."""


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
    ``has_company`` tells of the bytes of an object whether a database with this one has objects of other kinds, and WAL
    files in ``log_store``.
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
        caretaker: bool = False,
        log_store: ObjectStore | None = None,
        has_company: Callable[[Buffer], bool] = lambda data: True,
    ) -> None:
        self._store = store
        self._directory = directory.rstrip("/") + "/"
        self._extension = extension
        self._boundary = boundary
        self._presence = Presence(store, self._directory, log_store or store)
        self._has_company = has_company
        self._runtime = runtime
        self._patience = patience
        self._remember = remember
        self._caretaker = caretaker
        self._newest: Numbered | None = None
        self._confirmed = Moment(runtime)
        """When the look began that found it, and with it everything that it names."""
        self._doubted = False
        """Only a listing tells whether it still is the newest."""
        self._taken = 0
        """The last id that was taken when we wanted it."""
        self._tried = 0
        """The last id that we have tried to create."""
        self._warned = False

    def key(self, id: int) -> str:
        if not 0 <= id <= MAX_ID:
            raise InvalidError(f"{id} is not an id: ids are numbers of 64 bits")
        return f"{self._directory}{id:020d}.{self._extension}"

    async def latest(self) -> Numbered | None:
        """The newest object, or None if there has never been one. Raises ``DatabaseDeleted`` if what this process has seen
        was deleted since."""
        try:
            return await self._latest()
        except DatabaseDeleted:
            if not self._caretaker:
                raise
            self._forget()
            return await self._latest()

    def _forget(self) -> None:
        self._newest, self._taken, self._tried = None, 0, 0
        if self._boundary is not None:
            self._boundary.forget()

    async def _latest(self) -> Numbered | None:
        deadline = self._runtime.monotonic() + self._patience
        delay = 0.01
        known, confirmed = self._newest, self._confirmed
        again = False
        lost: Moment | None = None
        """When a look first missed the boundary. This process may have stood still for long before that."""
        while True:
            began = Moment(self._runtime)
            try:
                newest = await self._follow() if self._trusted() else await self._search()
                boundary = await self._given_up()
            except BoundaryLost:
                # Lost, or deleted with the database: then what we know is gone as well, and the rest of it in a moment.
                if known is None or await self._is_there(known, confirmed):
                    raise
                if not await self._has_others(known):
                    raise self._presence.deleted() from None
                lost = lost or Moment(self._runtime)
                if lost.awake() >= self._patience:
                    raise
                newest, boundary = None, 0
            if newest is None and boundary == 0:
                if known is None:
                    return None
                if not (self._guarded or await self._is_there(known, confirmed) or await self._is_guarded_now()):
                    raise self._presence.deleted()
            if (
                newest is not None
                and newest.id > boundary
                and await self._succeeds(newest, known, confirmed, boundary, listed=again)
            ):
                self._keep(newest, began)
                return newest
            again = True
            # A collector and writers went past while we looked; look again, from a listing.
            self._doubted = True
            if boundary and self._runtime.monotonic() >= deadline:
                await self._check_not_ahead(boundary, known)
            await self._runtime.sleep(self._runtime.uniform(delay / 2, delay))
            delay = min(delay * 2, 0.5)

    async def read(self, id: int) -> Numbered:
        """The object with this id, wherever the boundary is: checkpoints keep old manifests alive. Raises ``NotFound``."""
        found = await self._store.get(self.key(id))
        return Numbered(id, found.data, found.meta.etag, found.meta.last_modified_ms)

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
        known, confirmed = self._newest, self._confirmed
        if known is not None and known.id > after_id:
            raise Conflict(key, CREATE)  # we have seen it since the caller looked
        began = Moment(self._runtime)
        self._tried = max(self._tried, id)
        try:
            etag = await self._store.put(key, data, CREATE)
        except Conflict:
            self._taken = id
            raise
        created = Numbered(id, data, etag)
        try:
            boundary = await self._confirm(created, known, confirmed)
            if known is not None and known.id == after_id:
                boundary = max(boundary, await self._overtaken(created, known, confirmed))
        except DatabaseDeleted:
            # It stands there alone, and would look alive.
            await self._store.delete([key])
            raise
        if id <= boundary:
            self._doubted = True
            if self._boundary is not None:
                self._boundary.reject(key, boundary)
            raise StaleWrite(key, id, boundary)
        self._keep(created, began)
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

    async def _confirm(self, created: Numbered, known: Numbered | None, confirmed: Moment) -> int:
        try:
            return await self._given_up()
        except BoundaryLost:
            if known is None or await self._is_there(known, confirmed) or await self._has_others(known):
                raise
            raise self._presence.deleted() from None
        except StoreUnavailable as failure:
            raise StoreUnavailable(
                f"object {self.key(created.id)} was created, but its boundary could not be read: {failure}; read the newest "
                "state again",
                retryable=failure.retryable,
                unknown_outcome=True,
            ) from failure

    async def _given_up(self) -> int:
        return await self._boundary.read() if self._boundary else 0

    async def _has_others(self, known: Numbered) -> bool:
        """Whether there is anything after ``known``, but for what we create ourselves."""
        return bool(await self.list(max(known.id, self._tried) + 1))

    async def _has_successors(self, known: Numbered) -> bool:
        """Whether several commits follow ``known``. One alone may have been on its way while the database was deleted."""
        ids = [entry.id for entry in await self.list(known.id + 1, known.id + 2)]
        return ids == [known.id + 1, known.id + 2]

    async def _trace(self, known: Numbered, confirmed: Moment) -> Trace:
        return await self._presence.trace(self.key(known.id), known, confirmed)

    async def _is_there(self, known: Numbered, confirmed: Moment) -> bool:
        return await self._trace(known, confirmed) is Trace.SAME

    @property
    def _guarded(self) -> bool:
        """Whether a boundary that we have seen tells us of deletions."""
        return self._boundary is not None and self._boundary.was_seen

    async def _is_guarded_now(self) -> bool:
        """The first boundary of all may have come since we looked for one, and what is missing be below it."""
        await self._given_up()
        return self._guarded

    async def _succeeds(
        self, newest: Numbered, known: Numbered | None, confirmed: Moment, boundary: int, *, listed: bool
    ) -> bool:
        """Whether ``newest`` is, or comes after, what we knew as the newest since ``confirmed``. False if only another look
        can tell; raises ``DatabaseDeleted`` if all of that is gone, which only the second look of two by listing tells."""
        if known is None:
            return True
        # After a long sleep it may be the boundary of another database. Collectors of this one delete nothing above it.
        if self._guarded and (known.id <= boundary or confirmed.age() < self._remember):
            return True
        key = self.key(newest.id)
        has_read_it = newest is not known and newest.id == known.id
        if has_read_it and self._presence.is_same(key, newest, known, confirmed):
            return True
        trace = await self._trace(known, confirmed)
        if trace is Trace.SAME:
            return True
        if not listed or known.id <= await self._given_up():
            return False
        # Collectors that keep no boundaries delete what is no longer the newest. They leave what is young, so they would not
        # have deleted the object of this number in a database that was created since. But what is there may be a commit that
        # was on its way, of this process or of another one, which takes it back in a moment.
        if trace is Trace.NONE and newest.id > known.id:
            limit = SHORTEST_DELETION if self._has_company(known.data) else self._remember
            if confirmed.age() < limit or (confirmed.age() < self._remember and await self._has_successors(known)):
                return True
        # Otherwise other objects of then tell.
        try:
            follows = newest.id > known.id or trace is Trace.TWIN
            if follows and await self._presence.is_older(key, known, confirmed):
                return True
        except NotFound:
            return False
        raise self._presence.deleted()

    async def _overtaken(self, created: Numbered, known: Numbered, confirmed: Moment) -> int:
        """The id up to which others have created and deleted objects after ``known``, so that ``created`` counts as lost; 0
        if they have not. Raises ``DatabaseDeleted`` if all of it is gone."""
        trace = Trace.SAME if self._guarded else await self._trace(known, confirmed)
        if trace is Trace.SAME:
            return 0
        if await self._is_guarded_now():
            return await self._given_up()
        last = (await self.list(created.id))[-1:]
        if last and last[0].id > created.id:
            return last[0].id - 1
        # A collector has deleted what ``created`` has replaced: the mark of a deletion would still be there in its place.
        if trace is Trace.NONE and confirmed.age() < SHORTEST_DELETION:
            return 0
        with contextlib.suppress(NotFound):
            if await self._presence.is_older(self.key(created.id), known, confirmed):
                return 0
        raise self._presence.deleted()

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
            above = await self._given_up()
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

    def _trusted(self) -> bool:
        return (
            self._boundary is not None
            and self._newest is not None
            and self._newest.id < MAX_ID
            and not self._doubted
            and self._confirmed.age() < self._remember
        )

    def _keep(self, newest: Numbered, confirmed: Moment) -> None:
        # Calls may overtake each other; what is older than the memory adds nothing to it.
        if self._newest is None or newest.id >= self._newest.id:
            self._newest, self._confirmed, self._doubted = newest, confirmed, False

    def _id(self, key: str) -> int | None:
        stem, dot, extension = key.removeprefix(self._directory).partition(".")
        if dot and extension == self._extension and _DIGITS.fullmatch(stem) and int(stem) <= MAX_ID:
            return int(stem)
        if not self._warned:
            self._warned = True
            log.warning("%s is not named like the objects here; it and others like it are passed over", key)
        return None

    async def _check_not_ahead(self, boundary: int, known: Numbered | None) -> None:
        """Raises :class:`BoundaryAhead`, unless other processes are merely faster than this one looks. Where they have
        deleted everything, ``known`` with it, it raises ``DatabaseDeleted``."""
        newest = await self._newest_id()
        if newest is not None and newest > boundary:
            return
        if newest is None and known is not None:
            raise self._presence.deleted()
        found = f"its newest object is {newest}" if newest is not None else "it holds no objects"
        name = self._boundary.key if self._boundary else ""
        raise BoundaryAhead(
            f"{self._directory} is given up to id {boundary} by {name}, but {found}. Restore the newer objects if they were "
            "lost; if the number was set too high, stop all writers and collectors and set it below the newest id"
        )
