"""Tables that jobs read and write beside databases."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from slate_engine.errors import InvalidError
from slate_engine.spark.options import MIB, Given, Location
from slate_engine.spark.parquet.commit import Mode
from slate_engine.spark.parquet.folder import SCHEMES, Folder, is_folder
from slate_engine.spark.parquet.layout import Layout
from slate_engine.spark.parquet.reading import read_folder
from slate_engine.spark.parquet.writing import JOB, TableReport, write_folder

FORMATS = ("parquet", "delta", "iceberg")
_CLASSES = {"delta": "io.delta.sql.DeltaSparkSessionExtension", "iceberg": "org.apache.iceberg.spark.SparkCatalog"}
"""What each of the formats that Spark does not bring is known by."""

PARTITION_BYTES = "partitionBytes"
"""The option of reading a Parquet table through our own stores: about so many bytes are one task."""

OBSERVED_WITHIN = 30.0
"""Seconds from the end of a run until its observation has the numbers. If they come later, the rows are read once more."""

log = logging.getLogger(__name__)


def check_format(spark: SparkSession, name: str) -> None:
    """Raises unless the session can read and write such tables."""
    wanted = _CLASSES.get(name)
    if wanted is None:
        return
    java = spark.sparkContext._jvm
    assert java is not None
    try:
        java.java.lang.Thread.currentThread().getContextClassLoader().loadClass(wanted)
    except Exception:
        raise InvalidError(
            f"this Spark session has no {name}: give its packages with --conf spark.jars.packages=… (and, for Delta, "
            "--conf spark.sql.extensions=…), in a version for this Spark; or use parquet, which every session has"
        ) from None


def folder_of(format: str, place: str, options: Mapping[str, str], database: Location, flag: str) -> Folder | None:
    """The folder that our own stores read or write; None for a place that is Spark's own to reach."""
    if format == "parquet" and is_folder(place):
        return Folder.of(place, options, database)
    if options:
        raise InvalidError(
            f"--{flag} is for Parquet in a store of ours ({', '.join(f'{name}://' for name in SCHEMES)}); Spark's own "
            "connectors take --conf spark.hadoop.…"
        )
    return None


def read_table(
    spark: SparkSession,
    format: str,
    place: str,
    options: Mapping[str, str],
    columns: Sequence[str],
    folder: Folder | None,
) -> DataFrame:
    """A table with at least these columns."""
    if folder is not None:
        given = Given(options)
        unknown = [name for name in options if name.lower() != PARTITION_BYTES.lower()]
        if unknown:
            raise InvalidError(f"a Parquet table in a store has no option {unknown[0]!r}; it has {PARTITION_BYTES}")
        return read_folder(spark, folder, columns, given.size(PARTITION_BYTES, 128 * MIB))
    check_format(spark, format)
    frame = spark.read.format(format).options(**options).load(place)
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise InvalidError(f"the table has no column {missing[0]!r}; it has {', '.join(frame.columns)}")
    return frame


def write_table(
    frame: DataFrame, format: str, place: str, mode: str, options: Mapping[str, str], folder: Folder | None
) -> TableReport | None:
    """What was written, where that is known."""
    if folder is not None:
        return write_folder(frame, folder, Mode(mode), Layout.of(options))
    check_format(frame.sparkSession, format)
    job = os.environ.get(JOB)
    if format == "delta" and mode == Mode.APPEND.value and job:
        _append_once(frame, place, options, job)
    else:
        frame.write.format(format).mode(mode).options(**options).save(place)
    return None


def _append_once(frame: DataFrame, place: str, options: Mapping[str, str], job: str) -> None:
    """Append to a Delta table, whose log keeps the transactions that it has had: an append of the same job is skipped there.

    A frame that is skipped is not run, and the job that observes it would wait forever for its numbers. It is run without
    writing then: the job reads the same state in each of its attempts, so that its numbers are those of the table's rows."""
    seen = Observation()
    watched = frame.observe(seen, F.count(F.lit(1)).alias("rows"))
    given = {"txnAppId": job, "txnVersion": "1", **options}
    watched.write.format("delta").mode(Mode.APPEND.value).options(**given).save(place)
    if not _was_run(seen):
        log.warning("an earlier attempt has appended the rows to %s already; they are only counted", place)
        watched.write.format("noop").mode("overwrite").save()


def _was_run(seen: Observation) -> bool:
    """Spark tells of a run a moment after its end, and cannot be asked whether it will."""
    waiting = threading.Thread(target=lambda: seen.get, name="slate-observation", daemon=True)
    waiting.start()
    waiting.join(OBSERVED_WITHIN)
    return not waiting.is_alive()
