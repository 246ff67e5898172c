"""One client's socket.

Requests are carried out one after the other, and their replies are sent in the same order, each when its write is durable.
Both sides are bounded: a client that sends faster than it is served finds its socket full, and one that does not read what
it asked for is waited for and in the end cut off, by the listener's warden. Neither slows down another client.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable
from typing import cast

from slate_engine.api.handle import WriteHandle
from slate_engine.errors import Error
from slate_engine.server.resp.command import LATER
from slate_engine.server.resp.execution import answer_at_once, as_reply, execute
from slate_engine.server.resp.replies import CommandError, Reply, encode, error_line, is_long, pieces
from slate_engine.server.resp.requests import STRANGERS, HttpRequest, ProtocolError, RequestParser
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
        enter: Callable[[Connection], Session],
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
        self._taken: list[list[bytes]] = []
        """Requests that are understood and not carried out."""
        self._fault: ProtocolError | None = None
        self._resting = False
        """Whether the task that serves this client waits for it: then there is nothing that a new request could overtake."""
        self.heard = True
        """Whether a byte has come since somebody last looked."""
        self._waiting: deque[tuple[WriteHandle | None, bytes]] = deque()
        """Replies, and what must be durable before they are sent."""
        self._waiting_bytes = 0
        self._unread = sys.maxsize
        """What the client had not read when somebody last looked. It has read on, if there is less by now."""
        self._answered = asyncio.Event()
        self._answering: asyncio.Task[None] | None = None
        self._serving: asyncio.Task[None] | None = None

    # --- what the event loop tells us ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, and does not say so
        self._secured = transport.get_extra_info("sslcontext") is not None
        self._transport.set_write_buffer_limits(high=self._service.limits.output_bytes // 4)
        self.session = session = self._enter(self)
        self._parser.limits = self._service.limits.request if session.authenticated else STRANGERS
        self._serving = asyncio.ensure_future(self._serve())

    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)
        self.heard = True
        if self._resting and self._answered_at_once():
            return
        self._resting = False
        self._arrived.set()
        if self._parser.buffered > INPUT_HIGH and self._reading:
            self._reading = False
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()
        self._unread = sys.maxsize

    def eof_received(self) -> bool:
        """The client has said all it wanted, and may still read: what it asked for is answered. With TLS it may not."""
        self._ended = True
        self._arrived.set()
        return not self._secured

    def connection_lost(self, error: Exception | None) -> None:
        self._ended = True
        for task in (self._serving, self._answering):
            if task is not None:
                task.cancel()
        self._leave(self)

    # --- serving -------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether something is asked for that has not been answered. Half a request asks for nothing."""
        return bool(self._waiting) or not self._resting

    def reads(self) -> bool:
        """Whether the client has read something since this was last asked, or need not: nobody waits for it. Who has said
        goodbye is waited for, too, until what was written to the socket is sent."""
        unread = self._transport.get_write_buffer_size()
        if not unread or (self._room.is_set() and not self._transport.is_closing()):
            unread = sys.maxsize
        before, self._unread = self._unread, unread
        return unread < before or unread == sys.maxsize

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
                if self._fault is not None:
                    raise self._fault
                requests, self._taken = self._taken or self._parser.requests(self._service.limits.pipeline), []
                if not requests and not self._parser.paused:
                    if self._ended:
                        break
                    self._listen()
                    await self._rest()
                    continue
                await self._carry_out(requests)
                if self._parser.buffered:
                    # What needs no waiting never lets others have their turn, and a full buffer holds 200,000 PINGs.
                    await self._service.keyspace.runtime.sleep(0)
            await self._all_answered()
        except ProtocolError as error:
            await self._all_answered()
            self._gather(error_line(f"ERR {error.message}"))
            self._flush()
            self._service.numbers.refused(error.reason)
            if isinstance(error, HttpRequest) and self._service.warns_of_http():
                log.warning(
                    "%s sent an HTTP request to the Redis port, and was disconnected. If you did not do this, a web page "
                    "may be trying to reach this server through a browser: set a password (resp.password_file)",
                    session.address,
                )
        except Exception:
            log.exception("serving %s failed", session.address)
        finally:
            await session.leave_transaction()
            self._transport.close()

    async def _rest(self) -> None:
        """Until there is something for the task to do."""
        self._arrived.clear()
        self._resting = True
        try:
            await self._arrived.wait()
        finally:
            self._resting = False

    def _answered_at_once(self) -> bool:
        """Answer what has just come in the very call that brought it, as far as it asks for what is in memory: to wake a
        task for it would take longer than the rest. Whether that was all; what begins with another request, or is not whole,
        is left to the task."""
        session = self.session
        try:
            requests = self._parser.requests(self._service.limits.pipeline)
        except ProtocolError as fault:
            self._fault = fault
            requests = []
        answered = 0
        if not self._waiting:
            for request in requests:
                if not self._room.is_set() or (reply := answer_at_once(session, request)) is LATER:
                    break
                self._gather(encode(reply, session.version))
                answered += 1
            self._flush()
        self._taken = requests[answered:]
        return not (self._taken or self._fault is not None or self._parser.buffered)

    def _listen(self) -> None:
        """Take more bytes from the socket, if that was stopped. What one request may come to, the parser may hold."""
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()

    async def _carry_out(self, requests: list[list[bytes]]) -> None:
        session, limits = self.session, self._service.limits
        for request in requests:
            outcome = await execute(session, request)
            if is_long(outcome.reply):
                encoded = await self._encoded(outcome.reply)
            else:
                encoded = encode(outcome.reply, session.version)
            if outcome.write is None and not self._waiting:
                self._send(encoded)
            else:
                self._wait_for(outcome.write, encoded)
                while len(self._waiting) >= limits.pipeline or self._waiting_bytes > limits.output_bytes:
                    self._answered.clear()
                    await self._answered.wait()
            if not self._room.is_set():
                # The client does not read as fast as it asks. Nothing more is done for it, until it has.
                await self._room.wait()
            if session.leaving:
                break
        self._parser.limits = limits.request if session.authenticated else STRANGERS

    async def _encoded(self, reply: Reply) -> bytes:
        """A long reply, between whose pieces others have their turn."""
        gathered: list[bytes] = []
        for piece in pieces(reply, self.session.version):
            gathered.append(piece)
            await self._service.keyspace.runtime.sleep(0)
        return b"".join(gathered)

    def _send(self, reply: bytes) -> None:
        """What is said in one round of the event loop goes out together."""
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._gather(reply)

    def _gather(self, reply: bytes) -> None:
        self._outgoing.append(reply)
        self._outgoing_bytes += len(reply)
        if self._outgoing_bytes >= OUTPUT_CHUNK:
            self._flush()

    def _flush(self) -> None:
        if self._outgoing:
            if not self._transport.is_closing():  # else nobody is there to read it
                self._write(b"".join(self._outgoing))
            self._outgoing.clear()
            self._outgoing_bytes = 0

    def _write(self, data: bytes) -> None:
        if self._secured and len(data) > OUTPUT_CHUNK:
            # TLS hands all of one write on to the socket, and does not count it as unread any more.
            for at in range(0, len(data), OUTPUT_CHUNK):
                self._transport.write(data[at : at + OUTPUT_CHUNK])
        else:
            self._transport.write(data)

    # --- answers that wait for durability ------------------------------------------------------------------------

    def _wait_for(self, write: WriteHandle | None, reply: bytes) -> None:
        self._waiting.append((write, reply))
        self._waiting_bytes += len(reply)
        if self._answering is None or self._answering.done():
            self._answering = asyncio.ensure_future(self._answer())

    async def _answer(self) -> None:
        while self._waiting:
            write, reply = self._waiting[0]
            refusal = None if write is None else await lost(write)
            if not self._room.is_set():
                await self._room.wait()
            self._waiting.popleft()
            self._waiting_bytes -= len(reply)
            self._send(reply if refusal is None else error_line(refusal.message))
            self._answered.set()

    async def _all_answered(self) -> None:
        if self._answering is not None:
            await asyncio.gather(self._answering, return_exceptions=True)
        self._flush()


async def lost(write: WriteHandle) -> CommandError | None:
    """Wait until a write is durable; the reason, if it never will be."""
    try:
        await write.await_durable()
    except Error as error:
        return as_reply(error)
    return None
