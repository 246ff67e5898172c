"""A bulk load of ten million rows by Spark, two cores, against its own sort and Parquet write and the original's ``write``.

All three take the same rows, 16-byte keys out of order and 100-byte values that do not compress; Spark reads them from a
Parquet table that was made before. The original writes a part of them in batches of 1,000 and flushes, for the whole would
take it many minutes. ``SLATE_BENCH_ROWS`` makes it smaller or larger.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import slatedb.uniffi as original

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = int(os.environ.get("SLATE_BENCH_ROWS", 10_000_000))
ORIGINAL_ROWS = min(ROWS, 300_000)
BATCH = 1000
BARS = {"the original's write": 10.0, "Spark's sort and Parquet write": 1.0}


def run() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="slate-bench-") as name:
        folder = Path(name)
        spark = session(folder)
        try:
            write_source(spark, folder)
            load_some(spark, folder)
            # In turns, and the better of two: whoever comes later finds a Java that has compiled what both of them do.
            turns = [(load_all(spark, folder), sort_to_parquet(spark, folder)) for _ in range(2)]
            ours, parquet = (max(rates) for rates in zip(*turns, strict=True))
        finally:
            spark.stop()
        (folder / "original").mkdir()
        theirs = asyncio.run(write_with_original(folder / "original"))
    for what, peer in {"the original's write": theirs, "Spark's sort and Parquet write": parquet}.items():
        yield {
            "what": f"bulk load of {ROWS:,} rows, local[2], rows/s against {what}",
            "rows": ROWS,
            "ours": round(ours),
            "original": round(peer),
            "ratio": round(ours / peer, 2),
            "bar": BARS[what],
            "ok": ours / peer >= BARS[what],
        }


def session(folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    import slate_engine.spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "16",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]").appName("bench")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    slate_engine.spark.register(spark)
    return spark


def write_source(spark: SparkSession, folder: Path) -> None:
    from pyspark.sql import functions as F

    def noise(salt: int) -> Any:
        return F.unhex(F.sha2(F.concat(F.col("id").cast("string"), F.lit(f"/{salt}")), 256))

    value = F.substring(F.concat(*(noise(salt) for salt in range(1, 5))), 1, 100)
    frame = spark.range(ROWS, numPartitions=8).select(F.substring(noise(0), 1, 16).alias("key"), value.alias("value"))
    frame.write.option("compression", "none").parquet(str(folder / "source"))


def source(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.parquet(str(folder / "source"))


def load_some(spark: SparkSession, folder: Path) -> None:
    """Once before the clock runs: Python workers start, and kernels are loaded."""
    from slate_engine.spark.load import load

    load(source(spark, folder).limit(10_000), folder.as_uri(), "warm")


def load_all(spark: SparkSession, folder: Path) -> float:
    from slate_engine.spark.load import load

    began = time.perf_counter()
    report = load(source(spark, folder), folder.as_uri(), "db")
    seconds = time.perf_counter() - began
    assert report.rows == ROWS
    shutil.rmtree(folder / "db")
    return ROWS / seconds


def sort_to_parquet(spark: SparkSession, folder: Path) -> float:
    began = time.perf_counter()
    source(spark, folder).sort("key").write.parquet(str(folder / "sorted"))
    seconds = time.perf_counter() - began
    shutil.rmtree(folder / "sorted")
    return ROWS / seconds


async def write_with_original(folder: Path) -> float:
    builder = original.ObjectStoreBuilder(original.ObjectStoreType.LOCAL)
    builder.with_config("local_path", str(folder))
    db = await original.DbBuilder("db", builder.build()).build()
    rows = [(os.urandom(16), os.urandom(100)) for _ in range(ORIGINAL_ROWS)]
    began = time.perf_counter()
    for start in range(0, ORIGINAL_ROWS, BATCH):
        batch = original.WriteBatch()
        for key, value in rows[start : start + BATCH]:
            batch.put(key, value)
        await db.write(batch)
    await db.flush_with_options(original.FlushOptions(flush_type=original.FlushType.MEM_TABLE))
    seconds = time.perf_counter() - began
    await db.shutdown()
    return ORIGINAL_ROWS / seconds
