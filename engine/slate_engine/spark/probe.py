"""Finding out whether a Spark keeps pushed filters apart, by planning a few scans of one frame.

The probe is a table of two partitions that plans one of them where a filter was pushed. Planning shows how many, so no
executor is needed and nothing is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from slate_engine.spark.versions import PUSHDOWN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "slatedb-probe"


def keeps_filters_apart(spark: SparkSession) -> bool:
    """False where it cannot be seen: over Spark Connect, which shows no plans, or if the probe fails."""
    if getattr(spark, "_sc", None) is None:
        return False
    before = spark.conf.get(PUSHDOWN) or "false"
    spark.conf.set(PUSHDOWN, "true")
    try:
        spark.dataSource.register(Probe)
        return is_apart(spark.read.format(NAME).load())
    except PySparkException:
        return False
    finally:
        spark.conf.set(PUSHDOWN, before)


def is_apart(frame: DataFrame) -> bool:
    """Whether each scan of a frame over the probe has its own filters and no others, in any order and in one query."""

    def whole() -> DataFrame:
        return frame.select("id")

    def narrow() -> DataFrame:
        return frame.where("id = 0")

    scans = [
        (whole(), 2),
        (narrow(), 1),
        (whole(), 2),
        (narrow().union(whole()), 3),
        (whole().union(narrow()), 3),
        (narrow(), 1),
    ]
    return all(scan.rdd.getNumPartitions() == expected for scan, expected in scans)


class Probe(DataSource):
    """The table."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "id INT"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _ProbeReader()


class _ProbeReader(DataSourceReader):
    def __init__(self) -> None:
        self._partitions = 2

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._partitions = 1
        return filters

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)
