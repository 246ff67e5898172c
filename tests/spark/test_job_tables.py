"""How jobs have Spark read and write tables of formats that it does not bring, seen by a session that notes the calls."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from slate_engine.errors import InvalidError
from slate_engine.spark.jobs.tables import check_format, folder_of, read_table, write_table
from slate_engine.spark.options import Location

CLASSES = {"delta": "io.delta.sql.DeltaSparkSessionExtension", "iceberg": "org.apache.iceberg.spark.SparkCatalog"}
PLACES = [("delta", "s3a://lake/orders"), ("delta", "s3://lake/orders"), ("iceberg", "catalog.sales.orders")]


class Calls:
    """A reader or a writer of Spark."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []

    def format(self, name: str) -> Calls:
        return self._note("format", name)

    def mode(self, name: str) -> Calls:
        return self._note("mode", name)

    def options(self, **options: str) -> Calls:
        return self._note("options", options)

    def save(self, place: str) -> None:
        self._note("save", place)

    def load(self, place: str) -> Frame:
        self._note("load", place)
        return Frame(Session())

    def _note(self, *call: Any) -> Calls:
        self.made.append(call)
        return self


class Session:
    """One whose JVM has these classes. What leads to the class loader is all the same object."""

    def __init__(self, *classes: str) -> None:
        self.read = Calls()
        self._classes = classes
        self.sparkContext = self._jvm = self.java = self.lang = self.Thread = self

    def currentThread(self) -> Session:
        return self

    def getContextClassLoader(self) -> Session:
        return self

    def loadClass(self, name: str) -> None:
        if name not in self._classes:
            raise RuntimeError(f"ClassNotFoundException: {name}")

    @property
    def spark(self) -> SparkSession:
        return cast(SparkSession, self)


class Frame:
    columns = ("key", "value")

    def __init__(self, session: Session) -> None:
        self.sparkSession = session
        self.write = Calls()

    @property
    def frame(self) -> DataFrame:
        return cast(DataFrame, self)


@pytest.mark.parametrize(("format", "place"), PLACES)
@pytest.mark.parametrize("mode", ["append", "overwrite", "errorifexists"])
def test_a_table_is_written_by_its_own_format(format: str, place: str, mode: str) -> None:
    """A url of a store is Spark's to reach, too: only Parquet is ours to write."""
    folder = folder_of(format, place, {}, Location("s3://bucket", "db"), "to-option")
    assert folder is None
    made = Frame(Session(CLASSES[format]))
    assert write_table(made.frame, format, place, mode, {"mergeSchema": "true"}, folder) is None
    options = ("options", {"mergeSchema": "true"})
    assert sorted(made.write.made[:-1], key=str) == [("format", format), ("mode", mode), options]
    assert made.write.made[-1] == ("save", place)


@pytest.mark.parametrize(("format", "place"), PLACES)
def test_a_table_is_read_by_its_own_format(format: str, place: str) -> None:
    session = Session(CLASSES[format])
    read_table(session.spark, format, place, {"versionAsOf": "3"}, ["key"], None)
    assert session.read.made == [("format", format), ("options", {"versionAsOf": "3"}), ("load", place)]
    with pytest.raises(InvalidError, match="the table has no column 'id'; it has key, value"):
        read_table(session.spark, format, place, {}, ["id"], None)


@pytest.mark.parametrize(("format", "place"), PLACES)
def test_nothing_is_begun_without_the_format(format: str, place: str) -> None:
    others = [name for known, name in CLASSES.items() if known != format]
    made = Frame(Session(*others))
    for begin in (
        lambda: check_format(made.sparkSession.spark, format),
        lambda: write_table(made.frame, format, place, "append", {}, None),
        lambda: read_table(made.sparkSession.spark, format, place, {}, [], None),
    ):
        with pytest.raises(InvalidError, match=f"this Spark session has no {format}: give its packages"):
            begin()
    assert made.write.made == made.sparkSession.read.made == []


@pytest.mark.parametrize(("format", "place"), PLACES)
def test_options_of_our_stores_are_refused_where_spark_would_not_see_them(format: str, place: str) -> None:
    with pytest.raises(InvalidError, match=r"--to-option is for Parquet in a store of ours .* spark\.hadoop"):
        folder_of(format, place, {"region": "eu"}, Location("s3://bucket", "db"), "to-option")
