"""A process that dies at one of its requests, and all the places where it can."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import OVERWRITE, Buffer, Object, ObjectMeta, ObjectStore, PutMode
from tests.simulation.loop import SimulatedLoop

T = TypeVar("T")


class Crash(BaseException):
    """The process is gone. Not an ``Exception``: nobody may handle it."""


class CrashingStore:
    """The bucket as a process sees it that dies at its ``at``-th request: before it is carried out, or after it."""

    def __init__(self, bucket: MemoryStore, at: int, *, carried_out: bool) -> None:
        self._bucket = bucket
        self._at = at
        self._carried_out = carried_out
        self.requests = 0
        self.dead = False

    @property
    def url(self) -> str:
        return self._bucket.url

    def _begin(self) -> bool:
        """Whether this is the last request."""
        if self.dead:
            raise Crash
        self.requests += 1
        if self.requests == self._at:
            self.dead = True
            if not self._carried_out:
                raise Crash
        return self.dead

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        last = self._begin()
        found = await self._bucket.get(key, if_none_match=if_none_match)
        return _or_crash(last, found)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        last = self._begin()
        found = await self._bucket.get_ranges(key, ranges)
        return _or_crash(last, found)

    async def head(self, key: str) -> ObjectMeta:
        last = self._begin()
        found = await self._bucket.head(key)
        return _or_crash(last, found)

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        last = self._begin()
        etag = await self._bucket.put(key, data, mode)
        return _or_crash(last, etag)

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer]) -> str:
        last = self._begin()
        etag = await self._bucket.put_stream(key, chunks)
        return _or_crash(last, etag)

    async def copy(self, source: str, destination: str) -> None:
        last = self._begin()
        await self._bucket.copy(source, destination)
        _or_crash(last, None)

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        last = self._begin()
        async for page in self._bucket.list(prefix, start_after=start_after):
            yield _or_crash(last, page)
        _or_crash(last, None)

    async def delete(self, keys: Iterable[str]) -> None:
        last = self._begin()
        await self._bucket.delete(keys)
        _or_crash(last, None)

    async def close(self) -> None:
        """The process is gone anyway."""


def _or_crash(last: bool, found: T) -> T:
    if last:
        raise Crash
    return found


async def until_its_death(work: Awaitable[object]) -> None:
    """Do ``work``, until it is done or the process dies, in whichever of its tasks."""
    with contextlib.suppress(Crash):
        await work
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    loop.defects[:] = [defect for defect in loop.defects if not isinstance(defect, Crash)]


async def at_every_request(
    world: Callable[[], Awaitable[MemoryStore]],
    work: Callable[[ObjectStore], Awaitable[object]],
    afterwards: Callable[[MemoryStore], Awaitable[None]],
) -> int:
    """Let ``work`` die at each of its requests, before and after it is carried out, each time in a new world, and look at
    what is left. Returns how many requests there are."""
    requests = 0
    for carried_out in (False, True):
        at = 0
        while True:
            at += 1
            bucket = await world()
            store = CrashingStore(bucket, at, carried_out=carried_out)
            await until_its_death(work(store))
            await afterwards(bucket)
            if not store.dead:
                break
        requests = at - 1
    return requests
