"""The sink as Spark's driver calls it, without Spark."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.spark.load.building import Part, build_part
from slate_engine.spark.load.intent import begin
from slate_engine.spark.load.options import LoadOptions
from slate_engine.spark.load.report import LoadReport
from slate_engine.spark.load.writer import LoadWriter
from slate_engine.spark.options import Location
from slate_engine.store.files import FileStore
from slate_engine.store.open import open_store
from tests.spark.databases import Story
from tests.spark.loads import batch

ROWS: dict[bytes, bytes | None] = {b"a": b"1", b"b": b"2"}


def prepared(folder: Path, report: Path) -> tuple[LoadWriter, Part]:
    """A load whose only task is done."""

    async def work() -> tuple[LoadWriter, Part]:
        place = Location(folder.as_uri(), "db")
        files = DatabaseFiles(open_store(place.url), "db", SystemRuntime())
        intent = await begin(files, place, LoadOptions(report=str(report)))
        return LoadWriter(intent), await build_part(intent, 0, [batch(ROWS)], files.store, files.runtime)

    return asyncio.run(work())


def values(folder: Path) -> dict[bytes, bytes]:
    async def read() -> dict[bytes, bytes]:
        snapshot = await Story(folder).files().latest()
        found = [await snapshot.get(key) for key in ROWS]
        return {row.key: row.value for row in found if row is not None}

    return asyncio.run(read())


def test_a_load_says_what_it_has_done(tmp_path: Path) -> None:
    writer, part = prepared(tmp_path, tmp_path / "report")
    writer.commit([part])
    assert values(tmp_path) == ROWS
    assert LoadReport.read(str(tmp_path / "report")).rows == 2


def test_a_load_that_is_committed_has_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether its report cannot be written at last, or the store cannot be closed."""

    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    async def torn(*_: Any) -> None:
        raise RuntimeError("connection torn")

    for number, (owner, name, trouble) in enumerate([(LoadReport, "write", full), (FileStore, "close", torn)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        writer, part = prepared(folder, folder / "report")
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, trouble)
            writer.commit([part])
        assert values(folder) == ROWS
        assert "the load was committed, but its" in caplog.text
        if owner is FileStore:
            assert LoadReport.read(str(folder / "report")).rows == 2
        caplog.clear()


def test_a_report_that_cannot_be_written_is_noticed_before_the_commit(tmp_path: Path) -> None:
    writer, part = prepared(tmp_path, tmp_path / "no" / "such" / "folder")
    with pytest.raises(FileNotFoundError):
        writer.commit([part])
    assert not (tmp_path / "db" / "manifest").exists()
    writer.abort([part])
    assert not list((tmp_path / "db").rglob("*.sst"))


def test_what_is_wrong_before_the_commit_is_told(tmp_path: Path) -> None:
    writer, part = prepared(tmp_path, tmp_path / "report")
    next((tmp_path / "db" / "compacted").iterdir()).unlink()
    with pytest.raises(Exception, match="gone or cut short"):
        writer.commit([part])
    assert json.loads((tmp_path / "report").read_text() or "null") is None
