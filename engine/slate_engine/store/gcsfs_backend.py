"""Google Cloud Storage through gcsfs.

gcsfs finds credentials and keeps the session; the calls are the JSON API's own, because gcsfs can create conditionally but
not update, retries every upload six times, and parts the body of an upload with a boundary that the data may contain. An
etag here is the object's *generation*, a number that never comes back: 0 stands for "no object", so create is
``ifGenerationMatch=0`` and update is ``ifGenerationMatch=<generation>``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias
from urllib.parse import quote

import aiohttp
import google.auth.exceptions
from gcsfs.core import GCSFileSystem
from yarl import URL

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
    Conflict,
    Create,
    NotFound,
    NotModified,
    Object,
    ObjectMeta,
    Overwrite,
    PutMode,
    Update,
)
from slate_engine.store.ranges import fetch_ranges
from slate_engine.store.retry import BRIEF, Patience, repeat
from slate_engine.store.streams import parts_of

PAGE = 1000
CONCURRENCY = 16
Answer: TypeAlias = tuple[Mapping[str, str], bytes]
"""The headers and the body."""
_FAILURES = (aiohttp.ClientError, OSError, google.auth.exceptions.GoogleAuthError)


class GcsfsBackend:
    """One bucket, from ``place.prefix`` down."""

    def __init__(self, place: Place, options: Options, runtime: Runtime, *, meter: RequestMeter | None = None) -> None:
        self._place = place
        self._options = options
        self._runtime = runtime
        self._meter = meter or Tally()
        self._base = f"{place.prefix}/" if place.prefix else ""
        self._fs: GCSFileSystem | None = None

    @property
    def url(self) -> str:
        return self._place.url

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        condition = {"ifGenerationNotMatch": if_none_match} if if_none_match and if_none_match.isdigit() else {}
        headers, data = await self._download(key, {}, condition)
        generation = headers["X-Goog-Generation"]
        if generation == if_none_match:
            raise NotModified  # from a server that does not know the condition
        modified = int(parsedate_to_datetime(headers["Last-Modified"]).timestamp() * 1000)
        return Object(ObjectMeta(key, len(data), modified, generation), data)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        async def fetch(start: int, end: int) -> Buffer:
            try:
                return (await self._download(key, {"Range": f"bytes={start}-{end - 1}"}, {}))[1]
            except NotSatisfiable:
                return b""

        return await fetch_ranges(ranges, fetch)

    async def head(self, key: str) -> ObjectMeta:
        return (await self.read_mark(key)).meta

    async def read_mark(self, key: str) -> Signed:
        self._meter.count(Request.HEAD)
        _, body = await self._send("GET", self._object(key), "head", key)
        found = json.loads(body)
        notes = found.get("metadata", {})
        return Signed(replace(_meta(key, found), attributes=attributes_of(notes)), notes.get(MARK, ""))

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        self._meter.count(Request.PUT)
        boundary = self._runtime.random_bytes(24).hex()
        part = f"--{boundary}\r\nContent-Type: "
        head = (
            f"{part}application/json\r\n\r\n{self._resource(key, mode, mark)}\r\n{part}application/octet-stream\r\n\r\n"
        )
        whole = b"".join([head.encode(), data, f"\r\n--{boundary}--\r\n".encode()])
        _, body = await self._upload(key, mode, "multipart", f"multipart/related; boundary={boundary}", whole)
        return str(json.loads(body)["generation"])

    async def _upload(self, key: str, mode: PutMode, kind: str, content_type: str, data: bytes) -> Answer:
        path, query = f"/upload/storage/v1/b/{self._place.bucket}/o", {"uploadType": kind, **self._condition(key, mode)}
        headers = {"Content-Type": content_type}
        return await self._send("POST", path, "put", key, mode, query=query, headers=headers, data=data)

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer], *, mark: str = "") -> str:
        parts = parts_of(chunks)
        held = await anext(parts, b"")
        following = await anext(parts, None)
        if following is None:
            return await self.put(key, held, mark=mark)
        self._meter.count(Request.POST)
        begun = await self._upload(
            key, OVERWRITE, "resumable", "application/json", self._resource(key, OVERWRITE, mark).encode()
        )
        upload, start = begun[0]["Location"], 0
        # Only the last part says how long the whole is, and only with it does the object come to be.
        while following is not None:
            await self._send_part(upload, key, held, start, "*")
            start += len(held)
            held, following = following, await anext(parts, None)
        body = await self._send_part(upload, key, held, start, str(start + len(held)))
        return str(json.loads(body)["generation"])

    async def _send_part(self, upload: str, key: str, part: bytes, start: int, total: str) -> bytes:
        """Bytes that the service has already are ignored, so a part may be sent again."""

        async def attempt() -> bytes:
            self._meter.count(Request.PUT)
            span = {"Content-Range": f"bytes {start}-{start + len(part) - 1}/{total}"}
            return (await self._send("PUT", upload, "put", key, OVERWRITE, headers=span, data=part))[1]

        return await repeat(Patience("put_stream", BRIEF, self._runtime), attempt)

    async def copy(self, source: str, destination: str) -> None:
        path = f"{self._object(source)}/rewriteTo{self._object(destination).removeprefix('/storage/v1')}"
        query: dict[str, str] = {}
        while True:
            # A large object is copied in several steps, each of which names the next.
            self._meter.count(Request.COPY)
            _, body = await self._send("POST", path, "copy", source, OVERWRITE, query=query)
            answer = json.loads(body)
            if answer.get("done", True):
                return
            query = {"rewriteToken": answer["rewriteToken"]}

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        query = {"prefix": self._base + check_prefix(prefix), "maxResults": str(PAGE)}
        if start_after:
            query["startOffset"] = self._base + start_after
        cut = len(self._base)
        while True:
            self._meter.count(Request.LIST)
            _, body = await self._send("GET", f"/storage/v1/b/{self._place.bucket}/o", "list", "", query=query)
            answer = json.loads(body)
            named = [(entry["name"][cut:], entry) for entry in answer.get("items", [])]
            page = [_meta(key, entry) for key, entry in named if key > start_after]
            if page:
                yield page
            if not answer.get("nextPageToken"):
                return
            query["pageToken"] = answer["nextPageToken"]

    async def delete(self, keys: Iterable[str]) -> None:
        slots = asyncio.Semaphore(CONCURRENCY)

        async def delete_one(key: str) -> None:
            async def attempt() -> None:
                self._meter.count(Request.DELETE)
                with suppress(NotFound):
                    await self._send("DELETE", self._object(key), "delete", key, OVERWRITE)

            async with slots:
                await repeat(Patience("delete", BRIEF, self._runtime), attempt)

        await asyncio.gather(*(delete_one(check_key(key)) for key in keys))

    async def close(self) -> None:
        if self._fs is not None and self._fs._session is not None:
            await self._fs._session.close()
            self._fs = None

    def _object(self, key: str) -> str:
        return f"/storage/v1/b/{self._place.bucket}/o/{quote(self._base + check_key(key), safe='')}"

    def _resource(self, key: str, mode: PutMode, mark: str) -> str:
        notes = notes_of(mode, mark)
        return json.dumps({"name": self._base + check_key(key)} | ({"metadata": notes} if notes else {}))

    def _condition(self, key: str, mode: PutMode) -> dict[str, str]:
        match mode:
            case Create():
                return {"ifGenerationMatch": "0"}
            case Update(etag):
                if not etag.isdigit() or etag == "0":
                    raise Conflict(key, mode)  # no object ever had this etag
                return {"ifGenerationMatch": etag}
            case Overwrite():
                return {}

    async def _download(self, key: str, headers: Mapping[str, str], condition: Mapping[str, str]) -> Answer:
        self._meter.count(Request.GET)
        path = f"/download{self._object(key)}"
        return await self._send("GET", path, "get", key, query={"alt": "media", **condition}, headers=headers)

    async def _send(
        self,
        method: str,
        path: str,
        operation: str,
        key: str,
        mode: PutMode | None = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> Answer:
        try:
            fs = await self._connected()
            url = path if path.startswith("http") else fs._location + path
            asked = fs._get_headers({"Accept-Encoding": "identity", **(headers or {})})
            async with fs.session.request(
                method,
                URL(url, encoded=True).update_query(query or {}),
                headers=asked,
                data=data,
                allow_redirects=False,
            ) as answer:
                body = await answer.read()
                if answer.status < 300 or answer.status == 308:
                    return answer.headers, body
                failure = _failure_of(answer.status, body, self._options)
        except _FAILURES as error:
            failure = _failure(error)
        raise explain(failure, operation, key, self.url, mode=mode) from None

    async def _connected(self) -> GCSFileSystem:
        """Made at the first call, inside the event loop that it will belong to."""
        if self._fs is None:
            options = self._options
            limits = {"total": options.number("timeout", 30), "sock_connect": options.number("connect_timeout", 5)}
            fs = GCSFileSystem(
                token=_token(options),
                endpoint_url=options.text("endpoint") or None,
                session_kwargs={"timeout": aiohttp.ClientTimeout(**limits)},
                asynchronous=True,
                loop=asyncio.get_running_loop(),
                skip_instance_cache=True,
                use_listings_cache=False,
            )
            await fs._set_session()
            send_once(fs.session)
            self._fs = fs
        return self._fs


def _token(options: Options) -> Any:
    """What gcsfs calls a token: "anon", a file, the content of one, a bearer token; None to look around."""
    if options.flag("anonymous"):
        return "anon"
    if key := options.text("service_account_key"):
        try:
            return json.loads(key)
        except ValueError:
            raise InvalidError("option service_account_key must be the JSON of a service account's key") from None
    files = options.text("service_account") or options.text("application_credentials")
    return files or options.text("bearer_token") or None


def _meta(key: str, resource: Mapping[str, Any]) -> ObjectMeta:
    modified = int(datetime.fromisoformat(resource["updated"]).timestamp() * 1000)
    return ObjectMeta(key, int(resource["size"]), modified, str(resource["generation"]))


def _failure_of(status: int, body: bytes, options: Options) -> Failure:
    code = message = ""
    try:
        said = json.loads(body)["error"]
        message = str(said["message"])
        code = str(said["errors"][0]["reason"])
    except (ValueError, KeyError, TypeError, IndexError):
        pass
    if status == 404:
        # One reason for both, so only the sentence tells an object that is missing from a bucket that is.
        code = "NoSuchBucket" if "bucket" in message.lower() else ""
    return Failure(status, code, options.hide(message))


def _failure(error: Exception) -> Failure:
    if isinstance(error, google.auth.exceptions.GoogleAuthError):
        return Failure(401, "NoCredentials", "Google's credentials were not found or could not be refreshed")
    sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    return Failure(None, message=f"no answer ({type(error).__name__})", sent=sent)
