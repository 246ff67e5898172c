"""Bulk reads on Spark, ``local[2]`` to ``noop``: beside Spark's own Parquet, and beside a job that scans with the original.

Ten million rows with 16-byte keys and 100-byte values, fully compacted and as eight overlapping SSTs of L0. Each figure is
the best of three runs after one that warms up. ``SLATE_BENCH_SCALE`` (1 by default) makes everything smaller or larger.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import slate_engine.spark
from slate_engine.format.columns import HAS_CREATE, Bytes, Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_build import build_sst
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import SstView, Views
from slate_engine.store.open import open_store

SCALE = float(os.environ.get("SLATE_BENCH_SCALE", "1"))
ROWS = int(10_000_000 * SCALE)
WHEEL_ROWS = ROWS // 10
"""The original takes a minute for ten million; its rate is the same for fewer."""

KEY, VALUE, NOW_MS = 16, 100, 1_700_000_000_000
PER_SST = 500_000
LAYERS = 8
LINEAR = 0.15
MEMORY_MB = 512 + 300
"""What a task may hold by default, and what a Python worker is without any data."""


def run() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="slate-bench-") as name:
        folder = Path(name)
        for database, rows, layers in (("run", ROWS, 0), ("l0", ROWS, LAYERS), ("wheel", WHEEL_ROWS, 0)):
            asyncio.run(write_database(folder / database, rows, layers))
        spark = session(folder)
        try:
            yield from compare(spark, folder)
            yield growth(spark, folder)
        finally:
            spark.stop()


def compare(spark: SparkSession, folder: Path) -> Iterator[dict[str, Any]]:
    ours(spark, folder / "run").write.parquet(str(folder / "parquet"))
    parquet = best(lambda: to_noop(spark.read.parquet(str(folder / "parquet"))))
    whole = best(lambda: to_noop(ours(spark, folder / "run")))
    worker_mb = largest_worker_mb()
    yield result("a compacted checkpoint, against spark.read.parquet of the same rows", whole, parquet, 0.5)
    layered = best(lambda: to_noop(ours(spark, folder / "l0")))
    yield result(f"{LAYERS} overlapping SSTs of L0, against Parquet", layered, parquet, 0.3)
    keys = best(lambda: to_noop(ours(spark, folder / "run", columns="key")))
    yield result("keys only, against our read of everything", keys, whole, 2.0)
    count = best(lambda: check(ours(spark, folder / "run", columns="seq").count() == ROWS))
    yield result("count, against our read of everything", count, whole, 2.0)
    wheel = best(lambda: to_noop(scanned_by_the_original(spark, folder / "wheel")), times=1)
    per_row = whole / ROWS * WHEEL_ROWS
    yield result(
        "a compacted checkpoint, against a job whose tasks scan with the original", per_row, wheel, 15.0, WHEEL_ROWS
    )
    largest = max(worker_mb, largest_worker_mb())
    yield {
        "what": "memory of a Python worker at its peak, partitions of 128 MB",
        "ours_mb": largest,
        "bar": MEMORY_MB,
        "ok": largest <= MEMORY_MB,
    }


def growth(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Time for 0.1, 1 and 3 times as many rows, and how far the figures are from a line."""
    counts = [ROWS // 10, ROWS, 3 * ROWS]
    asyncio.run(write_database(folder / "short", counts[0], 0))
    asyncio.run(write_database(folder / "long", counts[2], 0))
    seconds = [best(lambda name=name: to_noop(ours(spark, folder / name))) for name in ("short", "run", "long")]
    slope, start = np.polyfit(counts, seconds, 1, w=1 / np.array(seconds))
    off = max(abs(start + slope * count - took) / took for count, took in zip(counts, seconds, strict=True))
    return {
        "what": "time grows with the rows along a line",
        "rows": counts,
        "ours_s": [round(each, 2) for each in seconds],
        "off_the_line": round(float(off), 3),
        "bar": LINEAR,
        "ok": bool(off <= LINEAR),
    }


def result(what: str, ours: float, peer: float, bar: float, rows: int = ROWS) -> dict[str, Any]:
    return {
        "what": what,
        "rows": rows,
        "ours_rows_per_s": round(rows / ours),
        "peer_rows_per_s": round(rows / peer),
        "ratio": round(peer / ours, 2),
        "bar": bar,
        "ok": peer / ours >= bar,
    }


def best(work: Callable[[], None], times: int = 3) -> float:
    work()
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)


def session(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "spark"),
    }
    builder = SparkSession.builder.master("local[2]").appName("slate-bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    slate_engine.spark.register(spark)
    return spark


def ours(spark: SparkSession, folder: Path, **options: str) -> DataFrame:
    return spark.read.format("slatedb").options(url=f"file://{folder}", path="db", **options).load()


def to_noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def check(holds: bool) -> None:
    assert holds


class OriginalSource(DataSource):
    """What one would write without us: two tasks, each of which scans its half with the original's reader."""

    @classmethod
    def name(cls) -> str:
        return "original"

    def schema(self) -> str:
        return "key BINARY, value BINARY"

    def reader(self, schema: object) -> DataSourceReader:
        return OriginalReader(self.options["folder"])


class OriginalReader(DataSourceReader):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        yield from asyncio.run(original_rows(self.folder, partition.value))


def scanned_by_the_original(spark: SparkSession, folder: Path) -> DataFrame:
    spark.dataSource.register(OriginalSource)
    return spark.read.format("original").option("folder", str(folder)).load()


async def original_rows(folder: str, half: int) -> list[pa.RecordBatch]:
    import slatedb.uniffi as original

    builder = original.ObjectStoreBuilder(original.ObjectStoreType.LOCAL)
    builder.with_config("local_path", folder)
    reading = original.DbReaderBuilder("db", builder.build())
    reading.with_reader_mode(original.ReaderMode.FOLLOW_LATEST())
    reader = await reading.build()
    middle = b"%016d" % (WHEEL_ROWS // 2)
    bounds = (None, middle) if half == 0 else (middle, None)
    wanted = original.KeyRange(start=bounds[0], start_inclusive=True, end=bounds[1], end_inclusive=False)
    iterator = await reader.scan(wanted)
    batches = []
    while rows := await iterator.next_batch(4096):
        batches.append(
            pa.record_batch(
                [pa.array([row.key for row in rows], pa.binary()), pa.array([row.value for row in rows], pa.binary())],
                names=["key", "value"],
            )
        )
    await reader.shutdown()
    return batches


def largest_worker_mb() -> int:
    """The most that any Python worker of Spark has ever held."""
    peaks = [0]
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error, OSError):  # it has ended meanwhile
            if "pyspark.daemon" in " ".join(process.cmdline()):
                status = Path(f"/proc/{process.pid}/status").read_text()
                peaks += [int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM")]
    return max(peaks)


async def write_database(folder: Path, rows: int, layers: int) -> None:
    """A database with ``rows`` in one sorted run, or scattered over so many ``layers`` of L0."""
    runtime = SystemRuntime()
    files = DatabaseFiles(open_store(f"file://{folder}", runtime=runtime), "db", runtime)
    chance = np.random.default_rng(1)
    if layers:
        layer_of = chance.integers(0, layers, rows)
        parts = [np.flatnonzero(layer_of == layer) for layer in range(layers)]
    else:
        parts = [np.arange(first, min(first + PER_SST, rows)) for first in range(0, rows, PER_SST)]
    views = []
    for part in parts:
        sst = build_sst(sample(part, chance))
        handle = SstHandle(Ulid.new(runtime), sst.info, sst.version)
        await files.store.put(files.paths.compacted(handle.id), sst.tobytes())
        views.append(SstView(handle.id, handle))
    tree = Tree(l0=Views.of(reversed(views))) if layers else Tree(runs=(SortedRun(0, Views.of(views)),))
    await files.manifests.create_first(Manifest())
    await files.manifests.update(lambda old: replace(old.with_root(tree), last_l0_seq=rows, last_l0_clock_tick=NOW_MS))


def sample(numbers: np.ndarray[Any, np.dtype[np.int64]], chance: np.random.Generator) -> Rows:
    count = len(numbers)
    digits = np.empty((count, KEY), np.uint8)
    left = numbers.copy()
    for place in range(KEY - 1, -1, -1):
        digits[:, place] = left % 10 + ord("0")
        left //= 10
    return Rows(
        Bytes(digits.reshape(-1), np.arange(0, count * KEY + 1, KEY)),
        Bytes(chance.integers(0, 256, count * VALUE, np.uint8), np.arange(0, count * VALUE + 1, VALUE)),
        (numbers + 1).astype(np.uint64),
        np.full(count, HAS_CREATE, np.uint8),
        np.full(count, NOW_MS, np.int64),
        np.zeros(count, np.int64),
    )
