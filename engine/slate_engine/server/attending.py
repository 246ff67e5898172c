"""A store that notes for whom it is asked, so that a loop which waits for it is not taken for one that is stuck."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence

from slate_engine.lsm.loops import asking_the_store, sending_to_the_store
from slate_engine.store.protocol import OVERWRITE, Buffer, Object, ObjectMeta, ObjectStore, PutMode


class AttendedStore:
    """The store behind it, in front of everything that tries again: a call lasts until it is settled."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @property
    def url(self) -> str:
        return self._store.url

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        with asking_the_store():
            return await self._store.get(key, if_none_match=if_none_match)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        with asking_the_store():
            return await self._store.get_ranges(key, ranges)

    async def head(self, key: str) -> ObjectMeta:
        with asking_the_store():
            return await self._store.head(key)

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        with asking_the_store():
            return await self._store.put(key, data, mode)

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer]) -> str:
        with sending_to_the_store(chunks) as attended:
            return await self._store.put_stream(key, attended)

    async def copy(self, source: str, destination: str) -> None:
        with asking_the_store():
            await self._store.copy(source, destination)

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        pages = aiter(self._store.list(prefix, start_after=start_after))
        while True:
            with asking_the_store():
                try:
                    page = await anext(pages)
                except StopAsyncIteration:
                    return
            yield page

    async def delete(self, keys: Iterable[str]) -> None:
        with asking_the_store():
            await self._store.delete(keys)

    async def close(self) -> None:
        await self._store.close()
