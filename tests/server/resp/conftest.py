"""A server in this process, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from slate_engine.api.db import Db
from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.object_store import ObjectStore
from slate_engine.runtime import SystemRuntime
from slate_engine.server.gate import Gate
from slate_engine.server.keyspace import Keyspace
from slate_engine.server.resp.execution import execute
from slate_engine.server.resp.listener import Listener
from slate_engine.server.resp.replies import Reply
from slate_engine.server.resp.service import RespLimits, RespService
from slate_engine.server.resp.session import Session
from slate_engine.store.memory import MemoryStore


@dataclass
class Counted:
    """Remembers what the metrics would count."""

    commands: list[tuple[str, bool]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    clients: int = 0

    def command(self, name: str, seconds: float, failed: bool) -> None:
        self.commands.append((name, failed))

    def connected(self, now: int) -> None:
        self.clients = now

    def refused(self, why: str) -> None:
        self.refusals.append(why)


@dataclass
class Server:
    """A running server."""

    service: RespService
    listener: Listener
    port: int
    numbers: Counted
    db: Db

    def client(self, **options: object) -> Redis:
        # Without retries: a refusal is what some of the tests wait for.
        return Redis(port=self.port, retry=Retry(NoBackoff(), 0), **options)  # type: ignore[arg-type]

    def session(self) -> Session:
        """A client without a socket."""
        return Session(self.service, 0, "nowhere", 0.0, authenticated=True)

    async def at_once(self, words: list[str]) -> Reply:
        """The reply to a command, without a socket: whoever else has a turn meanwhile got it from the command."""
        return (await execute(self.session(), [word.encode() for word in words])).reply


async def serve(
    db: Db, *, limits: RespLimits | None = None, password_file: Path | None = None, runtime: SystemRuntime | None = None
) -> Server:
    runtime = runtime or SystemRuntime()
    numbers = Counted()
    service = RespService(
        Keyspace(db, runtime),
        Gate(password_file, runtime),
        numbers,
        limits=limits or RespLimits(),
        started=runtime.monotonic(),
    )
    listener = Listener(service)
    return Server(service, listener, await listener.start("127.0.0.1", 0), numbers, db)


@pytest.fixture
async def db() -> AsyncIterator[Db]:
    opened = await DbBuilder("db", ObjectStore.of(MemoryStore(SystemRuntime()))).build()
    yield opened
    if opened.status().close_reason is None:
        await opened.shutdown()


@pytest.fixture
async def server(db: Db) -> AsyncIterator[Server]:
    running = await serve(db)
    yield running
    await running.listener.close(1.0)


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
async def client(server: Server, request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    connected = server.client(protocol=request.param)
    yield connected
    await connected.aclose()
