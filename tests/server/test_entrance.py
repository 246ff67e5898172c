"""Strangers at the door: they are counted, have little time, and keep nobody out."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from slate_engine.api.db import Db
from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.object_store import ObjectStore
from slate_engine.runtime import SystemRuntime
from slate_engine.server.config import HttpConfig, TlsConfig
from slate_engine.server.gate import Gate
from slate_engine.server.health import Health
from slate_engine.server.http.application import application
from slate_engine.server.http.server import HttpServer
from slate_engine.server.keyspace import Keyspace
from slate_engine.server.resp.listener import Listener
from slate_engine.server.resp.service import RespLimits, RespService
from slate_engine.server.tls import Certificates
from slate_engine.store.memory import MemoryStore
from tests.server.resp.conftest import Counted
from tests.server.test_http import ask, get
from tests.server.test_tls import issue

PLACES = 8


@asynccontextmanager
async def http(silence_seconds: float = 10.0, tls: TlsConfig | None = None) -> AsyncIterator[int]:
    runtime, registry = SystemRuntime(), CollectorRegistry()
    config = HttpConfig(port=0, max_connections=PLACES)
    made = application(config, Gate(None, runtime), Health(starting=None), registry, dict, runtime)

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    made.router.add_post("/echo", echo)
    certificates = Certificates.of(tls or TlsConfig(), runtime)
    server = HttpServer(made, config, certificates, registry, runtime, silence_seconds=silence_seconds)
    try:
        yield await server.open()
    finally:
        await server.close()


@asynccontextmanager
async def strangers(port: int, count: int, said: bytes) -> AsyncIterator[list[asyncio.StreamReader]]:
    pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    for _, writer in pairs:
        writer.write(said)
    yield [reader for reader, _ in pairs]
    for _, writer in pairs:
        writer.close()


async def test_half_requests_keep_nobody_out() -> None:
    async with http() as port, strangers(port, 5 * PLACES, b"GET /livez HTTP/1.1\r\n") as crowd:
        assert b"200 OK" in await ask(port, get("/livez"))
        left = await asyncio.wait_for(asyncio.gather(*(each.read() for each in crowd[:PLACES])), 5)
        assert left == [b""] * PLACES, "those who came first went first"


async def test_handshakes_that_are_not_made_keep_nobody_out(tmp_path: Path) -> None:
    certificate, key = issue(tmp_path, "server")
    async with http(tls=TlsConfig(certificate=certificate, key=key)) as port, strangers(port, 5 * PLACES, b""):
        context = ssl.create_default_context(cafile=str(certificate))
        reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port, ssl=context), 5)
        writer.write(get("/livez"))
        assert b"200 OK" in await asyncio.wait_for(reader.read(), 5)
        writer.close()


async def test_who_sends_no_whole_request_is_sent_away() -> None:
    half = b"GET /livez HTTP/1.1\r\nHost: here\r\n"
    async with http(silence_seconds=0.2) as port, strangers(port, 1, half) as [stranger]:
        assert await asyncio.wait_for(stranger.read(), 5) == b""


async def test_half_a_request_does_not_hold_up_the_end() -> None:
    async with asyncio.timeout(20), http() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /echo HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\nhalf")
        await asyncio.sleep(0.2)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


async def served(db: Db, folder: Path, limits: RespLimits) -> tuple[Listener, int, Counted, ssl.SSLContext]:
    certificate, key = issue(folder, "server")
    runtime, numbers = SystemRuntime(), Counted()
    service = RespService(Keyspace(db, runtime), Gate(None, runtime), numbers, limits=limits)
    listener = Listener(service, Certificates.of(TlsConfig(certificate=certificate, key=key), runtime))
    port = await listener.start("127.0.0.1", 0)
    return listener, port, numbers, ssl.create_default_context(cafile=str(certificate))


async def test_clients_are_counted_before_they_shake_hands(tmp_path: Path) -> None:
    db = await DbBuilder("db", ObjectStore.of(MemoryStore(SystemRuntime()))).build()
    limits = RespLimits(clients=2, stranger_seconds=0.5)
    listener, port, numbers, context = await served(db, tmp_path, limits)
    try:
        async with strangers(port, 2, b"") as silent:
            await asyncio.sleep(0.1)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection("127.0.0.1", port, ssl=context)
            assert numbers.refusals == ["clients"]
            assert await asyncio.wait_for(asyncio.gather(*(each.read() for each in silent)), 5) == [b"", b""]
        assert numbers.refusals == ["clients", "handshake", "handshake"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"PING\r\n")
        assert await reader.readline() == b"+PONG\r\n"
        writer.close()
    finally:
        await listener.close(1.0)
        await db.shutdown()
