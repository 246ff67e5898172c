"""The Redis protocol of a role: the service behind it, and the listener before it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from slate_engine.api.db import Db
from slate_engine.api.reader import DbReader
from slate_engine.server.descriptors import room_for
from slate_engine.server.gate import Gate
from slate_engine.server.keyspace import Keyspace
from slate_engine.server.listening import listening
from slate_engine.server.metrics import RespMetrics
from slate_engine.server.resp.listener import Listener
from slate_engine.server.resp.replies import Reply
from slate_engine.server.resp.requests import Limits
from slate_engine.server.resp.service import RespLimits, RespService
from slate_engine.server.roles.role import Surroundings
from slate_engine.server.tls import Certificates

log = logging.getLogger(__name__)


class RespDoor:
    """Opened when the database is."""

    def __init__(
        self,
        surroundings: Surroundings,
        source: Db | DbReader,
        *,
        status: Callable[[], Mapping[str, Reply]],
    ) -> None:
        config, runtime = surroundings.config.resp, surroundings.runtime
        self._config = config
        certificates = Certificates.of(config.tls, runtime)
        self._secured = certificates is not None
        self.service = RespService(
            keyspace=Keyspace(source, runtime),
            gate=Gate(config.password_file, runtime),
            numbers=RespMetrics(surroundings.registry),
            limits=RespLimits(
                clients=room_for(config.max_clients, "resp.max_clients", surroundings.config.http.max_connections),
                request=Limits(bytes=config.max_request_bytes),
                pipeline=config.max_pipeline,
                output_bytes=config.max_output_bytes,
                idle_seconds=config.idle_seconds,
                allow_flush=config.allow_flush,
            ),
            started=runtime.monotonic(),
            status=status,
        )
        self._listener = Listener(self.service, certificates)

    async def open(self) -> None:
        with listening(self._config.host, self._config.port, "resp.port"):
            port = await self._listener.start(self._config.host, self._config.port)
        secured = " with TLS" if self._secured else ""
        log.info("the Redis protocol is served at %s:%d%s", self._config.host, port, secured)

    async def close(self, patience: float) -> None:
        await self._listener.close(patience)
