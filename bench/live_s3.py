"""A live database on a real S3 server, where latency rules and every request is paid for: ours and the original's.

Times are taken at the server itself; requests are counted by a proxy in front of it, which sees what either engine sends.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from bench.live import OURS, PEER, key
from tests.servers.proxy import LossyProxy
from tests.servers.versitygw import VersityGW

PUTS = 60
WARM_UP = 10
ROWS = 5000
BUCKET = "bench"
ALONE = {"compactor_options": None, "garbage_collector_options": None}

Measured = Callable[[str, dict[str, str], str], Awaitable[float]]


def run() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="slate-bench-") as folder, VersityGW(Path(folder) / "s3") as server:
        server.make_bucket(BUCKET)
        for interval in ("100ms", "1ms"):
            ours, peer = (asyncio.run(put_seconds(lib, server.options(), interval)) for lib in (OURS, PEER))
            yield latency(f"sequential durable put on S3, flush_interval {interval}", ours, peer)
        ours, peer = (asyncio.run(counted(lib, server, requests_per_put)) for lib in (OURS, PEER))
        yield requests("requests for a sequential durable put on S3", ours, peer)
        ours, peer = (asyncio.run(counted(lib, server, gets_of_a_cold_read)) for lib in (OURS, PEER))
        yield requests("GETs of SSTs for a cold get on S3", ours, peer)


def latency(what: str, ours: float, peer: float) -> dict[str, Any]:
    ratio = peer / ours
    return {
        "what": what,
        "ours_ms": round(ours * 1000, 2),
        "peer_ms": round(peer * 1000, 2),
        "ratio": round(ratio, 2),
        "bar": round(1 / 1.1, 2),
        "ok": ratio >= 1 / 1.1,
    }


def requests(what: str, ours: float, peer: float) -> dict[str, Any]:
    ratio = peer / ours
    return {
        "what": what,
        "ours": round(ours, 2),
        "peer": round(peer, 2),
        "ratio": round(ratio, 2),
        "bar": 1,
        "ok": ratio >= 1,
    }


async def counted(module: str, server: VersityGW, work: Callable[[str, LossyProxy, dict[str, str]], Any]) -> float:
    """``work`` through a proxy that counts."""
    async with LossyProxy(server.endpoint) as proxy:
        result: float = await work(module, proxy, {**server.options(), "endpoint": proxy.endpoint})
        return result


async def open_database(module: str, options: dict[str, str], path: str, **settings: object) -> tuple[Any, Any]:
    lib = importlib.import_module(module)
    builder = lib.ObjectStoreBuilder(lib.ObjectStoreType.S3)
    for name, value in {**options, "bucket": BUCKET}.items():
        builder.with_config(f"aws_{name}", value)
    wanted = lib.Settings.default()
    for name, change in {**ALONE, **settings}.items():
        wanted.set(name, json.dumps(change))
    database = lib.DbBuilder(f"{module}/{path}", builder.build())
    database.with_settings(wanted)
    return lib, await database.build()


async def put(db: Any, number: int) -> None:
    await (await db.put(key(number), b"v" * 100)).await_durable()


async def put_seconds(module: str, options: dict[str, str], interval: str) -> float:
    """The median, because a server now and then does something else."""
    _, db = await open_database(module, options, interval, flush_interval=interval)
    times = []
    for number in range(WARM_UP + PUTS):
        start = time.perf_counter()
        await put(db, number)
        times.append(time.perf_counter() - start)
    await db.shutdown()
    return statistics.median(times[WARM_UP:])


async def requests_per_put(module: str, proxy: LossyProxy, options: dict[str, str]) -> float:
    """With all that goes on beside it: the manifest is polled."""
    _, db = await open_database(module, options, "requests")
    await put(db, 0)
    proxy.seen.clear()
    for number in range(PUTS):
        await put(db, number)
    sent = len(proxy.seen)
    await db.shutdown()
    return sent / PUTS


async def gets_of_a_cold_read(module: str, proxy: LossyProxy, options: dict[str, str]) -> float:
    """A database is opened, and one key is read that is in an SST of level 0 which has a filter."""
    lib, db = await open_database(module, options, "cold")
    batch = lib.WriteBatch()
    for number in range(ROWS):
        batch.put(key(number), b"v" * 100)
    await db.write(batch)
    await db.flush_with_options(lib.FlushOptions(flush_type=lib.FlushType.MEM_TABLE))
    await db.shutdown()
    _, db = await open_database(module, options, "cold")
    before = Counter(of_ssts(proxy.seen))
    assert await db.get(key(ROWS // 2)) is not None
    read = Counter(of_ssts(proxy.seen)) - before
    await db.shutdown()
    return sum(read.values())


def of_ssts(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("GET ") and "/compacted/" in line]
