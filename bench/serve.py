"""The Redis protocol: redis-benchmark against our writer, a stock redis-server (the ceiling), and a plain server around
the original, on uvloop as ours is; and how long a client of our writer waits for a SET that is stored on an S3 server."""

from __future__ import annotations

import asyncio
import csv
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from slate_engine.runtime import SystemRuntime
from slate_engine.store.open import open_store
from slate_engine.store.protocol import CREATE
from tests.servers.versitygw import VersityGW

CLIENTS = 50
KEYS = 100_000
"""All of them are there before anything is measured: a GET of a key that is not is another thing, and a cheaper one."""
REQUESTS = {1: 60_000, 16: 200_000}
WHEEL_SETS = {1: 2_000, 16: 4_000}
"""The plain server waits for a flush with each SET of a connection: more would take minutes."""

S3_SETS, S3_PUTS = 2_000, 50
FLUSH_MS = 100
"""The interval of the log, which is SlateDB's default."""

BAR = 2.0
SLATE = str(Path(sys.executable).parent / "slate")
WHEEL_SERVER = Path(__file__).parent / "wheel_server.py"


def run() -> Iterator[dict[str, Any]]:
    for tool in ("redis-benchmark", "redis-server"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is needed: apt-get install redis-server redis-tools")
    figures: dict[str, dict[tuple[str, int], float]] = {}
    with tempfile.TemporaryDirectory(prefix="slate-bench-") as folder:
        servers = {
            "ours": our_server,
            "wheel": lambda port: [sys.executable, str(WHEEL_SERVER), str(port)],
            "redis": lambda port: ["redis-server", "--port", str(port), "--save", "", "--dir", folder],
        }
        for name, command in servers.items():
            port = free_port()
            with running(command(port), port):
                fill(port)
                sets = WHEEL_SETS if name == "wheel" else REQUESTS
                figures[name] = {
                    (op, pipeline): rate
                    for pipeline in sets
                    for op, rate in rates(port, pipeline, sets[pipeline]).items()
                }
    for op, pipeline in figures["ours"]:
        ours, wheel, redis = (figures[name][op, pipeline] for name in servers)
        yield {
            "what": f"{op}, {CLIENTS} clients, pipeline {pipeline}, memory store",
            "ours_per_s": round(ours),
            "peer_per_s": round(wheel),
            "ratio": round(ours / wheel, 1),
            "bar": BAR,
            "ok": ours / wheel >= BAR,
            "redis_server_per_s": round(redis),
        }
    yield durable_set_on_s3()


def durable_set_on_s3() -> dict[str, Any]:
    """A SET is answered when its file of the log is stored, so nobody should wait for longer than until the log is written,
    and for the writing of it."""
    with tempfile.TemporaryDirectory(prefix="slate-bench-") as folder, VersityGW(Path(folder) / "s3") as server:
        server.make_bucket("bench")
        put_ms = 1000 * asyncio.run(put_seconds(server.options()))
        port = free_port()
        with running(our_server(port, "s3://bench", server.options()), port):
            p50 = float(measured(port, 1, S3_SETS, "set")[0]["p50_latency_ms"])
    return {
        "what": f"durable SET, {CLIENTS} clients, pipeline 1, S3: median latency; bar: flush interval and one PUT",
        "ours_ms": round(p50, 1),
        "put_ms": round(put_ms, 1),
        "bar_ms": round(FLUSH_MS + put_ms, 1),
        "ok": p50 <= FLUSH_MS + put_ms,
    }


async def put_seconds(options: Mapping[str, str]) -> float:
    """The median of creating an object of the size of such a file of the log."""
    store = open_store("s3://bench", options, runtime=SystemRuntime())
    times = []
    for number in range(S3_PUTS):
        start = time.perf_counter()
        await store.put(f"put/{number}", b"v" * 100 * CLIENTS, CREATE)
        times.append(time.perf_counter() - start)
    await store.close()
    return statistics.median(times)


def our_server(port: int, store: str = "memory:///", options: Mapping[str, str] | None = None) -> list[str]:
    assigned = {"resp.port": port, "http.port": free_port(), "log.level": "warning"}
    flags = [word for name, value in assigned.items() for word in ("--set", f"{name}={value}")]
    reached = [word for name, value in (options or {}).items() for word in ("--option", f"{name}={value}")]
    return [SLATE, "--store", store, *reached, "--path", "db", "serve", "writer", *flags]


def fill(port: int) -> None:
    """Every key that redis-benchmark may ask for, as it names them."""
    with redis.Redis(port=port, protocol=2, lib_name=None, lib_version=None) as client:
        for first in range(0, KEYS, 1000):
            pairs = [word for key in range(first, first + 1000) for word in (f"key:{key:012}", b"v" * 100)]
            client.execute_command("MSET", *pairs)


def rates(port: int, pipeline: int, sets: int) -> dict[str, float]:
    rows = [*measured(port, pipeline, sets, "set"), *measured(port, pipeline, REQUESTS[pipeline], "get")]
    return {row["test"]: float(row["rps"]) for row in rows}


def measured(port: int, pipeline: int, requests: int, operations: str) -> list[dict[str, str]]:
    command = [
        "redis-benchmark",
        "-p",
        str(port),
        "-c",
        str(CLIENTS),
        "-P",
        str(pipeline),
        "-d",
        "100",
        "-r",
        str(KEYS),
    ]
    command += ["-n", str(requests), "-t", operations, "--csv"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    return list(csv.DictReader(done.stdout.splitlines()))


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while not answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{command[0]} did not start")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.communicate(timeout=30)


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
