"""Loads made step by step, without Spark: what its driver and its tasks would call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.spark.heap import keep_memory
from slate_engine.spark.load.building import Part, build_part
from slate_engine.spark.load.intent import Intent, begin
from slate_engine.spark.load.options import LoadOptions
from slate_engine.spark.options import Location
from slate_engine.store.open import open_store

HERE = Location("memory:///", "db")


def batch(values: Mapping[bytes, bytes | None]) -> pa.RecordBatch:
    """A batch as Spark sends it, in the order of the mapping."""
    columns = [pa.array(values.keys(), pa.binary()), pa.array(values.values(), pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value"])


async def begun(files: DatabaseFiles, **options: object) -> Intent:
    return await begin(files, HERE, LoadOptions(**options))  # type: ignore[arg-type]


async def built(files: DatabaseFiles, intent: Intent, partition: int, *batches: Mapping[bytes, bytes | None]) -> Part:
    return await build_part(intent, partition, [batch(each) for each in batches], files.store, files.runtime)


def peak_of_build(url: str, rows: int, value_bytes: int, memory: int) -> int:
    """The most memory of its own, in KiB, that this process has while it builds a partition of random keys; files that are
    mapped do not count, since the system takes them back when it needs to."""
    keep_memory(memory)
    files = DatabaseFiles(open_store(url), "db", SystemRuntime(threads=2))
    peak, over = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.005):
            (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in line)
            peak = max(peak, int(line.split()[1]))

    async def work() -> Part:
        intent = await begun(files, memory_bytes=memory)
        return await build_part(intent, 0, _random_batches(rows, value_bytes), files.store, files.runtime)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        assert asyncio.run(work()).rows == rows
    finally:
        over.set()
        watcher.join()
    return peak


def _random_batches(rows: int, value_bytes: int, each: int = 1000) -> Iterator[pa.RecordBatch]:
    chance = np.random.default_rng(1)
    for _ in range(rows // each):
        columns = [_column(chance.bytes(width * each), width, each) for width in (16, value_bytes)]
        yield pa.RecordBatch.from_arrays(columns, names=["key", "value"])


def _column(data: bytes, width: int, count: int) -> pa.Array:
    offsets = np.arange(0, width * count + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
