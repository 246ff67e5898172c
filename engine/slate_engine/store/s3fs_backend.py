"""S3 and its dialects through s3fs (aiobotocore).

s3fs finds credentials and keeps the session; the calls themselves are S3's own, through its ``_call_s3``, because its file
operations are not to be trusted with a condition: ``pipe_file`` drops ``IfMatch`` from 100 MiB on, and ``open("xb")`` of
an empty body overwrites.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import aiohttp
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)
from s3fs import S3FileSystem

from slate_engine.errors import Error
from slate_engine.runtime import Runtime
from slate_engine.store.backend import MARK, Signed, attributes_of, check_key, check_prefix, notes_of
from slate_engine.store.cost import Request, RequestMeter, Tally
from slate_engine.store.failure import Failed, Failure, NotSatisfiable, explain
from slate_engine.store.options import Options
from slate_engine.store.place import Place
from slate_engine.store.protocol import (
    OVERWRITE,
    Buffer,
    Create,
    Object,
    ObjectMeta,
    Overwrite,
    PutMode,
    Update,
)
from slate_engine.store.ranges import fetch_ranges
from slate_engine.store.retry import BRIEF, Patience, repeat
from slate_engine.store.s3fs_client import connect
from slate_engine.store.streams import parts_of, send_parts

COPY_LIMIT = 5 << 30
"""S3 copies objects of up to 5 GiB in one request, and larger ones in parts of up to as much."""
_FAILURES = (OSError, BotoCoreError, ClientError, aiohttp.ClientError)


class S3fsBackend:
    """One bucket, from ``place.prefix`` down."""

    def __init__(
        self,
        place: Place,
        options: Options,
        runtime: Runtime,
        *,
        meter: RequestMeter | None = None,
        copy_limit: int = COPY_LIMIT,
    ) -> None:
        self._place = place
        self._options = options
        self._runtime = runtime
        self._meter = meter or Tally()
        self._copy_limit = copy_limit
        self._base = f"{place.prefix}/" if place.prefix else ""
        self._fs: S3FileSystem | None = None

    @property
    def url(self) -> str:
        return self._place.url

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        condition = {} if if_none_match is None else {"IfNoneMatch": if_none_match}
        answer, data = await self._read("get", key, **condition)
        return Object(_meta(key, answer, len(data)), data)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        async def fetch(start: int, end: int) -> Buffer:
            try:
                return (await self._read("get", key, Range=f"bytes={start}-{end - 1}"))[1]
            except NotSatisfiable:
                return b""

        return await fetch_ranges(ranges, fetch)

    async def head(self, key: str) -> ObjectMeta:
        return (await self.read_mark(key)).meta

    async def read_mark(self, key: str) -> Signed:
        self._meter.count(Request.HEAD)
        answer = await self._call("head_object", "head", check_key(key))
        notes = answer.get("Metadata", {})
        meta = replace(_meta(key, answer, answer["ContentLength"]), attributes=attributes_of(notes))
        return Signed(meta, notes.get(MARK, ""))

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        self._meter.count(Request.PUT)
        condition: dict[str, str] = {}
        match mode:
            case Create():
                condition["IfNoneMatch"] = "*"
            case Update(etag):
                condition["IfMatch"] = etag
            case Overwrite():
                pass
        notes = notes_of(mode, mark)
        answer = await self._call(
            "put_object", "put", check_key(key), mode, Body=bytes(data), Metadata=notes, **condition
        )
        return str(answer["ETag"])

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer], *, mark: str = "") -> str:
        parts = parts_of(chunks)
        first = await anext(parts, b"")
        second = await anext(parts, None)
        if second is None:
            return await self.put(key, first, mark=mark)

        async def everything() -> AsyncIterator[bytes]:
            yield first
            yield second
            async for part in parts:
                yield part

        async def send_all(upload: dict[str, str]) -> list[dict[str, Any]]:
            async def send(number: int, part: bytes) -> dict[str, Any]:
                # Sending a part again replaces it, so these may be repeated.
                async def attempt() -> Any:
                    self._meter.count(Request.PUT)
                    return await self._call(
                        "upload_part", "put", key, OVERWRITE, Body=part, PartNumber=number, **upload
                    )

                answer = await repeat(Patience("put_stream", BRIEF, self._runtime), attempt)
                return {"PartNumber": number, "ETag": answer["ETag"]}

            return await send_parts(everything(), send)

        return await self._multipart("put", check_key(key), notes_of(OVERWRITE, mark), send_all)

    async def _multipart(
        self,
        operation: str,
        key: str,
        metadata: dict[str, str],
        send_all: Callable[[dict[str, str]], Awaitable[list[dict[str, Any]]]],
    ) -> str:
        """An upload whose parts are what ``send_all`` sends; abandoned, if that fails."""
        self._meter.count(Request.POST, 2)
        begun = await self._call("create_multipart_upload", operation, key, OVERWRITE, Metadata=metadata)
        upload = {"UploadId": begun["UploadId"]}
        try:
            whole = {"MultipartUpload": {"Parts": await send_all(upload)}}
        except BaseException:
            # What went wrong matters more than this; a lifecycle rule of the bucket removes parts that stay.
            with suppress(Error):
                await self._call("abort_multipart_upload", operation, key, OVERWRITE, **upload)
            raise
        answer = await self._call("complete_multipart_upload", operation, key, OVERWRITE, **upload, **whole)
        return str(answer["ETag"])

    async def copy(self, source: str, destination: str) -> None:
        self._meter.count(Request.COPY)
        origin = {"CopySource": {"Bucket": self._place.bucket, "Key": self._base + check_key(source)}}
        try:
            await self._send("copy_object", check_key(destination), **origin)
        except Failed as error:
            if error.failure.status == 400 and (size := (await self.head(source)).size) > self._copy_limit:
                await self._copy_in_parts(destination, origin, size)
                return
            raise explain(error.failure, "copy", source, self.url, mode=OVERWRITE) from None

    async def _copy_in_parts(self, destination: str, origin: dict[str, Any], size: int) -> None:
        async def send_all(upload: dict[str, str]) -> list[dict[str, Any]]:
            sent = []
            for number, start in enumerate(range(0, size, self._copy_limit), 1):
                self._meter.count(Request.COPY)
                span = f"bytes={start}-{min(start + self._copy_limit, size) - 1}"
                part = {**origin, **upload, "PartNumber": number, "CopySourceRange": span}
                answer = await self._call("upload_part_copy", "copy", destination, OVERWRITE, **part)
                sent.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
            return sent

        await self._multipart("copy", destination, {}, send_all)

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        where: dict[str, Any] = {"Prefix": self._base + check_prefix(prefix)}
        if start_after:
            where["StartAfter"] = self._base + start_after
        while True:
            self._meter.count(Request.LIST)
            answer = await self._call("list_objects_v2", "list", "", **where)
            cut = len(self._base)
            page = [_meta(entry["Key"][cut:], entry, entry["Size"]) for entry in answer.get("Contents", [])]
            if page:
                yield page
            if not answer.get("IsTruncated"):
                return
            where["ContinuationToken"] = answer["NextContinuationToken"]

    async def delete(self, keys: Iterable[str]) -> None:
        gone = [{"Key": self._base + check_key(key)} for key in keys]
        for start in range(0, len(gone), 1000):
            self._meter.count(Request.DELETE)
            batch = {"Objects": gone[start : start + 1000], "Quiet": True}
            answer = await self._call("delete_objects", "delete", "", OVERWRITE, Delete=batch)
            for failed in answer.get("Errors", []):
                if failed.get("Code") != "NoSuchKey":
                    failure = Failure(500, failed.get("Code", ""), failed.get("Message", ""))
                    raise explain(failure, "delete", failed["Key"], self.url, mode=OVERWRITE)

    async def close(self) -> None:
        if self._fs is not None and self._fs._s3 is not None:
            await self._fs._s3.close()
            self._fs = None

    async def _read(self, operation: str, key: str, **arguments: Any) -> tuple[Any, bytes]:
        self._meter.count(Request.GET)
        answer = await self._call("get_object", operation, check_key(key), **arguments)
        try:
            async with answer["Body"] as body:
                return answer, await body.read()
        except _FAILURES as error:
            raise explain(_failure(error, self._options), operation, key, self.url) from None

    async def _call(self, method: str, operation: str, key: str, mode: PutMode | None = None, **arguments: Any) -> Any:
        try:
            return await self._send(method, key, **arguments)
        except Failed as error:
            raise explain(error.failure, operation, key, self.url, mode=mode) from None

    async def _send(self, method: str, key: str, **arguments: Any) -> Any:
        if key:
            arguments["Key"] = self._base + key
        try:
            fs = await self._connected()
            return await fs._call_s3(method, Bucket=self._place.bucket, **arguments)
        except _FAILURES as error:
            raise Failed(_failure(error, self._options)) from None

    async def _connected(self) -> S3FileSystem:
        """Made at the first call, inside the event loop that it will belong to."""
        if self._fs is None:
            self._fs = await connect(self._options)
        return self._fs


def _meta(key: str, answer: dict[str, Any], size: int) -> ObjectMeta:
    return ObjectMeta(key, size, int(answer["LastModified"].timestamp() * 1000), answer["ETag"])


def _failure(error: Exception, options: Options) -> Failure:
    cause = error.__cause__ if isinstance(error, OSError) else error
    if isinstance(cause, ClientError):
        said = cause.response.get("Error", {})
        status = cause.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
        return Failure(status, str(said.get("Code", "")), options.hide(str(said.get("Message", ""))))
    if isinstance(error, NoCredentialsError | PartialCredentialsError | CredentialRetrievalError):
        return Failure(401, "NoCredentials", "no credentials were found in the options or the environment")
    if isinstance(error, ParamValidationError):
        return Failure(400, "InvalidArgument", options.hide(str(error)))
    return Failure(None, message=f"no answer ({type(error).__name__})", sent=not _is_unsent(error))


def _is_unsent(error: Exception) -> bool:
    """Whether nothing reached the service. botocore's error for a connection that could not be made is also that for one
    which broke: a server that refuses a large write does not wait for the end of it."""
    if isinstance(error, EndpointConnectionError):
        return isinstance(error.kwargs.get("error"), aiohttp.ClientConnectorError | socket.gaierror)
    return isinstance(error, ConnectTimeoutError)
