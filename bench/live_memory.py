"""Resident memory of a process that writes a lot, with everything on: the log, flushes, compaction.

``SLATE_BENCH_MB`` says how much is written; 5,000 MB take some ten minutes. The bar is what the settings allow (rows that
are not flushed yet, the cache, the compactor's share) and 300 MB for the interpreter, its libraries and what is on its way.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from bench.live import BATCH, KEY, OURS, VALUE, key

MEGABYTES = int(os.environ.get("SLATE_BENCH_MB", "5000"))
MIB = 1 << 20
UNFLUSHED, CACHE, COMPACTOR, REST = 256 * MIB, 64 * MIB, 256 * MIB, 300_000_000
SETTINGS: dict[str, object] = {"max_unflushed_bytes": UNFLUSHED, "garbage_collector_options": None}


def run() -> Iterator[dict[str, Any]]:
    for what, settings, bar in (
        ("no compaction", {**SETTINGS, "compactor_options": None, "l0_max_ssts": 10_000}, UNFLUSHED + CACHE + REST),
        ("with compaction", SETTINGS, UNFLUSHED + CACHE + COMPACTOR + REST),
    ):
        with tempfile.TemporaryDirectory(prefix="slate-bench-") as folder:
            start = time.perf_counter()
            peak = peak_rss(folder, {**settings, "l0_max_ssts_per_key": 10_000})
            seconds = time.perf_counter() - start
        yield {
            "what": f"resident memory while {MEGABYTES} MB are written, {what}",
            "ours_mb": round(peak / 1e6),
            "bar_mb": round(bar / 1e6),
            "mb_per_s": round(MEGABYTES / seconds, 1),
            "ok": peak <= bar,
        }


def peak_rss(folder: str, settings: dict[str, object]) -> int:
    """The most that a process of its own had at any time while it wrote."""
    child = multiprocessing.get_context("spawn").Process(target=write, args=(folder, settings))
    child.start()
    process, peak = psutil.Process(child.pid), 0
    while child.is_alive():
        try:
            peak = max(peak, process.memory_info().rss)
        except psutil.NoSuchProcess:
            break
        time.sleep(0.05)
    child.join()
    assert child.exitcode == 0, "the writing process failed"
    return peak


def write(folder: str, settings: dict[str, object]) -> None:
    asyncio.run(_write(Path(folder), settings))


async def _write(folder: Path, settings: dict[str, object]) -> None:
    slatedb = __import__(OURS)
    store = slatedb.ObjectStoreBuilder(slatedb.ObjectStoreType.LOCAL)
    store.with_config("local_path", str(folder))
    wanted = slatedb.Settings.default()
    for name, value in settings.items():
        wanted.set(name, json.dumps(value))
    builder = slatedb.DbBuilder("db", store.build())
    builder.with_settings(wanted)
    db = await builder.build()
    chance = os.urandom(BATCH + VALUE)
    for number in range(MEGABYTES * 1_000_000 // (BATCH * (KEY + VALUE))):
        batch = slatedb.WriteBatch()
        for row in range(BATCH):
            batch.put(key(number * BATCH + row), chance[row : row + VALUE])  # an object of its own, as everybody's are
        await db.write(batch)
    await db.shutdown()
