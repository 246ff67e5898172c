"""Azure Blob Storage through adlfs.

adlfs finds the account and its credentials; the calls are those of the Azure SDK that it stands on, with the etag
conditions that adlfs itself cannot pass. A conditional write is always one request: the SDK would cut a large one into
blocks whose ids depend only on their position, so that of two writers who race one could commit blocks of the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import Any

import aiohttp
from adlfs import AzureBlobFileSystem
from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.core.pipeline.transport import AioHttpTransport
from azure.storage.blob import BlobBlock, BlobProperties
from azure.storage.blob.aio import BlobClient, BlobServiceClient, ContainerClient

from slate_engine.errors import InvalidError
from slate_engine.runtime import Runtime
from slate_engine.store.backend import MARK, Signed, attributes_of, check_key, check_prefix, notes_of
from slate_engine.store.cost import Request, RequestMeter, Tally
from slate_engine.store.failure import Failure, NotSatisfiable, explain
from slate_engine.store.one_shot import send_once
from slate_engine.store.options import Options
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
    StoreUnavailable,
    Update,
)
from slate_engine.store.ranges import fetch_ranges
from slate_engine.store.retry import BRIEF, Patience, repeat
from slate_engine.store.streams import PART, parts_of

PAGE = 1000
CONCURRENCY = 16
SINGLE_PUT = 5000 << 20
"""What one Put Blob takes."""
SINGLE_GET = 64 << 20
_FAILURES = (AzureError, aiohttp.ClientError, OSError)


class AdlfsBackend:
    """One container, from ``place.prefix`` down."""

    def __init__(self, place: Place, options: Options, runtime: Runtime, *, meter: RequestMeter | None = None) -> None:
        self._place = place
        self._options = options
        self._runtime = runtime
        self._meter = meter or Tally()
        self._base = f"{place.prefix}/" if place.prefix else ""
        self._service: BlobServiceClient | None = None

    @property
    def url(self) -> str:
        return self._place.url

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        condition: dict[str, Any] = {}
        if if_none_match is not None:
            condition = {"etag": if_none_match, "match_condition": MatchConditions.IfModified}
        properties, data = await self._download(key, condition)
        return Object(_meta(key, properties), data)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        async def fetch(start: int, end: int) -> Buffer:
            try:
                return (await self._download(key, {"offset": start, "length": end - start}))[1]
            except NotSatisfiable:
                return b""

        return await fetch_ranges(ranges, fetch)

    async def head(self, key: str) -> ObjectMeta:
        return (await self.read_mark(key)).meta

    async def read_mark(self, key: str) -> Signed:
        self._meter.count(Request.HEAD)
        try:
            properties = await (await self._blob(key)).get_blob_properties()
        except _FAILURES as error:
            raise self._explain(error, "head", key) from None
        notes = properties.metadata or {}
        return Signed(replace(_meta(key, properties), attributes=attributes_of(notes)), notes.get(MARK, ""))

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        self._meter.count(Request.PUT)
        condition: dict[str, Any] = {}
        match mode:
            case Create():
                condition = {"overwrite": False}
            case Update(etag):
                condition = {"overwrite": True, "etag": etag, "match_condition": MatchConditions.IfNotModified}
            case Overwrite():
                condition = {"overwrite": True}
        try:
            blob = await self._blob(key)
            answer = await blob.upload_blob(bytes(data), metadata=notes_of(mode, mark), retry_total=0, **condition)
        except _FAILURES as error:
            raise self._explain(error, "put", key, mode) from None
        return str(answer["etag"])

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer], *, mark: str = "") -> str:
        parts = parts_of(chunks)
        first = await anext(parts, b"")
        second = await anext(parts, None)
        if second is None:
            return await self.put(key, first, mark=mark)
        blob = await self._blob(key)
        blocks: list[BlobBlock] = []

        async def stage(part: bytes) -> None:
            self._meter.count(Request.PUT)
            # Ids of our own, so that two streams to one name never use each other's blocks.
            blocks.append(BlobBlock(f"{self._runtime.random_bytes(8).hex()}{len(blocks):08d}"))
            try:
                await blob.stage_block(blocks[-1].id, part, retry_total=4)
            except _FAILURES as error:
                raise self._explain(error, "put", key) from None

        await stage(first)
        await stage(second)
        async for part in parts:
            await stage(part)
        self._meter.count(Request.PUT)
        try:
            answer = await blob.commit_block_list(blocks, metadata=notes_of(OVERWRITE, mark), retry_total=0)
        except _FAILURES as error:
            raise self._explain(error, "put", key, OVERWRITE) from None
        return str(answer["etag"])

    async def copy(self, source: str, destination: str) -> None:
        self._meter.count(Request.COPY)
        try:
            origin = (await self._blob(source)).url
            blob = await self._blob(destination)
            answer = await blob.start_copy_from_url(origin, retry_total=0)
            status: str | None = str(answer["copy_status"])
            while status == "pending":
                await self._runtime.sleep(0.2)
                self._meter.count(Request.HEAD)
                status = (await blob.get_blob_properties()).copy.status
        except _FAILURES as error:
            raise self._explain(error, "copy", source, OVERWRITE) from None
        if status != "success":
            raise StoreUnavailable(f"copy of {source!r} in {self.url} ended as {status}", unknown_outcome=True)

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        # The service cannot start at a key, so what comes before it is read and dropped.
        container = await self._container()
        where = self._base + check_prefix(prefix)
        pages = container.list_blobs(name_starts_with=where or None, results_per_page=PAGE).by_page()
        cut = len(self._base)
        try:
            while True:
                self._meter.count(Request.LIST)
                entries = await anext(pages, None)
                if entries is None:
                    return
                page = [_meta(blob.name[cut:], blob) async for blob in entries if blob.name[cut:] > start_after]
                if page:
                    yield page
        except _FAILURES as error:
            raise self._explain(error, "list", prefix) from None

    async def delete(self, keys: Iterable[str]) -> None:
        slots = asyncio.Semaphore(CONCURRENCY)

        async def delete_one(key: str) -> None:
            async def attempt() -> None:
                self._meter.count(Request.DELETE)
                try:
                    await (await self._blob(key)).delete_blob(retry_total=0)
                except _FAILURES as error:
                    explained = self._explain(error, "delete", key, OVERWRITE)
                    if not isinstance(explained, NotFound):
                        raise explained from None

            async with slots:
                await repeat(Patience("delete", BRIEF, self._runtime), attempt)

        await asyncio.gather(*(delete_one(check_key(key)) for key in keys))

    async def close(self) -> None:
        if self._service is not None:
            await self._service.close()
            self._service = None

    async def _download(self, key: str, arguments: dict[str, Any]) -> tuple[BlobProperties, bytes]:
        self._meter.count(Request.GET)
        try:
            found = await (await self._blob(key)).download_blob(**arguments)
            data = await found.readall()
        except _FAILURES as error:
            raise self._explain(error, "get", key) from None
        self._meter.count(Request.GET, max(0, -(-(len(data) - SINGLE_GET) // PART)))
        return found.properties, data

    async def _container(self) -> ContainerClient:
        return (await self._connected()).get_container_client(self._place.bucket)

    async def _blob(self, key: str) -> BlobClient:
        return (await self._container()).get_blob_client(self._base + check_key(key))

    def _explain(self, error: Exception, operation: str, key: str, mode: PutMode | None = None) -> Exception:
        return explain(_failure(error, self._options), operation, key, self.url, mode=mode)

    async def _connected(self) -> BlobServiceClient:
        """Made at the first call, inside the event loop that it will belong to."""
        if self._service is None:
            options = self._options
            try:
                found = AzureBlobFileSystem(**_account(self._place, options), skip_instance_cache=True).service_client
            except ValueError:
                raise InvalidError("Azure needs an account name and credentials: set them as options") from None
            session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, trust_env=True)
            self._service = BlobServiceClient(
                found.url,
                credential=found.credential,
                transport=AioHttpTransport(session=send_once(session)),
                connection_timeout=options.number("connect_timeout", 5),
                read_timeout=options.number("timeout", 30),
                retry_total=0,
                max_single_put_size=SINGLE_PUT,
                max_single_get_size=SINGLE_GET,
                max_chunk_get_size=PART,
            )
        return self._service


def _account(place: Place, options: Options) -> dict[str, Any]:
    """adlfs's own names for it. An endpoint of one's own goes into a connection string, the only way it takes one."""
    name = place.account or options.text("account_name")
    key, sas, endpoint = (options.text(option) for option in ("account_key", "sas_token", "endpoint"))
    if endpoint and (key or sas):
        secret = f"AccountKey={key}" if key else f"SharedAccessSignature={sas.removeprefix('?')}"
        return {"connection_string": f"AccountName={name};{secret};BlobEndpoint={endpoint};", "account_name": name}
    return {
        "account_name": name or None,
        "account_key": key or None,
        "sas_token": sas or None,
        "client_id": options.text("client_id") or None,
        "client_secret": options.text("client_secret") or None,
        "tenant_id": options.text("tenant_id") or None,
        "anon": options.flag("anonymous"),
    }


def _meta(key: str, properties: BlobProperties) -> ObjectMeta:
    etag = str(properties.etag)
    # Listings leave the quotes out.
    quoted = etag if etag.endswith('"') else f'"{etag}"'
    assert properties.last_modified is not None
    return ObjectMeta(key, properties.size, int(properties.last_modified.timestamp() * 1000), quoted)


def _failure(error: Exception, options: Options) -> Failure:
    if isinstance(error, HttpResponseError) and error.status_code is not None:
        code = getattr(error, "error_code", None) or ""
        code = str(getattr(code, "value", code))
        return Failure(error.status_code, code, options.hide(error.message.split("\n")[0]))
    if isinstance(error, ClientAuthenticationError):
        return Failure(401, "NoCredentials", "Azure's credentials were not found or could not be refreshed")
    # The SDK's ServiceRequestError claims that nothing was sent, but it stands for a server that hung up as well.
    cause = getattr(error, "inner_exception", None) or error
    sent = not isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    return Failure(None, message=f"no answer ({type(cause).__name__})", sent=sent)
