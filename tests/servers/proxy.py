"""A proxy in front of a server that loses requests or answers on command.

It stands between a real client and a real server and forwards bytes. Told to lose an answer, it lets the server carry the
request out and read its answer to the last byte before it hangs up on the client; told to lose a request, it hangs up
without a word to the server. That is what a broken network does, at the worst moment, as often as a test wants.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from tests.servers.process import LOOPBACK


class Loss(enum.Enum):
    NONE = "none"
    REQUEST = "request"
    ANSWER = "answer"


class LossyProxy:
    """Forwards to ``target`` (an endpoint's url). ``decide`` is asked for each request, given its first line."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._server: asyncio.Server | None = None
        self.decide: Callable[[str], Awaitable[Loss]] = _forward
        self._meanwhile: Callable[[], Awaitable[object]] | None = None
        self.seen: list[str] = []
        """The first line of every request that arrived."""
        self.heads: list[str] = []
        """And its whole head."""

    @property
    def endpoint(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return urlunsplit(self._target._replace(netloc=f"{LOOPBACK}:{port}"))

    def lose(
        self, loss: Loss, matches: Callable[[str], bool], *, meanwhile: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        """Strike the next request whose first line ``matches``, and no other. ``meanwhile`` is done before the client can
        learn of the loss."""
        struck = False

        async def decide(line: str) -> Loss:
            nonlocal struck
            if struck or not matches(line):
                return Loss.NONE
            struck = True
            return loss

        self.decide = decide
        self._meanwhile = meanwhile

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        """One request per connection: the answer says that the connection closes, so nothing is left in between."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await client.readuntil(b"\r\n\r\n")
            line = head.split(b"\r\n", 1)[0].decode()
            self.seen.append(line)
            self.heads.append(head.decode())
            loss = await self.decide(line)
            if "100-continue" in head.decode().lower():
                answers.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await _body(head, client)
            if loss is not Loss.REQUEST:
                answer = await self._ask(head, body)
                if loss is Loss.NONE:
                    answers.write(answer)
                    await answers.drain()
            if loss is not Loss.NONE and self._meanwhile is not None:
                await self._meanwhile()
        answers.close()

    async def _ask(self, head: bytes, body: bytes) -> bytes:
        assert self._target.hostname is not None
        server, requests = await asyncio.open_connection(self._target.hostname, self._target.port)
        try:
            lines = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"connection:", b"expect:"))]
            lines.insert(1, b"Connection: close")
            requests.write(b"\r\n".join(lines) + body)
            await requests.drain()
            return await server.read()
        finally:
            requests.close()


async def _forward(line: str) -> Loss:
    return Loss.NONE


async def _body(head: bytes, client: asyncio.StreamReader) -> bytes:
    fields = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
    }
    if b"chunked" in fields.get(b"transfer-encoding", b"").lower():
        body = b""
        while True:
            size = await client.readuntil(b"\r\n")
            chunk = await client.readexactly(int(size.split(b";")[0], 16) + 2)
            body += size + chunk
            if int(size.split(b";")[0], 16) == 0:
                return body
    return await client.readexactly(int(fields.get(b"content-length", b"0")))
