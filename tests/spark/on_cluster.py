"""``python -m tests.spark.on_cluster load|speculate|read|compact|assist url path [option=value …]``: a job on a cluster.

It has two executors, each a process, so that a test can kill one, and is made for the job unless ``master`` names another.
Tasks take a second or two more than they need, for the test to find them at work.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

ROWS, PARTITIONS = 20_000, 4


def load(spark: SparkSession, url: str, path: str, options: dict[str, str]) -> None:

    def slowly(key: str) -> str:
        if key.endswith("000"):
            time.sleep(0.3)
        return key

    _load(spark, slowly, url=url, path=path, **options)


def speculate(spark: SparkSession, url: str, path: str, options: dict[str, str]) -> None:
    """A load of which the first attempt at one partition takes very long; attempts leave notes in the folder ``notes``."""
    notes = options.pop("notes")

    def stuck_at_first(key: str) -> str:
        context = TaskContext.get()
        assert context is not None
        note = Path(notes, f"{context.partitionId()}-{context.attemptNumber()}")
        if not note.exists():
            note.touch()
            time.sleep(300.0 if note.name == "0-0" else 0.5)
        return key

    _load(spark, stuck_at_first, url=url, path=path, **options)


def _load(spark: SparkSession, touched: Callable[[str], str], **options: str) -> None:
    key = F.format_string("%08d", (F.col("id") * 7919) % ROWS)
    frame = spark.range(ROWS, numPartitions=PARTITIONS).select(
        key.alias("key"), F.col("id").cast("string").alias("value")
    )
    divided = frame.repartitionByRange(PARTITIONS, "key").withColumn("key", F.udf(touched)("key"))
    divided.write.format("slatedb").mode("append").options(rangePartitioned="true", **options).save()


def read(spark: SparkSession, url: str, path: str, options: dict[str, str]) -> None:
    """To a table in the folder ``to``; tasks that have begun leave a note in the folder ``notes``."""
    to, notes = options.pop("to"), options.pop("notes")

    def slowly(key: bytes) -> bytes:
        context = TaskContext.get()
        assert context is not None
        note = Path(notes, str(context.taskAttemptId()))
        if not note.exists():
            note.touch()
            time.sleep(2.0)
        return bytes(key)

    frame = spark.read.format("slatedb").options(url=url, path=path, partitionBytes="16k", **options).load()
    frame.withColumn("key", F.udf(slowly, "binary")("key")).write.parquet(to)


def compact(spark: SparkSession, url: str, path: str, options: dict[str, str]) -> None:
    _compact(url, path, options, "--force")


def assist(spark: SparkSession, url: str, path: str, options: dict[str, str]) -> None:
    """As a worker of the compactor that the test runs."""
    _compact(url, path, options, "--worker", "--min-bytes", "1")


def _compact(url: str, path: str, options: dict[str, str], *how: str) -> None:
    from slate_engine.spark import compact, compacting, merging

    def slowly(task: merging.MergeTask) -> merging.Merged:
        time.sleep(1.0)
        return merging.merge_range(task)

    compacting.merge_range = slowly
    arguments = ["--url", url, "--path", path, "--ranges", str(PARTITIONS), "--sst-bytes", "1m", "--json", *how]
    for name, value in options.items():
        arguments += ["--option", f"{name.removeprefix('store.')}={value}"]
    code = compact.JOB.main(arguments)
    if code:
        raise SystemExit(code)


def main() -> None:
    from tests.spark.conftest import start_session

    work, url, path, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="slate-spark-") as folder:
        settings = dict(each.split("=", 1) for each in options)
        more = {"spark.executor.memory": "512m", "spark.shuffle.service.enabled": "false"}
        more |= {name: settings.pop(name) for name in list(settings) if name.startswith("spark.")}
        master = settings.pop("master", "local-cluster[2,1,512]")
        spark = start_session(master, "slate-on-cluster", Path(folder), **more)
        try:
            {"load": load, "speculate": speculate, "read": read, "compact": compact, "assist": assist}[work](
                spark, url, path, settings
            )
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
