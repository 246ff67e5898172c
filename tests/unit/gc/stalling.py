"""A process that stalls: one of its requests is on its way for as long as the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence

from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import OVERWRITE, Buffer, Object, ObjectMeta, PutMode


class StallingStore:
    """The bucket as one process sees it. :meth:`stall` holds up its next request for a matching key: a write (or copy)
    unless it is to be a read."""

    def __init__(self, bucket: MemoryStore) -> None:
        self._bucket = bucket
        self._matches: Callable[[str], bool] | None = None
        self._reads = False
        self._go_on = asyncio.Event()
        self.stalled = asyncio.Event()

    @property
    def url(self) -> str:
        return self._bucket.url

    def stall(self, matches: Callable[[str], bool], *, reads: bool = False) -> None:
        self._matches, self._reads = matches, reads
        self._go_on.clear()
        self.stalled.clear()

    def go_on(self) -> None:
        self._go_on.set()

    async def _pass(self, key: str, *, read: bool = False) -> None:
        if self._matches is not None and read == self._reads and self._matches(key):
            self._matches = None
            self.stalled.set()
            await self._go_on.wait()

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        await self._pass(key, read=True)
        return await self._bucket.get(key, if_none_match=if_none_match)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        return await self._bucket.get_ranges(key, ranges)

    async def head(self, key: str) -> ObjectMeta:
        return await self._bucket.head(key)

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        await self._pass(key)
        return await self._bucket.put(key, data, mode)

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer]) -> str:
        await self._pass(key)
        return await self._bucket.put_stream(key, chunks)

    async def copy(self, source: str, destination: str) -> None:
        await self._pass(destination)
        await self._bucket.copy(source, destination)

    def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        return self._bucket.list(prefix, start_after=start_after)

    async def delete(self, keys: Iterable[str]) -> None:
        await self._bucket.delete(keys)

    async def close(self) -> None:
        await self._bucket.close()
