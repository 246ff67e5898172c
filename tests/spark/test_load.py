"""Bulk loads by real Spark, read by the original."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slate_engine.spark.load import load
from slate_engine.spark.load.intent import LEAP
from tests.interop.original import Original
from tests.interop.style import Style

pytestmark = pytest.mark.spark

ROWS = 20_000


def rows_of(folder: Path, path: str = "db") -> dict[bytes, tuple[bytes, int]]:
    """What the original sees."""
    return {row.key: (row.value, row.seq) for row in asyncio.run(Original(folder, Style()).rows(path))}


def frame(spark: SparkSession, rows: int = ROWS, value: str = "v"):  # type: ignore[no-untyped-def]
    """Keys out of order, in two partitions."""
    key = F.format_string("%08d", (F.col("id") * 7919) % rows)
    return spark.range(rows, numPartitions=2).select(key.alias("key"), F.concat(F.lit(value), "id").alias("value"))


def test_a_frame_becomes_a_database_that_the_original_reads(spark: SparkSession, tmp_path: Path) -> None:
    report = load(frame(spark), tmp_path.as_uri(), "db", partitions=3)
    found = rows_of(tmp_path)
    assert {key: value for key, (value, _) in found.items()} == {
        b"%08d" % (id * 7919 % ROWS): b"v%d" % id for id in range(ROWS)
    }
    assert {seq for _, seq in found.values()} == {LEAP}
    assert (report.rows, report.last_seq) == (ROWS, LEAP)
    assert report.requests["put"] >= report.ssts
    assert report.bytes > ROWS * 12


def test_a_second_load_is_newer_and_deletes(spark: SparkSession, tmp_path: Path) -> None:
    url = tmp_path.as_uri()
    frame(spark, 100).write.format("slatedb").mode("append").options(url=url, path="db").save()
    # Both partitions reach over all keys, and still it is one commit.
    assert {seq for _, seq in rows_of(tmp_path).values()} == {LEAP}
    some = frame(spark, 100, "w").where("key < '00000010'")
    some = some.withColumn("value", F.when(F.col("key") != "00000003", F.col("value")))
    # On local files nobody can tell whose the fence is that the first load left a moment ago.
    some.write.format("slatedb").mode("append").options(url=url, path="db", takeOver="true").save()
    found = rows_of(tmp_path)
    assert b"00000003" not in found
    assert len(found) == 99
    assert {seq for _, seq in found.values()} == {LEAP, 2 * LEAP}
    assert {key for key, (value, _) in found.items() if value.startswith(b"w")} == {
        b"%08d" % key for key in range(10) if key != 3
    }


def test_what_cannot_be_loaded_is_said_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    url = tmp_path.as_uri()
    twice = frame(spark, 100).union(frame(spark, 100)).coalesce(1)
    with pytest.raises(PySparkException, match="two rows have the key"):
        load(twice, url, "db")
    assert not (tmp_path / "db" / "manifest").exists()
    assert not list((tmp_path / "db").rglob("*.sst"))
    apart = frame(spark, 100).union(frame(spark, 100))
    with pytest.raises(PySparkException, match="two partitions have a row with the key"):
        apart.write.format("slatedb").mode("append").options(url=url, path="db").save()
    assert not (tmp_path / "db" / "manifest").exists()
    assert not list((tmp_path / "db").rglob("*.sst"))
    with pytest.raises(PySparkException, match="must be binary or string"):
        load(spark.range(5).select(F.col("id").alias("key"), F.lit("v").alias("value")), url, "db")
    with pytest.raises(PySparkException, match="append"):
        frame(spark, 5).write.format("slatedb").mode("overwrite").options(url=url, path="db").save()
    with pytest.raises(PySparkException, match="no option 'sstbites'"):
        frame(spark, 5).write.format("slatedb").mode("append").options(url=url, path="db", sstBites="1m").save()
