"""The HTTP door: the application behind it, and how many may stand in it.

Health is asked for by whoever decides whether the process lives, so strangers must not be able to fill the door. Who has
not sent a whole request after some seconds is sent away; and when the door is full, he goes at once whom nothing is being
done for and who has been there longest.
"""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry, Counter

from slate_engine.runtime import Runtime
from slate_engine.server.config import HttpConfig
from slate_engine.server.entrance import Entrance
from slate_engine.server.listening import listening
from slate_engine.server.tls import Certificates

SILENCE_SECONDS = 10.0
"""For a whole request to come, the first as well as the next."""

LAST_WORDS_SECONDS = 2.0
"""For requests that are being answered when the service ends: it has drained by then, and who runs it does not wait long."""


class HttpServer:
    """Serves ``application`` from :meth:`open` until :meth:`close`."""

    def __init__(
        self,
        application: web.Application,
        config: HttpConfig,
        certificates: Certificates | None,
        registry: CollectorRegistry,
        runtime: Runtime,
        *,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._config = config
        self._refusals = Counter(
            "slate_http_refusals",
            "HTTP connections that were refused or cut off, by reason",
            ("reason",),
            registry=registry,
        )
        self._busy: set[web.RequestHandler] = set()
        application.middlewares.insert(0, self._noting_who_is_busy())
        self._runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=silence_seconds,
            shutdown_timeout=LAST_WORDS_SECONDS,
        )
        self._entrance = Entrance(
            self._receive,
            config.max_connections,
            lambda: self._served.connections,
            self._refused,
            runtime,
            certificates,
            make_room=self._make_room,
        )

    async def open(self) -> int:
        """Answer from now on; the port."""
        await self._runner.setup()
        with listening(self._config.host, self._config.port, "http.port"):
            return await self._entrance.open(self._config.host, self._config.port)

    async def close(self) -> None:
        await self._entrance.close()
        await self._runner.cleanup()

    @property
    def _served(self) -> web.Server:
        assert self._runner.server is not None, "nobody comes in before the door is open"
        return self._runner.server

    def _receive(self) -> web.RequestHandler:
        return self._served()

    def _refused(self, why: str) -> bytes:
        self._refusals.labels(why).inc()
        return b""

    def _make_room(self) -> bool:
        """Send the first away whom nothing is being done for; whether there was one."""
        for handler in self._served.connections:
            if handler not in self._busy and handler.transport is not None:
                self._refused("crowded")
                handler.transport.abort()
                return True
        return False

    def _noting_who_is_busy(self) -> Middleware:
        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._busy.add(request.protocol)
            try:
                return await handler(request)
            finally:
                self._busy.discard(request.protocol)

        return middleware
