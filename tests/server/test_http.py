"""HTTP: what every service answers, and what it makes of nonsense."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge

from slate_engine.errors import UnavailableError
from slate_engine.runtime import SystemRuntime
from slate_engine.server.config import HttpConfig
from slate_engine.server.gate import Gate
from slate_engine.server.health import Health
from slate_engine.server.http.application import application
from slate_engine.store.scrubbing import scrubbed


async def served(
    health: Health, registry: CollectorRegistry | None = None, token_file: Path | None = None
) -> tuple[web.AppRunner, int]:
    runtime = SystemRuntime()
    made = application(
        HttpConfig(),
        Gate(token_file, runtime),
        health,
        registry or CollectorRegistry(),
        lambda: {"role": "test"},
        runtime,
    )

    async def broken(request: web.Request) -> web.Response:
        raise RuntimeError("a secret=hush is in here")

    async def unavailable(request: web.Request) -> web.Response:
        raise UnavailableError("no answer from https://user:hush@store/")

    made.router.add_get("/broken", broken)
    made.router.add_get("/unavailable", unavailable)
    runner = web.AppRunner(made, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, int(runner.addresses[0][1])


async def ask(port: int, request: bytes, *, hang_up: bool = False) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    if hang_up:
        writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


def get(path: str, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: here", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode()


async def test_health() -> None:
    health = Health()
    runner, port = await served(health)
    try:
        assert b"not ready: it is starting" in await ask(port, get("/readyz"))
        health.starting = None
        assert b"200 OK" in await ask(port, get("/readyz"))
        health.checks.append(lambda: "the sky has fallen")
        assert b"not ready: the sky has fallen" in await ask(port, get("/readyz"))
        assert b"200 OK" in await ask(port, get("/livez"))
        health.draining = True
        assert b"not ready: it is shutting down" in await ask(port, get("/readyz"))
    finally:
        await runner.cleanup()


async def test_what_goes_wrong_is_told_without_secrets() -> None:
    runner, port = await served(Health())
    try:
        broken = await ask(port, get("/broken", "X-Request-Id: mine"))
        assert b"500 Internal" in broken
        assert b"X-Request-Id: mine" in broken
        assert b"hush" not in broken
        unavailable = await ask(port, get("/unavailable"))
        assert b"503 " in unavailable
        assert b"application/problem+json" in unavailable
        assert b"hush" not in unavailable
        assert b"405 " in await ask(port, get("/status").replace(b"GET", b"POST"))
    finally:
        await runner.cleanup()


async def test_a_token_of_any_bytes_is_refused_or_opens(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_bytes(b"right\n\xff\xfe\n")
    runner, port = await served(Health(), token_file=token)

    async def status(shown: bytes) -> bytes:
        return (await ask(port, get("/status", "Authorization: Bearer x").replace(b"x\r", shown + b"\r")))[9:12]

    try:
        assert await status(b"right") == b"200"
        assert await status(b"\xff\xfe") == b"200"
        assert await status(b"\xff") == b"401"
        assert await status(b"\xc3\xa4") == b"401"
    finally:
        await runner.cleanup()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=200), max_size=4))
def test_any_bytes_leave_the_service_alive(pieces: list[bytes]) -> None:
    async def scenario() -> None:
        runner, port = await served(Health(starting=None))
        try:
            await ask(port, b"GET /readyz HTTP/1.1\r\n" + b"".join(pieces), hang_up=True)
            await ask(port, b"".join(pieces), hang_up=True)
            assert b"200 OK" in await ask(port, get("/readyz"))
        finally:
            await runner.cleanup()

    asyncio.run(scenario())


async def test_a_thousand_series_are_scraped() -> None:
    registry = CollectorRegistry()
    gauge = Gauge("slate_test", "For the test", ("number",), registry=registry)
    for number in range(1000):
        gauge.labels(str(number)).set(number)
    runner, port = await served(Health(), registry)
    try:
        assert (await ask(port, get("/metrics"))).count(b"\nslate_test{") == 1000
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("password=hush", "password=***"),
        ("Authorization: Bearer hush", "Authorization: ***"),
        ('{"aws_secret_access_key": "hush"}', '{"aws_secret_access_key": "***"}'),
        ("https://user:hush@host/path", "https://***@host/path"),
        ("https://host/?sig=hush&x=1", "https://host/?sig=***&x=1"),
        ("the token was refused", "the token was refused"),
    ],
)
def test_secrets_do_not_get_into_logs(text: str, clean: str) -> None:
    assert scrubbed(text) == clean
