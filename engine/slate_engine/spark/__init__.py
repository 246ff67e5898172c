"""Databases in Spark: ``spark.read.format("slatedb")`` and the rest, once :func:`register` was called.

Needs PySpark 4.1 or later. Every process that Spark starts imports this package first, and few need all of it: what a call
needs is imported by that call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "release"]


def register(spark: SparkSession) -> None:
    """From now on ``spark.read.format("slatedb")``, ``df.write`` and ``spark.readStream`` know databases.

    Checkpoints that reads need are held as long as this session lives. Registering twice is registering once."""
    from slate_engine.spark.session import register

    register(spark)


def release(spark: SparkSession) -> None:
    """Delete the checkpoints that were made for the reads of this session so far. A session that lives for days calls it
    when it is done with its frames; they cannot be read again."""
    from slate_engine.spark.session import release

    release(spark)
