"""S3 and its dialects, Google Cloud Storage and Azure Blob Storage, through obstore (the Rust ``object_store``).

Writes go through a client that never tries twice: the library would resend a PUT after a lost answer and report the
conflict with itself. Only the parts of a multipart upload go through a patient one, because sending a part again changes
nothing. What the library says of a failure is taken apart here and never shown: its texts quote whole requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import obstore

from slate_engine.errors import InvalidError
from slate_engine.runtime import Runtime
from slate_engine.store.backend import MARK, Signed, attributes_of, check_key, check_prefix, notes_of
from slate_engine.store.cost import Request, RequestMeter, Tally
from slate_engine.store.failure import NotSatisfiable, explain
from slate_engine.store.obstore_failure import FAILURES, failure_of
from slate_engine.store.options import GCS, S3, Options
from slate_engine.store.place import Place
from slate_engine.store.protocol import (
    OVERWRITE,
    Buffer,
    Create,
    NotFound,
    Object,
    ObjectMeta,
    Overwrite,
    PutMode,
    Update,
)
from slate_engine.store.ranges import fetch_ranges
from slate_engine.store.retry import BRIEF, Patience, repeat
from slate_engine.store.streams import PART, parts_of

if TYPE_CHECKING:
    from obstore import GetOptions, PutResult
    from obstore import ObjectMeta as Meta
    from obstore.store import AzureStore, GCSStore, S3Store

    Client: TypeAlias = S3Store | GCSStore | AzureStore

PAGE = 1000
CONCURRENCY = 16
COPY_LIMIT = 5 << 30
"""S3 copies objects of up to 5 GiB in one request."""


class ObstoreBackend:
    """One bucket or container, from ``place.prefix`` down."""

    def __init__(
        self,
        place: Place,
        options: Options,
        client: Client,
        patient: Client,
        runtime: Runtime,
        *,
        meter: RequestMeter | None = None,
        copy_limit: int = COPY_LIMIT,
    ) -> None:
        self._place = place
        self._hide = options.hide
        self._client = client
        self._patient = patient
        self._runtime = runtime
        self._meter = meter or Tally()
        self._copy_limit = copy_limit

    @property
    def url(self) -> str:
        return self._place.url

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        self._meter.count(Request.GET)
        condition: GetOptions = {} if if_none_match is None else {"if_none_match": self._http_etag(if_none_match)}
        try:
            found = await obstore.get_async(self._client, check_key(key), options=condition)
            data = await found.bytes_async()
        except FAILURES as error:
            self._fail(error, "get", key)
        return Object(self._meta(found.meta, key), memoryview(data))

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        check_key(key)

        async def fetch(start: int, end: int) -> Buffer:
            self._meter.count(Request.GET)
            try:
                return memoryview(await obstore.get_range_async(self._client, key, start=start, end=end))
            except FAILURES as error:
                try:
                    self._fail(error, "get", key)
                except NotSatisfiable:
                    return b""

        return await fetch_ranges(ranges, fetch)

    async def head(self, key: str) -> ObjectMeta:
        return (await self.read_mark(key)).meta

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        self._meter.count(Request.PUT)
        try:
            result = await obstore.put_async(
                self._client,
                check_key(key),
                data,
                attributes=notes_of(mode, mark) or None,
                mode=self._mode(mode),
                use_multipart=False,
            )
        except FAILURES as error:
            self._fail(error, "put", key, mode)
        return self._etag(result, key)

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer], *, mark: str = "") -> str:
        parts = parts_of(chunks, PART)
        first = await anext(parts, b"")
        second = await anext(parts, None)
        if second is None:
            return await self.put(key, first, mark=mark)
        broken: list[Exception] = []

        async def rest() -> AsyncIterator[Buffer]:
            try:
                for part in (first, second):
                    self._meter.count(Request.PUT)
                    yield part
                async for part in parts:
                    self._meter.count(Request.PUT)
                    yield part
            except Exception as error:
                broken.append(error)  # the library would hide it behind whatever its clean-up says
                raise

        self._meter.count(Request.POST, 2)
        try:
            result = await obstore.put_async(
                self._patient,
                check_key(key),
                rest(),
                attributes={MARK: mark} if mark else None,
                use_multipart=True,
                chunk_size=PART,
                max_concurrency=8,
            )
        except Exception as error:
            if broken:
                raise broken[0] from None
            if isinstance(error, FAILURES):
                self._fail(error, "put", key, OVERWRITE)
            raise
        return self._etag(result, key)

    async def read_mark(self, key: str) -> Signed:
        self._meter.count(Request.HEAD)
        try:
            found = await obstore.get_async(self._client, check_key(key), options={"head": True})
        except FAILURES as error:
            self._fail(error, "head", key)
        # The library mixes the service's own headers with them, and these have hyphens.
        notes = {name: value for name, value in found.attributes.items() if "-" not in name}
        return Signed(replace(self._meta(found.meta, key), attributes=attributes_of(notes)), notes.get(MARK, ""))

    async def copy(self, source: str, destination: str) -> None:
        self._meter.count(Request.COPY)
        try:
            await obstore.copy_async(self._client, check_key(source), check_key(destination))
        except FAILURES as error:
            failure = failure_of(error, self._hide)
            if self._place.service == S3 and failure.status == 400:
                size = (await self.head(source)).size
                if size > self._copy_limit:
                    await self._copy_through_here(source, destination, size)
                    return
            self._fail(error, "copy", source, OVERWRITE)

    async def _copy_through_here(self, source: str, destination: str, size: int) -> None:
        """For what the service will not copy in one request. SlateDB's own objects are never that large."""

        async def chunks() -> AsyncIterator[Buffer]:
            for start in range(0, size, PART):
                yield (await self.get_ranges(source, [(start, start + PART)]))[0]

        await self.put_stream(destination, chunks())

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        # The library lists whole folders, so a prefix that ends inside a name is filtered here.
        folder = check_prefix(prefix).rpartition("/")[0]
        chunks = obstore.list(self._client, folder or None, offset=start_after or None, chunk_size=PAGE)
        try:
            while True:
                self._meter.count(Request.LIST)
                chunk = await anext(chunks, None)
                if not chunk:
                    return
                keys = [(meta["path"], meta) for meta in chunk]
                page = [self._meta(m, key) for key, m in keys if key.startswith(prefix) and key > start_after]
                if page:
                    yield page
                last = keys[-1][0]
                if len(chunk) < PAGE or (last > prefix and not last.startswith(prefix)):
                    return
        except FAILURES as error:
            self._fail(error, "list", prefix)

    async def delete(self, keys: Iterable[str]) -> None:
        gone = [check_key(key) for key in keys]
        batch = 1000 if self._place.service == S3 else 256
        for start in range(0, len(gone), batch):
            await self._delete(gone[start : start + batch])

    async def _delete(self, keys: Sequence[str]) -> None:
        self._meter.count(Request.DELETE)
        try:
            await obstore.delete_async(self._client, keys)
        except FAILURES as error:
            try:
                self._fail(error, "delete", keys[0], OVERWRITE)
            except NotFound:
                # Azure and Google report a missing object as a failure, and the library stops at the first one and says
                # nothing of the others: so look which are still there.
                if left := await self._present(keys):
                    await self._delete(left)

    async def _present(self, keys: Sequence[str]) -> Sequence[str]:
        slots = asyncio.Semaphore(CONCURRENCY)

        async def present(key: str) -> bool:
            async with slots:
                try:
                    await repeat(Patience("delete", BRIEF, self._runtime), lambda: self.head(key))
                except NotFound:
                    return False
                return True

        there = await asyncio.gather(*(present(key) for key in keys))
        return [key for key, is_there in zip(keys, there, strict=True) if is_there]

    async def close(self) -> None:
        """The library closes its connections when nobody uses them any more."""

    def _mode(self, mode: PutMode) -> Any:
        match mode:
            case Create():
                return "create"
            case Update(etag):
                return {"version": self._generation(etag)} if self._place.service == GCS else {"e_tag": etag}
            case Overwrite():
                return "overwrite"

    def _etag(self, found: Meta | PutResult, key: str) -> str:
        """Google compares generations in writes and etags in reads, so an etag there is both: ``generation/etag``."""
        etag = found["e_tag"]
        if not etag:
            raise InvalidError(f"{self.url} gives no etag for {key!r}; a store without etags cannot hold a database")
        # Azure's listings leave the quotes out.
        quoted = etag if etag.endswith('"') else f'"{etag}"'
        return f"{found['version'] or ''}/{quoted}" if self._place.service == GCS else quoted

    def _generation(self, etag: str) -> str:
        generation = etag.partition("/")[0]
        if not generation:
            raise InvalidError(
                "Google's listings do not tell generations; take the etag from head() or get() to update"
            )
        return generation if generation.isdigit() else "1"  # no object ever has generation 1, so it conflicts

    def _http_etag(self, etag: str) -> str:
        return etag.partition("/")[2] if self._place.service == GCS else etag

    def _meta(self, meta: Meta, key: str) -> ObjectMeta:
        modified = int(meta["last_modified"].timestamp() * 1000)
        return ObjectMeta(key, meta["size"], modified, self._etag(meta, key))

    def _fail(self, error: Exception, operation: str, key: str, mode: PutMode | None = None) -> NoReturn:
        failure = failure_of(error, self._hide)
        raise explain(failure, operation, key, self.url, mode=mode) from None
