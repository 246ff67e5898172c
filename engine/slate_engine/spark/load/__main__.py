"""``python -m slate_engine.spark.load``: rows of Parquet, Delta or Iceberg tables into a database."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from slate_engine.spark.jobs.running import Job
from slate_engine.spark.jobs.settings import DATABASE, Setting, Settings
from slate_engine.spark.jobs.summary import Outcome
from slate_engine.spark.jobs.tables import FORMATS, folder_of, read_table
from slate_engine.spark.load import load
from slate_engine.spark.load.options import LOAD

SETTINGS = (
    *DATABASE,
    Setting(
        "from",
        "the table to load: a folder such as s3://lake/orders, a path that Spark reads, or an Iceberg table's name",
        required=True,
    ),
    Setting("from-option", "an option of the store of --from; those of --option, if none is given", many=True),
    Setting("format", "of that table", default="parquet", choices=FORMATS),
    Setting("key-column", "the column with the keys, binary or text", default="key"),
    Setting("value-column", "the column with the values; a row without one deletes its key", default="value"),
    Setting("expire-column", "the column with the times at which rows expire, in milliseconds"),
    Setting("partitions", "into so many ranges of keys; what Spark finds right, if left out"),
    Setting("read", "an option for reading the table", many=True),
    Setting("sink", f"an option of the load ({', '.join(LOAD)})", many=True),
)


def work(spark: SparkSession, settings: Settings) -> Outcome:
    columns = {"key": settings.text("key-column"), "value": settings.text("value-column")}
    if settings.text("expire-column"):
        columns["expire_ts"] = settings.text("expire-column")
    format, place = settings.text("format"), settings.text("from")
    folder = folder_of(format, place, settings.pairs("from-option"), settings.location, "from-option")
    frame = read_table(spark, format, place, settings.pairs("read"), tuple(columns.values()), folder)
    options = settings.source_options | settings.pairs("sink")
    report = load(_renamed(frame, columns), partitions=settings.number("partitions"), **options)
    facts = {"ssts": report.ssts, "manifest_id": report.manifest_id, "last_seq": report.last_seq}
    return Outcome(report.rows, report.bytes, report.requests, facts=facts)


def _renamed(frame: DataFrame, columns: dict[str, str]) -> DataFrame:
    return frame.select(*(col(f"`{theirs}`").alias(ours) for ours, theirs in columns.items()))


JOB = Job("slate_engine.spark.load", "Load a table into a database, all rows or none.", SETTINGS, work)

if __name__ == "__main__":
    JOB.run()
