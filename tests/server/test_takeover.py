"""A writer is killed under its clients, and another takes its place: nothing that was acknowledged is missing."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.server.conftest import Start
from tests.server.processes import Service

CLIENTS = 64


async def write_until_told(service: Service, number: int, acknowledged: dict[str, int], stop: asyncio.Event) -> None:
    """Write numbers that grow under one key; what was acknowledged last is remembered."""
    client = Redis(port=service.resp_port, socket_timeout=10)
    key = f"client:{number}"
    try:
        for value in range(1_000_000):
            if stop.is_set():
                break
            await client.set(key, value)
            acknowledged[key] = value
    except (RedisError, OSError):
        pass
    finally:
        await client.aclose()


async def kill_and_replace(start: Start, **options: object) -> tuple[dict[str, int], Service, float]:
    first = await start("writer", **options).ready()
    acknowledged: dict[str, int] = {}
    stop = asyncio.Event()
    writing = [asyncio.ensure_future(write_until_told(first, number, acknowledged, stop)) for number in range(CLIENTS)]
    async with asyncio.timeout(60):
        while len(acknowledged) < CLIENTS or min(acknowledged.values()) < 3:
            await asyncio.wait(writing, timeout=0.05)
    assert first.process is not None
    os.kill(first.process.pid, signal.SIGKILL)
    began = time.monotonic()
    second = await start("writer", **options).ready()
    recovered = time.monotonic() - began
    stop.set()
    await asyncio.gather(*writing)
    return acknowledged, second, recovered


async def check(acknowledged: dict[str, int], service: Service) -> None:
    client = Redis(port=service.resp_port)
    for key, value in acknowledged.items():
        assert int(await client.get(key) or -1) >= value, f"an acknowledged write of {key} is lost"
    assert await client.set("still", "writing") is True
    await client.aclose()


@pytest.mark.timeout(180)
async def test_a_writer_is_killed_under_64_clients(start: Start) -> None:
    acknowledged, second, recovered = await kill_and_replace(start)
    await check(acknowledged, second)
    print(f"{len(acknowledged)} clients, ready again after {recovered:.1f} s")


@pytest.mark.servers
@pytest.mark.timeout(180)
async def test_the_same_on_s3(start: Start, bucket: dict[str, str]) -> None:
    acknowledged, second, recovered = await kill_and_replace(start, store="s3://bucket", environment=bucket)
    await check(acknowledged, second)
    print(f"{len(acknowledged)} clients, ready again after {recovered:.1f} s")
