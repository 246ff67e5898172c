"""``python -m slate_engine.spark.export``: a state of a database as a Parquet, Delta or Iceberg table."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from slate_engine.spark.jobs.running import Job
from slate_engine.spark.jobs.settings import DATABASE, Setting, Settings
from slate_engine.spark.jobs.summary import Outcome, added
from slate_engine.spark.jobs.tables import FORMATS, check_format, folder_of, write_table
from slate_engine.spark.keys import KEYS
from slate_engine.spark.reading import FEWEST_BYTES
from slate_engine.spark.source import FORMAT
from slate_engine.store.cost import Request

SETTINGS = (
    *DATABASE,
    Setting(
        "to",
        "where the table is to be: a folder such as s3://lake/orders, a path that Spark writes, or an Iceberg table's name",
        required=True,
    ),
    Setting("to-option", "an option of the store of --to; those of --option, if none is given", many=True),
    Setting("format", "of the table", default="parquet", choices=FORMATS),
    Setting(
        "mode", "what to do if it is there", default="errorifexists", choices=("append", "overwrite", "errorifexists")
    ),
    Setting("checkpoint", "the state to export, by its id or name; that of now, if left out"),
    Setting("start", "only keys from this one on"),
    Setting("end", "only keys before this one"),
    Setting("prefix", "only keys that begin with this"),
    Setting("keys", "only these keys, as a JSON array"),
    Setting("columns", "which columns, such as key,value; all, if left out"),
    Setting("where", "only rows for which this SQL expression holds"),
    Setting("read", "an option of the read, such as valueFormat=utf8", many=True),
    Setting("write", "an option of the table, such as compression=zstd", many=True),
)


def work(spark: SparkSession, settings: Settings) -> Outcome:
    format, place, mode = settings.text("format"), settings.text("to"), settings.text("mode")
    check_format(spark, format)
    folder = folder_of(format, place, settings.pairs("to-option"), settings.location, "to-option")
    source = spark.read.format(FORMAT).options(**settings.source_options, **settings.pairs("read"))
    told = {name: settings.text(name) for name in ("checkpoint", *KEYS) if settings.text(name)}
    frame = _chosen(source.options(**told, **_columns_read(settings)).load(), settings)
    seen = Observation("export")
    counted = frame.observe(seen, F.count(F.lit(1)).alias("rows"), _bytes(frame).alias("bytes"))
    written = write_table(counted, format, place, mode, settings.pairs("write"), folder)
    rows, size = seen.get["rows"], seen.get["bytes"] or 0
    reads = {Request.GET.value: size // FEWEST_BYTES + 1}
    if written is None:
        return Outcome(rows, size, reads, estimated=True, facts={"to": place})
    facts = {"to": place, "files": written.files, "file_bytes": written.bytes}
    return Outcome(rows, size, added([reads, written.requests]), estimated=True, facts=facts)


def _columns_read(settings: Settings) -> dict[str, str]:
    """The option that keeps the read to the columns that the job writes. An expression may need any."""
    wanted = _columns(settings)
    return {} if not wanted or settings.text("where") else {"columns": ",".join(dict.fromkeys(wanted))}


def _columns(settings: Settings) -> list[str]:
    return [name.strip() for name in settings.text("columns").split(",") if name.strip()]


def _chosen(frame: DataFrame, settings: Settings) -> DataFrame:
    if settings.text("where"):
        frame = frame.where(settings.text("where"))
    return frame.select(*_columns(settings)) if _columns(settings) else frame


def _bytes(frame: DataFrame) -> Column:
    """What the keys and values take, as they are in the table."""
    total = F.lit(0)
    for field in frame.schema.fields:
        if field.name in ("key", "value"):
            plain = field.dataType.typeName() in ("binary", "string")
            item = F.col(field.name) if plain else F.col(field.name).cast("string")
            total = total + F.coalesce(F.octet_length(item), F.lit(0))
    return F.sum(total)


JOB = Job("slate_engine.spark.export", "Export a state of a database to a table.", SETTINGS, work)

if __name__ == "__main__":
    JOB.run()
