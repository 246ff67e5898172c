"""The Redis protocol: redis-benchmark against our writer, a stock redis-server (the ceiling), and a plain asyncio server
around the original."""

from __future__ import annotations

import csv
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CLIENTS = 50
REQUESTS = {1: 20_000, 16: 100_000}
WHEEL_REQUESTS = {1: 2_000, 16: 4_000}
"""The plain server waits for a flush with each SET of a connection: more would take minutes."""

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
                requests = WHEEL_REQUESTS if name == "wheel" else REQUESTS
                figures[name] = {
                    (op, pipeline): rate
                    for pipeline in requests
                    for op, rate in measured(port, pipeline, requests).items()
                }
    for op, pipeline in figures["ours"]:
        ours, wheel, redis = (figures[name][op, pipeline] for name in ("ours", "wheel", "redis"))
        yield {
            "what": f"{op}, {CLIENTS} clients, pipeline {pipeline}, memory store",
            "ours_per_s": round(ours),
            "peer_per_s": round(wheel),
            "ratio": round(ours / wheel, 1),
            "bar": BAR,
            "ok": ours / wheel >= BAR,
            "redis_server_per_s": round(redis),
        }


def our_server(port: int) -> list[str]:
    assigned = {"resp.port": port, "http.port": free_port(), "log.level": "warning"}
    flags = [word for name, value in assigned.items() for word in ("--set", f"{name}={value}")]
    return [SLATE, "--store", "memory:///", "--path", "db", "serve", "writer", *flags]


def measured(port: int, pipeline: int, requests: dict[int, int]) -> dict[str, float]:
    command = ["redis-benchmark", "-p", str(port), "-c", str(CLIENTS), "-P", str(pipeline), "-d", "100", "-r", "100000"]
    command += ["-n", str(requests[pipeline]), "-t", "set,get", "--csv"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    return {row["test"]: float(row["rps"]) for row in csv.DictReader(done.stdout.splitlines())}


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
