"""The server's socket: takes clients in, counts them, and sends them away at the end."""

from __future__ import annotations

import asyncio
import logging
import ssl
from itertools import count

from slate_engine.server.resp.connection import Connection
from slate_engine.server.resp.service import RespService
from slate_engine.server.resp.session import Session

log = logging.getLogger(__name__)

BACKLOG = 4096
CHECK_EVERY = 1.0


class Listener:
    """Started by :meth:`start`; ends by :meth:`close`."""

    def __init__(self, service: RespService) -> None:
        self._service = service
        self._ids = count(1)
        self._connections: dict[Connection, Session] = {}
        self._server: asyncio.Server | None = None
        self._warden: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Take clients in from now on; the port, which is the one asked for unless that was 0."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._service, self._enter, self._leave), host, port, ssl=tls, backlog=BACKLOG
        )
        self._warden = asyncio.ensure_future(self._watch_time())
        return int(self._server.sockets[0].getsockname()[1])

    def _enter(self, connection: Connection) -> Session | None:
        service = self._service
        if len(self._connections) >= service.limits.clients:
            service.numbers.refused("clients")
            return None
        now = service.keyspace.runtime.monotonic()
        session = Session(service, next(self._ids), connection.address, now, not service.gate.shut, last_active=now)
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
        """Send away who says nothing for too long."""
        runtime, limits = self._service.keyspace.runtime, self._service.limits
        while True:
            await runtime.sleep(CHECK_EVERY)
            now = runtime.monotonic()
            for connection, session in list(self._connections.items()):
                if not session.authenticated and now - session.opened > limits.stranger_seconds:
                    self._service.numbers.refused("silence")
                    connection.abort()
                elif limits.idle_seconds and now - session.last_active > limits.idle_seconds and not connection.busy:
                    connection.close()

    async def close(self, patience: float) -> None:
        """Take nobody in any more, answer what was asked, and send everybody away; at once after ``patience`` seconds."""
        if self._server is not None:
            self._server.close()
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
