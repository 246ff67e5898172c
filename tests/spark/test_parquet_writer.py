"""The sink of a Parquet table as Spark's driver calls it, without Spark."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from slate_engine.spark.parquet.commit import Mode
from slate_engine.spark.parquet.encoding import Encoder
from slate_engine.spark.parquet.folder import Folder
from slate_engine.spark.parquet.layout import Layout
from slate_engine.spark.parquet.writing import (
    FolderSink,
    FolderWriter,
    Intent,
    TableReport,
    Written,
    stage,
    write_folder,
)
from slate_engine.store.files import FileStore

SCHEMA = StructType([StructField("id", LongType())])


def prepared(table: Path, job: str, ids: list[int], report: Path) -> tuple[FolderWriter, Written]:
    """A write of the table anew whose only task is done."""

    async def work() -> tuple[FolderWriter, Written]:
        intent = Intent(Folder(table.as_uri()), Mode.OVERWRITE, Layout(), job, str(report))
        async with intent.folder.opened() as (store, runtime):
            encoder = Encoder(iter([pa.record_batch({"id": ids})]), SCHEMA, intent.layout)
            return FolderWriter(intent, SCHEMA), Written(0, await stage(store, runtime, encoder, job, 0), {"put": 1})

    return asyncio.run(work())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """One that is there already."""
    folder = tmp_path / "table"
    folder.mkdir()
    writer, written = prepared(folder, "old", [1], tmp_path / "old.json")
    writer.commit([written])
    assert ids_of(folder) == [1]
    return folder


def ids_of(table: Path) -> list[int]:
    return sorted(id for path in table.glob("*.parquet") for id in pq.read_table(path)["id"].to_pylist())


def test_a_write_says_what_it_has_done(table: Path, tmp_path: Path) -> None:
    writer, written = prepared(table, "new", [2, 3], tmp_path / "report")
    writer.commit([written, None])
    assert ids_of(table) == [2, 3]
    assert pq.read_table(table)["id"].to_pylist() == [2, 3], "other readers do not look at the marker"
    told = json.loads((tmp_path / "report").read_text())
    assert (told["files"], told["bytes"]) == (1, (table / "part-00000-new.parquet").stat().st_size)
    assert told["requests"]["put"] >= 1


def test_a_report_that_cannot_be_written_is_noticed_before_the_commit(table: Path, tmp_path: Path) -> None:
    writer, written = prepared(table, "new", [2], tmp_path / "no" / "such" / "folder")
    with pytest.raises(FileNotFoundError):
        writer.commit([written])
    assert ids_of(table) == [1]
    writer.abort([written])
    assert ids_of(table) == [1]
    assert not list(table.glob("_slatekeeper/new/*"))


@pytest.mark.parametrize("broken", ["report", "close"])
def test_a_write_that_is_committed_has_not_failed(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    async def torn(*_: Any) -> None:
        raise RuntimeError("connection torn")

    writer, written = prepared(table, "new", [2], tmp_path / "report")
    with monkeypatch.context() as patch:
        if broken == "report":
            patch.setattr(Path, "write_text", full)
        else:
            patch.setattr(FileStore, "close", torn)
        writer.commit([written])
    assert "the table is complete, but" in caplog.text
    assert bool((tmp_path / "report").read_text()) == (broken == "close")
    # Its process may be killed before it answers.
    writer.abort([written])
    assert ids_of(table) == [2]


def test_what_is_wrong_before_the_commit_is_told(table: Path, tmp_path: Path) -> None:
    writer, written = prepared(table, "new", [2], tmp_path / "report")
    (table / written.staged[0].key).unlink()
    with pytest.raises(ExceptionGroup):
        writer.commit([written])
    writer.abort([written])
    assert ids_of(table) == [1]


@pytest.mark.parametrize(
    ("told", "expected"),
    [('{"files": 1, "bytes": 2, "requests": {}}', TableReport(1, 2, {})), ("", None), ('{"files": 1, "by', None)],
)
def test_a_write_without_a_report_is_done_as_well(tmp_path: Path, told: str, expected: TableReport | None) -> None:
    """Spark says that it is; this one does nothing but leave a report."""
    sinks: list[type[FolderSink]] = []

    def save() -> None:
        Path(sinks[0].intent.report).write_text(told)

    writer = SimpleNamespace(format=lambda _: writer, mode=lambda _: writer, save=save)
    session = SimpleNamespace(dataSource=SimpleNamespace(register=sinks.append))
    frame = cast(DataFrame, SimpleNamespace(sparkSession=session, write=writer))
    assert write_folder(frame, Folder(tmp_path.as_uri()), Mode.NEW, Layout()) == expected
