"""A stream of changes by real Spark: each once, across restarts, whatever a collector takes in between."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint
from slate_engine.format.columns import TOMBSTONE
from slate_engine.gc.collector import collect_once
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.spark.load import load
from slate_engine.state.manifest import Checkpoint
from slate_engine.store.open import open_store

pytestmark = pytest.mark.spark

AT_ONCE = Task(min_age=0)
GREEDY = GcOptions(manifests=AT_ONCE, wal=AT_ONCE, fences=AT_ONCE, compacted=AT_ONCE, compactions=AT_ONCE)

Changes = list[tuple[str, str | None]]


class Source:
    """A database in a folder, and a stream of it to files."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.url = folder.as_uri()

    @property
    def files(self) -> DatabaseFiles:
        return DatabaseFiles(open_store(self.url), "db", SystemRuntime())

    def write(self, *batches: dict[str, str | None], flush: bool = False) -> None:
        async def work() -> None:
            writer = await Writer.open(self.files, WriterOptions())
            for batch in batches:
                changes = [
                    Change(key.encode(), b"", TOMBSTONE) if value is None else Change(key.encode(), value.encode())
                    for key, value in batch.items()
                ]
                await writer.durable((await writer.write(changes)).seq)
            await writer.close(flush_memtable=flush)

        asyncio.run(work())

    def collect(self) -> None:
        asyncio.run(collect_once(self.files, GREEDY))

    def checkpoints(self) -> list[Checkpoint]:
        return list(asyncio.run(self.files.manifest()).checkpoints)

    def batches(self, **options: str) -> dict[int, Changes]:
        """Start the stream where it was and let it end by itself; what came, by the number of its batch."""
        source = self.spark.readStream.format("slatedb").options(
            url=self.url, path="db", keyFormat="utf8", valueFormat="utf8", **options
        )
        seen: dict[int, Changes] = {}

        def note(frame: DataFrame, batch: int) -> None:
            seen[batch] = sorted(((row.key, row.value) for row in frame.collect()), key=str)

        sink = source.load().writeStream.foreachBatch(note).trigger(availableNow=True)
        query = sink.option("checkpointLocation", str(self.folder / "offsets")).start()
        assert query.awaitTermination(300)
        return seen

    def forget_commit(self, batch: int) -> None:
        """As if the driver had died after the work of this batch, and before it wrote that down."""
        commits = self.folder / "offsets" / "commits"
        for file in (commits / str(batch), commits / f".{batch}.crc"):
            file.unlink(missing_ok=True)

    def run(self) -> Changes:
        """Start the stream where it was, take all that there is, stop it; all that has come so far."""
        source = self.spark.readStream.format("slatedb").options(
            url=self.url, path="db", keyFormat="utf8", valueFormat="utf8"
        )
        sink = source.load().writeStream.format("parquet").option("checkpointLocation", str(self.folder / "offsets"))
        query = sink.start(str(self.folder / "changes"))
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        rows = self.spark.read.parquet(str(self.folder / "changes")).collect()
        return sorted(((row.key, row.value) for row in rows), key=str)


def test_the_state_first_and_then_every_change_once(spark: SparkSession, tmp_path: Path) -> None:
    source = Source(spark, tmp_path)
    source.write({"a": "1", "b": "1"}, flush=True)
    source.write({"b": "2"})
    expected: Changes = [("a", "1"), ("b", "2")]
    assert source.run() == expected
    (held,) = source.checkpoints()
    assert (held.name or "").startswith("spark stream ")
    # Every version of the log comes, and a deletion as a row without a value.
    source.write({"c": "1"}, {"c": "2"}, {"a": None})
    expected += [("c", "1"), ("c", "2"), ("a", None)]
    assert source.run() == sorted(expected, key=str)
    # Nothing new, nothing twice.
    assert len(source.run()) == len(expected)
    (still_held,) = source.checkpoints()
    assert still_held.manifest_id > held.manifest_id


def test_a_stream_that_was_down_while_the_log_was_collected_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    source = Source(spark, tmp_path)
    source.write({"a": "1", "b": "1"})
    assert source.run() == [("a", "1"), ("b", "1")]
    source.write({"a": "2"}, {"a": "3"}, flush=True)
    source.write({"b": None, "c": "1"}, flush=True)
    source.write({"d": "1"}, flush=True)
    before = len(list((tmp_path / "db" / "wal").iterdir()))
    source.collect()
    assert len(list((tmp_path / "db" / "wal").iterdir())) < before
    # The net difference between the state that the stream held and the one of now.
    expected = [("a", "1"), ("b", "1"), ("a", "3"), ("b", None), ("c", "1"), ("d", "1")]
    assert source.run() == sorted(expected, key=str)
    source.write({"e": "1"})
    assert source.run() == sorted([*expected, ("e", "1")], key=str)


def test_rows_of_a_bulk_load_come_too(spark: SparkSession, tmp_path: Path) -> None:
    source = Source(spark, tmp_path)
    source.write({"a": "1", "b": "1"})
    source.run()
    load(spark.createDataFrame([("b", "2"), ("c", "2")], "key string, value string"), source.url, "db", takeOver="true")
    assert source.run() == [("a", "1"), ("b", "1"), ("b", "2"), ("c", "2")]


def test_a_batch_whose_commit_was_lost_is_the_same_batch_again(spark: SparkSession, tmp_path: Path) -> None:
    """One of the log and one that is a difference, each planned a second time after all that it could have been read from
    instead was collected."""
    source = Source(spark, tmp_path)
    source.write({"a": "1", "b": "1"}, flush=True)
    assert source.batches() == {0: [("a", "1"), ("b", "1")]}
    source.write({"a": "2"}, {"a": "3"})
    log = source.batches()
    assert log == {1: [("a", "2"), ("a", "3")]}
    source.write({"b": "2"}, {"b": "3"}, flush=True)
    source.collect()
    source.forget_commit(1)
    again = source.batches()
    assert again == {**log, 2: [("b", "3")]}
    source.write({"b": "4"}, {"c": "1"}, flush=True)
    source.collect()
    source.forget_commit(2)
    assert source.batches() == {2: [("b", "3")], 3: [("b", "4"), ("c", "1")]}
    assert source.batches() == {}
    assert len(source.checkpoints()) <= 2


def test_a_stream_from_a_checkpoint_that_ends_by_itself_begins_there_once(spark: SparkSession, tmp_path: Path) -> None:
    source = Source(spark, tmp_path)
    source.write({"a": "1"})
    asyncio.run(create_checkpoint(source.files, CheckpointOptions(name="past", whole_log=True)))
    source.write({"a": "2"}, {"b": "1"})
    assert source.batches(checkpoint="past")[0] == [("a", "1")]
    rest = [row for rows in source.batches(checkpoint="past").values() for row in rows]
    assert rest == [("a", "2"), ("b", "1")]
    source.write({"c": "1"})
    assert list(source.batches(checkpoint="past").values()) == [[("c", "1")]]
