"""A live database: the same program run on our engine and on the original, which share one API."""

from __future__ import annotations

import asyncio
import importlib
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

KEY, VALUE = 16, 100
BATCHES, BATCH = 200, 1000
PUTS, AT_ONCE = 20, 64
GETS, HOT = 20_000, 1000
FRESH, TEN = 200, 10

OURS, PEER = "slate_engine", "slatedb.uniffi"
SETTINGS = {"compactor_options": None, "garbage_collector_options": None, "l0_max_ssts": 1000}
Work = Callable[[Any, Any], Awaitable[float]]


def run() -> Iterator[dict[str, Any]]:
    for where in ("memory", "file"):
        yield compare(f"write of {BATCH}-row batches, then flush, {where} store", where, write_batches, bar=5)
        yield compare(f"{AT_ONCE} concurrent durable puts, {where} store", where, concurrent_puts, bar=3)
    yield compare(
        f"put, then a scan of {TEN} rows, {BATCHES // 2 * BATCH} rows in the memtable", "memory", fresh_scans, bar=0.1
    )
    yield compare("hot get, sequential", "memory", hot_gets, bar=2)
    yield compare("scan with next_batch(4096), L0s and memtable", "memory", scan_batches, bar=3)
    ours, peer = best(OURS, "memory", scan_arrow), best(PEER, "memory", scan_batches)
    yield result("scan_arrow against the peer's next_batch(4096), L0s and memtable", ours, peer, bar=20)


def compare(what: str, where: str, work: Work, bar: float) -> dict[str, Any]:
    return result(what, best(OURS, where, work), best(PEER, where, work), bar)


def best(module: str, where: str, work: Work) -> float:
    """Of two runs: the first one loads code that the second one has."""
    return max(asyncio.run(measured(module, where, work)) for _ in range(2))


def result(what: str, ours: float, peer: float, bar: float) -> dict[str, Any]:
    ratio = ours / peer
    return {
        "what": what,
        "ours_per_s": round(ours),
        "peer_per_s": round(peer),
        "ratio": round(ratio, 1),
        "bar": bar,
        "ok": ratio >= bar,
    }


async def measured(module: str, where: str, work: Work) -> float:
    """What ``work`` does in a second on a fresh database."""
    slatedb = importlib.import_module(module)
    with tempfile.TemporaryDirectory(prefix="slate-bench-") as folder:
        db = await open_database(slatedb, where, folder)
        try:
            return await work(slatedb, db)
        finally:
            await db.shutdown()


async def open_database(slatedb: Any, where: str, folder: str) -> Any:
    kind = slatedb.ObjectStoreType.IN_MEMORY if where == "memory" else slatedb.ObjectStoreType.LOCAL
    store = slatedb.ObjectStoreBuilder(kind)
    if where != "memory":
        store.with_config("local_path", folder)
    settings = slatedb.Settings.default()
    for key, value in SETTINGS.items():
        settings.set(key, json.dumps(value))
    builder = slatedb.DbBuilder("db", store.build())
    builder.with_settings(settings)
    return await builder.build()


def key(i: int) -> bytes:
    return b"%016d" % (i * 7919 % 1_000_003)


async def write_batches(slatedb: Any, db: Any, count: int = BATCHES) -> float:
    value = b"v" * VALUE
    start = time.perf_counter()
    for number in range(count):
        batch = slatedb.WriteBatch()
        for row in range(BATCH):
            batch.put(key(number * BATCH + row), value)
        await db.write(batch)
    await db.flush()
    return count * BATCH / (time.perf_counter() - start)


async def concurrent_puts(slatedb: Any, db: Any) -> float:
    async def put(i: int) -> None:
        handle = await db.put(key(i), b"v" * VALUE)
        await handle.await_durable()

    start = time.perf_counter()
    for number in range(PUTS):
        await asyncio.gather(*(put(number * AT_ONCE + i) for i in range(AT_ONCE)))
    return PUTS * AT_ONCE / (time.perf_counter() - start)


async def filled(slatedb: Any, db: Any) -> None:
    """Three L0s and a memtable."""
    memtable = slatedb.FlushOptions(flush_type=slatedb.FlushType.MEM_TABLE)
    for _ in range(3):
        await write_batches(slatedb, db, 50)
        await db.flush_with_options(memtable)
    await write_batches(slatedb, db, 10)


async def hot_gets(slatedb: Any, db: Any) -> float:
    await filled(slatedb, db)
    keys = [key(10_000 + i) for i in range(HOT)]
    for each in keys:
        assert await db.get(each) is not None
    start = time.perf_counter()
    for i in range(GETS):
        await db.get(keys[i % HOT])
    return GETS / (time.perf_counter() - start)


async def scan_batches(slatedb: Any, db: Any) -> float:
    await filled(slatedb, db)
    start = time.perf_counter()
    iterator = await db.scan(slatedb.KeyRange(start=None, start_inclusive=False, end=None, end_inclusive=False))
    rows = 0
    while batch := await iterator.next_batch(4096):
        rows += len(batch)
    assert rows >= 50 * BATCH
    return rows / (time.perf_counter() - start)


async def fresh_scans(slatedb: Any, db: Any) -> float:
    """Scans of a few rows, each after a write: what a scan costs that cannot use what an earlier one has prepared."""
    await write_batches(slatedb, db, BATCHES // 2)
    start = 0.0
    for number in range(FRESH + 1):
        if number == 1:
            start = time.perf_counter()  # the first scan sorts what was written before
        await db.put(key(number), b"fresh")
        after = slatedb.KeyRange(start=key(number), start_inclusive=True, end=None, end_inclusive=False)
        iterator = await db.scan(after)
        for _ in range(TEN):
            assert await iterator.next() is not None
    return FRESH / (time.perf_counter() - start)


async def scan_arrow(slatedb: Any, db: Any) -> float:
    await filled(slatedb, db)
    everything = slatedb.KeyRange(start=None, start_inclusive=False, end=None, end_inclusive=False)
    start = time.perf_counter()
    rows = 0
    async for batch in db.scan_arrow(everything):
        rows += batch.num_rows
    assert rows >= 50 * BATCH
    return rows / (time.perf_counter() - start)
