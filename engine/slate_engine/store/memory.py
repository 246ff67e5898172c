"""A store in memory: exact semantics, no latency. For tests, simulations and scratch databases."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence

from slate_engine.runtime import Runtime
from slate_engine.store.backend import Signed, check_key, check_prefix
from slate_engine.store.cost import Request, RequestMeter, Tally
from slate_engine.store.protocol import (
    OVERWRITE,
    Attributes,
    Buffer,
    Conflict,
    Create,
    NotFound,
    NotModified,
    Object,
    ObjectMeta,
    PutMode,
    Update,
)
from slate_engine.store.ranges import check_ranges

PAGE = 1000


class MemoryStore:
    """Objects in a dict. No call awaits anything, so each one is a single step for everything else in the event loop."""

    def __init__(self, runtime: Runtime, *, name: str = "", meter: RequestMeter | None = None) -> None:
        self._runtime = runtime
        self._name = name
        self._meter = meter or Tally()
        self._objects: dict[str, tuple[Object, str]] = {}
        self._keys: list[str] = []
        self._versions = 0

    @property
    def url(self) -> str:
        return f"memory:///{self._name}"

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        self._meter.count(Request.GET)
        found = self._find(key)[0]
        if found.meta.etag == if_none_match:
            raise NotModified
        return found

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        check_ranges(ranges)
        self._meter.count(Request.GET)
        data = memoryview(self._find(key)[0].data)
        return [data[start:end] for start, end in ranges]

    async def head(self, key: str) -> ObjectMeta:
        self._meter.count(Request.HEAD)
        return self._find(key)[0].meta

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        self._meter.count(Request.PUT)
        present = self._objects.get(check_key(key))
        match mode:
            case Create() if present is not None:
                raise Conflict(key, mode)
            case Update(etag) if present is None or present[0].meta.etag != etag:
                raise Conflict(key, mode)
        return self._store(key, bytes(data), mark, mode.attributes if isinstance(mode, Create) else ())

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer], *, mark: str = "") -> str:
        check_key(key)
        whole = b"".join([chunk async for chunk in chunks])
        self._meter.count(Request.PUT)
        return self._store(key, whole, mark)

    async def read_mark(self, key: str) -> Signed:
        self._meter.count(Request.HEAD)
        found, mark = self._find(key)
        return Signed(found.meta, mark)

    async def copy(self, source: str, destination: str) -> None:
        self._meter.count(Request.COPY)
        found, mark = self._find(source)
        self._store(check_key(destination), found.data, mark, found.meta.attributes)

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        check_prefix(prefix)
        after = start_after
        while True:
            self._meter.count(Request.LIST)
            # Looked up anew for each page, as a service does: objects may come and go while somebody reads a listing.
            first = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
            keys = [key for key in self._keys[first : first + PAGE] if key.startswith(prefix)]
            if keys:
                after = keys[-1]
                yield [self._objects[key][0].meta for key in keys]
            if len(keys) < PAGE:
                return

    async def delete(self, keys: Iterable[str]) -> None:
        self._meter.count(Request.DELETE)
        for key in keys:
            if self._objects.pop(check_key(key), None) is not None:
                del self._keys[bisect_left(self._keys, key)]

    async def close(self) -> None:
        """Nothing to give back; the objects stay for whoever shares them."""

    def _find(self, key: str) -> tuple[Object, str]:
        found = self._objects.get(check_key(key))
        if found is None:
            raise NotFound(key)
        return found

    def _store(self, key: str, data: Buffer, mark: str, attributes: Attributes = ()) -> str:
        self._versions += 1
        meta = ObjectMeta(key, len(data), self._runtime.now_ms(), str(self._versions), attributes)
        if key not in self._objects:
            insort(self._keys, key)
        self._objects[key] = (Object(meta, data), mark)
        return meta.etag
