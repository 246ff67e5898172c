"""The server's socket: takes clients in, counts them, and sends them away at the end."""

from __future__ import annotations

import asyncio
import logging
from itertools import count

from slate_engine.server.entrance import Entrance
from slate_engine.server.resp.connection import Connection
from slate_engine.server.resp.replies import error_line
from slate_engine.server.resp.service import RespService
from slate_engine.server.resp.session import Session
from slate_engine.server.tls import Certificates

log = logging.getLogger(__name__)

CHECK_EVERY = 1.0


class Listener:
    """Started by :meth:`start`; ends by :meth:`close`."""

    def __init__(self, service: RespService, certificates: Certificates | None = None) -> None:
        self._service = service
        self._ids = count(1)
        self._connections: dict[Connection, Session] = {}
        self._entrance = Entrance(
            lambda: Connection(service, self._enter, self._leave),
            service.limits.clients,
            self._connections.keys,
            self._refused,
            service.keyspace.runtime,
            certificates,
            handshake_seconds=service.limits.stranger_seconds,
        )
        self._warden: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Take clients in from now on; the port, which is the one asked for unless that was 0."""
        taken = await self._entrance.open(host, port)
        self._warden = asyncio.ensure_future(self._watch_time())
        return taken

    def _refused(self, why: str) -> bytes:
        self._service.numbers.refused(why)
        return error_line("ERR max number of clients reached")

    def _enter(self, connection: Connection) -> Session:
        service = self._service
        now = service.keyspace.runtime.monotonic()
        session = Session(service, next(self._ids), connection.address, now, not service.gate.shut)
        session.last_active = session.last_heard = session.last_read = session.stranger_since = now
        self._connections[connection] = session
        service.sessions[session.id] = session
        service.connections_taken += 1
        service.numbers.connected(len(self._connections))
        return session

    def _leave(self, connection: Connection) -> None:
        session = self._connections.pop(connection, None)
        if session is not None:
            self._service.sessions.pop(session.id, None)
            self._service.numbers.connected(len(self._connections))

    async def _watch_time(self) -> None:
        """Send away who says nothing or reads nothing for too long, and end what is watched for too long."""
        runtime, limits = self._service.keyspace.runtime, self._service.limits
        while True:
            await runtime.sleep(CHECK_EVERY)
            now = runtime.monotonic()
            for connection, session in list(self._connections.items()):
                if connection.heard:
                    connection.heard, session.last_heard = False, now
                if connection.reads():
                    session.last_read = now
                if not session.authenticated and now - session.stranger_since > limits.stranger_seconds:
                    self._service.numbers.refused("silence")
                    connection.abort()
                elif now - session.last_read > limits.unread_seconds:
                    self._service.numbers.refused("output")
                    log.warning("%s is cut off: it has read nothing for %g s", session.address, limits.unread_seconds)
                    connection.abort()
                elif limits.idle_seconds and now - session.last_heard > limits.idle_seconds and not connection.busy:
                    connection.close()
                elif session.watch is not None and now - session.watch.began > limits.watch_seconds:
                    await session.watch.end()

    async def close(self, patience: float) -> None:
        """Take nobody in any more, answer what was asked, and send everybody away; at once after ``patience`` seconds."""
        await self._entrance.close()
        if self._warden is not None:
            self._warden.cancel()
        for connection in list(self._connections):
            connection.finish()
        runtime = self._service.keyspace.runtime
        deadline = runtime.monotonic() + patience
        while self._connections and runtime.monotonic() < deadline:
            await runtime.sleep(0.02)
        for connection in list(self._connections):
            connection.abort()
