"""One client's socket.

Requests are carried out one after the other, and their replies are sent in the same order, each when its write is durable.
Both sides are bounded: a client that sends faster than it is served finds its socket full, and one that does not read what
it asked for is waited for and in the end cut off. Neither slows down another client.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import cast

from slate_engine.errors import Error
from slate_engine.server.resp.execution import Outcome, as_reply, execute
from slate_engine.server.resp.replies import Reply, encode, error_line
from slate_engine.server.resp.requests import STRANGERS, ProtocolError, RequestParser
from slate_engine.server.resp.service import RespService
from slate_engine.server.resp.session import Session

log = logging.getLogger(__name__)

INPUT_HIGH = 1 << 20
"""With so many bytes waiting to be understood, the socket is left alone until there are fewer."""

OUTPUT_CHUNK = 64 << 10
"""So much is handed to the socket at once, which then says whether the client keeps up."""


class Connection(asyncio.Protocol):
    """Made for each client by the listener."""

    def __init__(
        self,
        service: RespService,
        enter: Callable[[Connection], Session | None],
        leave: Callable[[Connection], None],
    ) -> None:
        self._service = service
        self._enter = enter
        self._leave = leave
        self._parser = RequestParser(STRANGERS)
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._ended = False
        self._reading = True
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._waiting: deque[tuple[Outcome, int]] = deque()
        self._answered = asyncio.Event()
        self._answering: asyncio.Task[None] | None = None
        self._serving: asyncio.Task[None] | None = None

    # --- what the event loop tells us ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, and does not say so
        self._transport.set_write_buffer_limits(high=self._service.limits.output_bytes // 4)
        session = self._enter(self)
        if session is None:
            self._transport.write(error_line("ERR max number of clients reached"))
            self._transport.close()
            return
        self.session = session
        self._parser.limits = self._service.limits.request if session.authenticated else STRANGERS
        self._serving = asyncio.ensure_future(self._serve())

    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)
        self._arrived.set()
        if self._parser.buffered > INPUT_HIGH and self._reading:
            self._reading = False
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def eof_received(self) -> bool:
        """The client has said all it wanted, and may still read: what it asked for is answered."""
        self._ended = True
        self._arrived.set()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        for task in (self._serving, self._answering):
            if task is not None:
                task.cancel()
        self._room.set()
        self._leave(self)

    # --- serving -------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether something is asked for that has not been answered."""
        return bool(self._waiting) or self._parser.buffered > 0

    @property
    def address(self) -> str:
        peer = self._transport.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer or "")

    def finish(self) -> None:
        """Answer what has been asked for by now, and close."""
        self._ended = True
        self._arrived.set()

    def close(self) -> None:
        """What has been written to the socket is still sent."""
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    async def _serve(self) -> None:
        session = self.session
        try:
            while not session.leaving:
                requests = self._parser.requests(self._service.limits.pipeline)
                if not requests:
                    if self._ended:
                        break
                    self._listen()
                    self._arrived.clear()
                    await self._arrived.wait()
                    continue
                await self._carry_out(requests)
            await self._all_answered()
        except ProtocolError as error:
            await self._all_answered()
            self._transport.write(error_line(f"ERR {error.message}"))
            self._service.numbers.refused("protocol")
        except Exception:
            log.exception("serving %s failed", session.address)
        finally:
            await session.leave_transaction()
            self._transport.close()

    def _listen(self) -> None:
        """Take more bytes from the socket, if that was stopped. What one request may come to, the parser may hold."""
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()

    async def _carry_out(self, requests: list[list[bytes]]) -> None:
        session, pipeline = self.session, self._service.limits.pipeline
        for request in requests:
            outcome = await execute(session, request)
            if outcome.write is None and not self._waiting:
                self._send(encode(outcome.reply, session.version))
            else:
                self._wait_for(outcome, session.version)
                while len(self._waiting) >= pipeline:
                    self._answered.clear()
                    await self._answered.wait()
            if not self._room.is_set():
                await self._drained()
            if session.leaving:
                break
        if session.authenticated:
            self._parser.limits = self._service.limits.request

    def _send(self, reply: bytes) -> None:
        """What is said in one round of the event loop goes out together."""
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing.append(reply)
        self._outgoing_bytes += len(reply)
        if self._outgoing_bytes >= OUTPUT_CHUNK:
            self._flush()

    def _flush(self) -> None:
        if self._outgoing:
            self._transport.write(b"".join(self._outgoing))
            self._outgoing.clear()
            self._outgoing_bytes = 0

    async def _drained(self) -> None:
        """The client does not read as fast as it asks. It is asked no more of, until it has."""
        if self._transport.get_write_buffer_size() > self._service.limits.output_bytes:
            self._service.numbers.refused("output")
            log.warning("%s is cut off: it leaves too much unread", self.session.address)
            self._transport.abort()
        await self._room.wait()

    # --- answers that wait for durability ------------------------------------------------------------------------

    def _wait_for(self, outcome: Outcome, version: int) -> None:
        self._waiting.append((outcome, version))
        if self._answering is None or self._answering.done():
            self._answering = asyncio.ensure_future(self._answer())

    async def _answer(self) -> None:
        while self._waiting:
            outcome, version = self._waiting[0]
            reply = encode(await settled(outcome), version)
            self._waiting.popleft()
            self._send(reply)
            self._answered.set()

    async def _all_answered(self) -> None:
        if self._answering is not None:
            await asyncio.gather(self._answering, return_exceptions=True)
        self._flush()


async def settled(outcome: Outcome) -> Reply:
    """The reply, when its write is durable; the reason, if it never will be."""
    if outcome.write is not None:
        try:
            await outcome.write.await_durable()
        except Error as error:
            return as_reply(error)
    return outcome.reply
