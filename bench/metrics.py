"""/metrics: how long one scrape takes, over the network, with a thousand series and with those that a writer has.

A scrape must not hold up the clients: it is made by the event loop that serves them.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge

from bench.serve import SLATE, free_port, running
from slate_engine.runtime import SystemRuntime
from slate_engine.server.config import HttpConfig
from slate_engine.server.gate import Gate
from slate_engine.server.health import Health
from slate_engine.server.http.application import application

SERIES = 1000
SCRAPES = 100
BAR_MS = 20.0


def run() -> Iterator[dict[str, Any]]:
    port, http = free_port(), free_port()
    assigned = {"resp.port": port, "http.port": http, "log.level": "warning"}
    flags = [word for name, value in assigned.items() for word in ("--set", f"{name}={value}")]
    with running([SLATE, "--store", "memory:///", "--path", "db", "serve", "writer", *flags], port):
        subprocess.run(["redis-cli", "-p", str(port), "set", "a", "1"], check=True, capture_output=True, timeout=30)
        yield verdict("a writer's own", *scraped(http))
    yield verdict(f"{SERIES} gauges", *asyncio.run(gauges()))


def verdict(what: str, series: int, milliseconds: float) -> dict[str, Any]:
    return {
        "what": f"/metrics, {what}, {series} series, median of {SCRAPES}",
        "ours_ms": round(milliseconds, 2),
        "bar_ms": BAR_MS,
        "ok": milliseconds <= BAR_MS,
    }


def scraped(port: int) -> tuple[int, float]:
    """How many series there are, and the median of the times, in milliseconds."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    times, body = [], b""
    for _ in range(SCRAPES):
        began = time.perf_counter()
        connection.request("GET", "/metrics")
        body = connection.getresponse().read()
        times.append(1000 * (time.perf_counter() - began))
    connection.close()
    return sum(not line.startswith(b"#") for line in body.splitlines()), statistics.median(times)


async def gauges() -> tuple[int, float]:
    registry, runtime = CollectorRegistry(), SystemRuntime()
    gauge = Gauge("slate_bench", "For the measurement", ("number",), registry=registry)
    for number in range(SERIES):
        gauge.labels(str(number)).set(number)
    made = application(HttpConfig(), Gate(None, runtime), Health(), registry, dict, runtime)
    runner = web.AppRunner(made, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        return await asyncio.to_thread(scraped, int(runner.addresses[0][1]))
    finally:
        await runner.cleanup()
