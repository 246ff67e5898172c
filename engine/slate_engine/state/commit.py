"""How state is committed: the one loop of read, change, create-if-absent that every role shares.

A change is a pure function from the newest value to the next. If somebody else commits first, the function is applied to
what they wrote; so it must look at nothing but its argument, and may be called any number of times.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from slate_engine.errors import InvalidError, UnavailableError
from slate_engine.runtime import Runtime
from slate_engine.store.numbered import Numbered, NumberedObjects
from slate_engine.store.protocol import Buffer, Conflict

T = TypeVar("T")

_LARGE = 1 << 18
"""From this many bytes on, decoding and encoding would hold up the event loop: they go to a thread."""

_LONGEST_PAUSE = 4.0
"""In seconds, between two attempts: so that hundreds who change one state at once do not keep each other from it."""


class Contended(UnavailableError):
    """Others committed first, again and again. Nothing was written; try again later."""


class NothingStored(InvalidError):
    """There is no database here yet, or the path is wrong."""


class Versioned(NamedTuple, Generic[T]):
    """A value, and the number of the object that holds it."""

    id: int
    value: T


class StateStore(ABC, Generic[T]):
    """The numbered objects that hold one kind of state, decoded.

    ``patience`` is for how many seconds :meth:`update` tries to win against others.
    """

    def __init__(self, objects: NumberedObjects, runtime: Runtime, *, patience: float = 60.0) -> None:
        self._objects = objects
        self._runtime = runtime
        self._patience = patience
        self._known: tuple[Buffer, T] | None = None
        self._creating: set[asyncio.Future[int]] = set()

    @property
    def objects(self) -> NumberedObjects:
        """The objects themselves: for garbage collection, which wants their ages and not their contents."""
        return self._objects

    @abstractmethod
    def _decode(self, data: Buffer, *, object: str) -> T: ...

    @abstractmethod
    def _encode(self, value: T) -> Buffer: ...

    @abstractmethod
    def _successor(self, before: T, after: T, id: int) -> T:
        """What is to be written as ``id`` when ``before`` is to become ``after``; refuses what must not follow."""

    async def latest(self) -> Versioned[T] | None:
        """The newest value; None if there has never been one."""
        newest = await self._objects.latest()
        return None if newest is None else Versioned(newest.id, await self._decoded(newest))

    async def read_latest(self) -> Versioned[T]:
        newest = await self.latest()
        if newest is None:
            raise NothingStored(f"{self._objects.key(1)} does not exist: is this the path of a database?")
        return newest

    async def read(self, id: int) -> T:
        """The value with this number, which checkpoints may keep alive long after."""
        return await self._decoded(await self._objects.read(id))

    async def create_first(self, value: T) -> Versioned[T]:
        """Make ``value`` the first one, unless there is one already: then that counts."""
        newest = await self.latest()
        if newest is not None:
            return newest
        try:
            return Versioned(await self._create(0, value), value)
        except Conflict:
            return await self.read_latest()

    async def update(self, transition: Callable[[T], T]) -> Versioned[T]:
        """Commit what ``transition`` makes of the newest value. If it returns its very argument, nothing is written.

        An error of the store may leave open whether the change was committed. A transition that knows its own work again
        (and then returns its argument) can simply be tried once more."""
        deadline = self._runtime.monotonic() + self._patience
        delay = 0.005
        while True:
            newest = await self.read_latest()
            wanted = transition(newest.value)
            if wanted is newest.value:
                return newest
            value = self._successor(newest.value, wanted, newest.id + 1)
            try:
                return Versioned(await self._create(newest.id, value), value)
            except Conflict as lost:
                if self._runtime.monotonic() >= deadline:
                    raise Contended(
                        f"others kept committing for {self._patience:g} s while this change waited: {lost}; nothing was "
                        "written, try again later"
                    ) from lost
            await self._runtime.sleep(self._runtime.uniform(0, delay))
            delay = min(delay * 2, _LONGEST_PAUSE)

    async def _create(self, after_id: int, value: T) -> int:
        large = self._known is not None and len(self._known[0]) >= _LARGE
        data = await self._runtime.run(self._encode, value) if large else self._encode(value)
        # A request that is cancelled may still be carried out, and only this process can tell whether it counts. So it
        # is brought to its end, even if no caller waits for it.
        creating = asyncio.ensure_future(self._objects.create_next(after_id, data))
        self._creating.add(creating)
        creating.add_done_callback(self._created)
        try:
            id = await asyncio.shield(creating)
        finally:
            # Its failure would refer to this frame, and this frame to it: what callers hold, such as a lease, would live on.
            del creating
        self._known = (data, value)
        return id

    def _created(self, creating: asyncio.Future[int]) -> None:
        self._creating.discard(creating)
        if not creating.cancelled():
            creating.exception()  # a caller that still waits gets it

    async def _decoded(self, found: Numbered) -> T:
        # Objects never change, so the bytes that are in memory already need no second look.
        if self._known is not None and self._known[0] is found.data:
            return self._known[1]
        object = self._objects.key(found.id)
        if len(found.data) >= _LARGE:
            value = await self._runtime.run(lambda: self._decode(found.data, object=object))
        else:
            value = self._decode(found.data, object=object)
        self._known = (found.data, value)
        return value
