"""How jobs have Spark read and write tables of formats that it does not bring, seen by a session that notes the calls."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from slate_engine.errors import InvalidError
from slate_engine.spark.jobs import tables
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


class DeltaTable:
    """What Delta does about transactions: its log has those that it was given, and it does not run a frame again."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.done: set[tuple[str, str]] = set()


class DeltaFrame:
    """A real frame, which writes Delta to such a table."""

    def __init__(self, frame: DataFrame, table: DeltaTable) -> None:
        self._real, self._table = frame, table
        self.sparkSession = Session(CLASSES["delta"])

    def observe(self, seen: Observation, *columns: Any) -> DeltaFrame:
        return DeltaFrame(self._real.observe(seen, *columns), self._table)

    @property
    def write(self) -> DeltaWriter:
        return DeltaWriter(self._real, self._table)

    @property
    def frame(self) -> DataFrame:
        return cast(DataFrame, self)


class DeltaWriter(Calls):
    def __init__(self, frame: DataFrame, table: DeltaTable) -> None:
        super().__init__()
        self._real, self._table = frame, table

    def save(self, place: str | None = None) -> None:
        told = {call[0]: call[1] for call in self.made}
        if told["format"] != "delta":
            self._real.write.format(told["format"]).mode(told["mode"]).save(place)
            return
        options = told["options"]
        transaction = (options.get("txnAppId", ""), options.get("txnVersion", ""))
        if all(transaction) and transaction in self._table.done:
            return
        self._table.rows += [row.id for row in self._real.collect()]
        self._table.done.add(transaction)


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


@pytest.mark.spark
def test_an_append_to_delta_is_done_once_whatever_attempt_it_took(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first driver fails after its table was complete. The second one adds nothing, and still knows the numbers: to wait
    for those of a frame that is never run would take forever."""
    monkeypatch.setenv("SLATE_JOB", "7f1f4b5e-0000-4000-8000-000000000001")
    monkeypatch.setattr(tables, "OBSERVED_WITHIN", 5.0)
    table = DeltaTable()
    for _ in range(2):
        seen = Observation("export")
        made = DeltaFrame(spark.range(3).observe(seen, F.count(F.lit(1)).alias("rows")), table)
        assert write_table(made.frame, "delta", "s3a://lake/orders", "append", {}, None) is None
        told: list[dict[str, Any]] = []
        waiting = threading.Thread(target=lambda seen=seen, told=told: told.append(seen.get), daemon=True)
        waiting.start()
        waiting.join(20)
        assert told == [{"rows": 3}]
    assert sorted(table.rows) == [0, 1, 2]

    monkeypatch.setenv("SLATE_JOB", "7f1f4b5e-0000-4000-8000-000000000002")
    made = DeltaFrame(spark.range(3), table)
    write_table(made.frame, "delta", "s3a://lake/orders", "append", {"mergeSchema": "true"}, None)
    assert sorted(table.rows) == [0, 0, 1, 1, 2, 2], "another job has rows of its own to add"
