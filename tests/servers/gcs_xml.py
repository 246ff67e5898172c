"""Google Cloud Storage's XML API in memory, as far as obstore uses it.

fake-gcs-server has the JSON API only, which obstore does not speak, and there is no other server to be had. This one is
ours, so it shows that our use of obstore is consistent with the documented API, and nothing about Google's servers.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import formatdate
from xml.sax.saxutils import escape

from aiohttp import web
from yarl import URL

from tests.servers.process import LOOPBACK


@dataclass
class Stored:
    data: bytes
    generation: int
    metadata: dict[str, str]

    @property
    def headers(self) -> dict[str, str]:
        marks = {f"x-goog-meta-{name}": value for name, value in self.metadata.items()}
        times = {"Last-Modified": formatdate(1_790_000_000, usegmt=True)}
        return {"ETag": self.etag, "x-goog-generation": str(self.generation), **times, **marks}

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data).hexdigest()}"'


class GcsXml:
    """One bucket."""

    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self._uploads: dict[str, tuple[dict[str, str], dict[int, bytes]]] = {}
        self._generations = itertools.count(1_700_000_000_000_001)

    async def answer(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        query = request.query
        match request.method:
            case "GET" if not key:
                return self._list(
                    query.get("prefix", ""), query.get("start-after", ""), query.get("continuation-token", "")
                )
            case "GET" | "HEAD":
                return self._get(request, key)
            case "PUT" if "partNumber" in query:
                data = await request.read()
                self._uploads[query["uploadId"]][1][int(query["partNumber"])] = data
                return web.Response(headers={"ETag": f'"{hashlib.md5(data).hexdigest()}"'})
            case "PUT":
                return await self._put(request, key)
            case "POST" if "uploads" in query:
                upload = f"upload-{next(self._generations)}"
                self._uploads[upload] = (_metadata(request), {})
                return _xml(f"<R><UploadId>{upload}</UploadId></R>")
            case "POST":
                if (begun := self._uploads.pop(query["uploadId"], None)) is None:
                    return _refused(404, "NoSuchUpload")
                stored = self._store(key, b"".join(part for _, part in sorted(begun[1].items())), begun[0])
                body = f"<R><ETag>{escape(stored.etag)}</ETag></R>"
                return web.Response(text=body, headers={"x-goog-generation": str(stored.generation)})
            case "DELETE" if "uploadId" in query:
                self._uploads.pop(query["uploadId"], None)
                return web.Response(status=204)
            case "DELETE":
                return web.Response(status=204) if self.objects.pop(key, None) else _refused(404, "NoSuchKey")
        return _refused(405, "MethodNotAllowed")

    async def _put(self, request: web.Request, key: str) -> web.Response:
        data, metadata = await request.read(), _metadata(request)
        if source := request.headers.get("x-goog-copy-source"):
            origin = self.objects.get(URL(f"/{source}", encoded=True).path.split("/", 2)[2])
            if origin is None:
                return _refused(404, "NoSuchKey")
            data, metadata = origin.data, origin.metadata
        present = self.objects[key].generation if key in self.objects else 0
        if (wanted := request.headers.get("x-goog-if-generation-match")) is not None and int(wanted) != present:
            return _refused(412, "PreconditionFailed")
        stored = self._store(key, data, metadata)
        if source:
            return _xml(f"<R><ETag>{escape(stored.etag)}</ETag></R>")
        return web.Response(headers=stored.headers)

    def _get(self, request: web.Request, key: str) -> web.Response:
        stored = self.objects.get(key)
        if stored is None:
            return _refused(404, "NoSuchKey")
        if request.headers.get("If-None-Match") == stored.etag:
            return web.Response(status=304, headers={"ETag": stored.etag})
        size, headers = len(stored.data), stored.headers
        if span := re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", "")):
            start, end = int(span[1]), min(int(span[2]), size - 1)
            if start >= size:
                return _refused(416, "InvalidRange")
            headers["Content-Range"] = f"bytes {start}-{end}/{size}"
            return web.Response(status=206, body=stored.data[start : end + 1], headers=headers)
        if request.method == "HEAD":
            return web.Response(headers={**headers, "Content-Length": str(size)})
        return web.Response(body=stored.data, headers=headers)

    def _list(self, prefix: str, start_after: str, token: str) -> web.Response:
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > max(start_after, token))
        page = keys[:1000]
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[key].data)}</Size>"
            f"<LastModified>2026-09-21T14:13:20Z</LastModified><ETag>{escape(self.objects[key].etag)}</ETag></Contents>"
            for key in page
        )
        more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if len(keys) > 1000 else ""
        return _xml(f"<ListBucketResult>{entries}{more}</ListBucketResult>")

    def _store(self, key: str, data: bytes, metadata: dict[str, str]) -> Stored:
        self.objects[key] = Stored(data, next(self._generations), metadata)
        return self.objects[key]


def _metadata(request: web.Request) -> dict[str, str]:
    prefix = "x-goog-meta-"
    return {k.lower().removeprefix(prefix): v for k, v in request.headers.items() if k.lower().startswith(prefix)}


def _xml(text: str) -> web.Response:
    return web.Response(text=text, content_type="application/xml")


def _refused(status: int, code: str) -> web.Response:
    return web.Response(status=status, text=f"<Error><Code>{code}</Code><Message>{code}</Message></Error>")


@asynccontextmanager
async def gcs_xml(bucket: str) -> AsyncIterator[str]:
    """The endpoint of a new, empty server."""
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", f"/{bucket}{{slash:/?}}{{key:.*}}", GcsXml().answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    yield f"http://{LOOPBACK}:{runner.addresses[0][1]}"
    await runner.cleanup()
