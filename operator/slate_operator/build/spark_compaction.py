"""The Spark job that does large compactions of a database."""

from __future__ import annotations

from slate_operator.api.amount import size_of
from slate_operator.api.database import SlateDatabase, SparkCompaction
from slate_operator.build.naming import Family
from slate_operator.build.spark_run import SETTINGS, RunId, SparkRun

MOST = 10_000
"""Numbers begin again after so many: names become labels, and those are short."""


def id_of(database: SlateDatabase, number: int) -> RunId:
    family = Family.of(database)
    return RunId(family.namespace, f"{family.name}-spark", number % MOST, family.owner)


def run_of(database: SlateDatabase, spark: SparkCompaction, number: int, image: str) -> SparkRun:
    id = id_of(database, number)
    return SparkRun(
        id.namespace,
        id.family,
        id.attempt,
        id.owner,
        store=database.spec.store,
        spark=spark,
        image=image,
        # A job that is as large as the limit is the compactor's, and one byte more is Spark's.
        settings={"worker": True, "min-bytes": str(size_of(spark.larger_than) + 1), "json": True},
        arguments=("compact", "--config", SETTINGS),
    )
