"""Any other file system that fsspec knows: for reading, copying, and writing names that nobody else writes.

fsspec has no conditional write that holds everywhere (``mode="create"`` is check-then-write on most), so this backend
refuses them all; two-phase CAS in front of it makes up for that. An object is written under a temporary name
``<name>#<digits>`` and then moved, so that nobody sees half of it where the file system moves in one step. File systems
differ in what they tell of a file; an etag is a hash of whatever they do tell.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import fsspec

from slate_engine.errors import InvalidError
from slate_engine.runtime import Runtime
from slate_engine.store.backend import Signed, check_key, check_prefix
from slate_engine.store.cost import Request, RequestMeter, Tally
from slate_engine.store.options import PASSED_ON, Options
from slate_engine.store.place import Place
from slate_engine.store.protocol import (
    OVERWRITE,
    Buffer,
    Denied,
    NotFound,
    NotModified,
    Object,
    ObjectMeta,
    Overwrite,
    PutMode,
    StoreUnavailable,
)
from slate_engine.store.ranges import fetch_ranges
from slate_engine.store.steps import Steps

T = TypeVar("T")
PAGE = 1000
_TEMPORARY = re.compile(r"#[0-9]+$")
_TIMES = ("mtime", "LastModified", "last_modified", "modified", "updated", "created")


class FsspecBackend:
    """The folder ``place`` of an fsspec file system. Its blocking calls run in the runtime's threads."""

    def __init__(self, place: Place, options: Options, runtime: Runtime, *, meter: RequestMeter | None = None) -> None:
        own = {
            name.removeprefix(PASSED_ON): value for name, value in options.values.items() if name.startswith(PASSED_ON)
        }
        try:
            self._fs = fsspec.filesystem(place.scheme, skip_instance_cache=True, use_listings_cache=False, **own)
        except ValueError as error:
            raise InvalidError(f"fsspec knows no protocol {place.scheme}://: {options.hide(str(error))}") from None
        self._place = place
        self._options = options
        self._runtime = runtime
        self._meter = meter or Tally()
        self._root = self._fs._strip_protocol(f"{place.scheme}://{place.bucket}/{place.prefix}").rstrip("/")

    @property
    def url(self) -> str:
        return self._place.url

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        meta = await self.head(key)
        if meta.etag == if_none_match:
            raise NotModified
        data = await self._run(Request.GET, key, lambda: self._fs.cat_file(self._path(key)))
        return Object(meta, data)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        size = (await self.head(key)).size

        async def fetch(start: int, end: int) -> Buffer:
            if start >= size:
                return b""
            stop = min(end, size)
            data: bytes = await self._run(Request.GET, key, lambda: self._fs.cat_file(self._path(key), start, stop))
            return data

        return await fetch_ranges(ranges, fetch)

    async def head(self, key: str) -> ObjectMeta:
        info = await self._run(Request.HEAD, key, lambda: self._fs.info(self._path(key)))
        if info.get("type") == "directory":
            raise NotFound(key)
        return _meta(key, info)

    async def read_mark(self, key: str) -> Signed:
        return Signed(await self.head(key), "")

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        if not isinstance(mode, Overwrite):
            raise InvalidError(
                f"{self.url} has no conditional writes that hold; set the option `cas` to a transactional store, for example"
                " cas=sqlite:///path, to make writes safe without them"
            )

        async def once() -> AsyncIterator[Buffer]:
            yield data

        return await self.put_stream(key, once())

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer], *, mark: str = "") -> str:
        path = self._path(key)
        temporary = f"{path}#{int.from_bytes(self._runtime.random_bytes(6))}"

        def begin() -> Any:
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            return self._fs.open(temporary, "wb")

        file = await self._run(Request.POST, key, begin)

        def discard() -> None:
            try:
                file.close()
            finally:
                if self._fs.exists(temporary):
                    self._fs.rm_file(temporary)

        steps = Steps(discard)
        try:
            async for chunk in chunks:
                await self._run(Request.PUT, key, partial(steps.take, partial(file.write, bytes(chunk))))
            await self._run(Request.POST, key, partial(steps.take, file.close))
            await self._run(Request.COPY, key, partial(steps.take, lambda: self._fs.mv(temporary, path)))
        except BaseException:
            await asyncio.shield(self._run(Request.DELETE, key, steps.end))  # also for one who is cancelled twice
            raise
        return (await self.head(key)).etag

    async def copy(self, source: str, destination: str) -> None:
        def copy() -> None:
            target = self._path(destination)
            self._fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            self._fs.cp_file(self._path(source), target)

        await self._run(Request.COPY, source, copy)

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        folder = f"{self._root}/{check_prefix(prefix)[: prefix.rfind('/') + 1]}".rstrip("/")
        found = await self._run(Request.LIST, prefix, lambda: self._fs.find(folder, detail=True))
        cut = len(self._root) + 1
        metas = sorted((_meta(path[cut:], info) for path, info in found.items()), key=lambda meta: meta.key)
        wanted = [m for m in metas if m.key.startswith(prefix) and m.key > start_after and not _TEMPORARY.search(m.key)]
        for start in range(0, len(wanted), PAGE):
            yield wanted[start : start + PAGE]

    async def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            try:
                await self._run(Request.DELETE, key, partial(self._fs.rm_file, self._path(key)))
            except NotFound:
                continue

    async def close(self) -> None:
        """fsspec closes its file systems when nobody holds them any more."""

    def _path(self, key: str) -> str:
        if _TEMPORARY.search(check_key(key)):
            raise InvalidError(f"key {key!r} ends like a temporary file and would never be listed; choose another name")
        return f"{self._root}/{key}"

    async def _run(self, request: Request, key: str, work: Callable[[], T]) -> T:
        self._meter.count(request)
        try:
            return await self._runtime.run(work)
        except FileNotFoundError:
            raise NotFound(key) from None
        except PermissionError as error:
            raise Denied(f"{self.url}, {key!r}: {self._options.hide(str(error))}") from None
        except OSError as error:
            raise StoreUnavailable(f"{self.url}, {key!r}: {self._options.hide(str(error))}") from None


def _meta(key: str, info: Mapping[str, Any]) -> ObjectMeta:
    told = repr(sorted((name, str(value)) for name, value in info.items() if name != "name"))
    time = next((info[name] for name in _TIMES if info.get(name) is not None), 0)
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    seconds = time.timestamp() if isinstance(time, datetime) else float(time)
    return ObjectMeta(key, int(info["size"] or 0), int(seconds * 1000), hashlib.sha256(told.encode()).hexdigest()[:32])
