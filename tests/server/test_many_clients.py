"""Thousands of clients that have nothing to say cost little, and the others are served as ever."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest
from redis.asyncio import Redis

from slate_engine.server import descriptors
from tests.server.conftest import Start
from tests.server.processes import Service

IDLE = 2000
PER_CLIENT = 12 << 10
"""Bytes of the server's memory that an idle client may take."""


@pytest.fixture
def descriptors_for_all() -> Iterator[None]:
    """This process has the other end of every connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE + 512), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def memory_of(service: Service) -> int:
    assert service.process is not None
    return int(psutil.Process(service.process.pid).memory_info().rss)


@pytest.mark.usefixtures("descriptors_for_all")
async def test_two_thousand_that_are_idle(start: Start) -> None:
    writer = await start("writer", store="memory:///", open_files=256).ready()
    client = Redis(port=writer.resp_port)
    assert await client.ping() is True
    await open_idle(writer, 50)  # what the first ones cost once is not theirs alone
    before = memory_of(writer)
    with ExitStack() as opened:
        for connection in await open_idle(writer, IDLE):
            opened.callback(connection.close)
        began = time.perf_counter()
        assert await client.ping() is True
        assert await client.set("a", "1") is True
        took = time.perf_counter() - began
        info = await client.info("clients")
        each = (memory_of(writer) - before) / IDLE
        print(f"{IDLE} idle clients: {each / 1024:.1f} KiB each, PING and SET beside them in {took * 1000:.0f} ms")
        assert info["connected_clients"] >= IDLE + 1
        assert each < PER_CLIENT
        assert took < 1.0
    await client.aclose()


async def open_idle(service: Service, number: int) -> list[asyncio.StreamWriter]:
    """Each has been answered once, as clients say who they are before they wait."""
    opened = []
    for _ in range(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", service.resp_port, limit=1024)
        writer.write(b"PING\r\n")
        assert await reader.readline() == b"+PONG\r\n"
        opened.append(writer)
    return opened


def test_a_limit_that_cannot_be_raised_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = [(1024, 2048)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, both: limits.append(both))
    assert descriptors.room_for(500, "resp.max_clients") == 500
    assert limits == [(1024, 2048)]
    assert descriptors.room_for(1000, "resp.max_clients") == 1000
    assert limits[-1] == (1000 + descriptors.RESERVE, 2048)
    assert descriptors.room_for(10_000, "resp.max_clients") == 2048 - descriptors.RESERVE
    assert "lower resp.max_clients" in caplog.text
