"""The jobs from their command lines: a database exported, loaded again, copied and compacted, each by real Spark."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slate_engine.errors import InvalidError
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.spark import compact, copy, export
from slate_engine.spark.jobs.running import Job
from slate_engine.spark.jobs.settings import COMMON, DATABASE, Setting, parse
from slate_engine.spark.load import __main__ as loading
from slate_engine.state.manifest import Manifest
from slate_engine.store.open import open_store
from tests.interop.original import Original
from tests.interop.style import Style

ROUNDS, KEYS = 4, 3000
EXPECTED = {b"key%06d" % key: b"%d" % max(r for r in range(ROUNDS) if key % (r + 1) == 0) * 50 for key in range(KEYS)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A database of ours with four SSTs of level 0 that overlap, and some rows in the log."""

    async def make() -> None:
        files = DatabaseFiles(open_store(tmp_path.as_uri()), "db", SystemRuntime())
        writer = await Writer.open(files, WriterOptions())
        for r in range(ROUNDS):
            keys = range(0, KEYS, r + 1)
            await writer.write([Change(b"key%06d" % key, b"%d" % r * 50) for key in keys])
            if r < ROUNDS - 1:
                await writer.flush_memtable()
        await writer.close()

    asyncio.run(make())
    return tmp_path


def rows_of(folder: Path, path: str = "db") -> dict[bytes, bytes]:
    return {row.key: row.value for row in asyncio.run(Original(folder, Style()).rows(path))}


def done(capsys: pytest.CaptureFixture[str], job: Job, *arguments: str) -> dict[str, Any]:
    """The summary of a job that went well."""
    code = job.main([*arguments, "--json"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    found: dict[str, Any] = json.loads(printed.out.splitlines()[-1])
    assert found["job"] == job.name
    assert found["seconds"] > 0
    assert found["request_cost_dollars"] > 0
    return found


def manifest_of(folder: Path, path: str) -> Manifest:
    files = DatabaseFiles(open_store(folder.as_uri()), path, SystemRuntime())
    return asyncio.run(files.manifest())


@pytest.mark.spark
def test_out_to_parquet_and_in_again(spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, url = str(folder / "table"), folder.as_uri()
    out = done(capsys, export.JOB, "--url", url, "--path", "db", "--to", table, "--read", "keyFormat=utf8")
    assert out["rows"] == KEYS
    assert out["requests_estimated"]
    assert {row.key.encode(): bytes(row.value) for row in spark.read.parquet(table).collect()} == EXPECTED
    config = folder / "job.yaml"
    config.write_text(f"url: {url}\npath: again\nfrom: {table}\nsink: {{codec: zstd, sstBytes: 64k}}\n")
    back = done(capsys, loading.JOB, "--config", str(config), "--partitions", "2")
    assert back["rows"] == KEYS
    assert rows_of(folder, "again") == EXPECTED
    part = done(
        capsys,
        export.JOB,
        *("--url", url, "--path", "again", "--to", table, "--mode", "overwrite"),
        *("--start", "key000010", "--end", "key000020", "--where", "seq > 0"),
    )
    assert part["rows"] == 10


@pytest.mark.spark
def test_a_copy_elsewhere(spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "other").mkdir()
    target = (folder / "other").as_uri()
    where = (
        "--url",
        folder.as_uri(),
        "--path",
        "db",
        "--to-url",
        target,
        "--to-path",
        "copy",
        "--objects-per-task",
        "2",
    )
    found = done(capsys, copy.JOB, *where)
    assert found["ssts"] == ROUNDS - 1
    assert rows_of(folder / "other", "copy") == EXPECTED
    assert not manifest_of(folder, "db").checkpoints
    assert copy.JOB.main([*where]) == 1
    assert "there is a database already" in capsys.readouterr().err


@pytest.mark.spark
def test_a_major_compaction(spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--url", folder.as_uri(), "--path", "db", "--ranges", "3", "--sst-bytes", "64k")
    found = done(capsys, compact.JOB, *where)
    assert found["compactions"] == 1
    assert found["rows_kept"] == KEYS
    tree = manifest_of(folder, "db").root
    assert (len(tree.l0), len(tree.runs)) == (0, 1)
    assert len(tree.runs[0].views) >= 3
    assert rows_of(folder) == EXPECTED
    assert done(capsys, compact.JOB, *where)["compactions"] == 0


@pytest.mark.spark
def test_a_job_that_cannot_be_done_says_why_in_a_line(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--url", folder.as_uri(), "--path", "db"]
    assert export.JOB.main([*where, "--to", str(folder / "t"), "--format", "delta"]) == 1
    assert "this Spark session has no delta" in capsys.readouterr().err
    assert export.JOB.main([*where, "--to", str(folder / "t"), "--checkpoint", "nope"]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("export: database 'db' has no checkpoint 'nope'")


def test_settings_come_from_flags_before_the_file(tmp_path: Path) -> None:
    known = (*DATABASE, Setting("level", "how far", default="1", choices=("1", "2")), *COMMON)
    file = tmp_path / "job.yaml"
    file.write_text("url: s3://b\npath: a\nlevel: 2\njson: true\noption: {region: eu, endpoint: x}\n")
    found = parse("job", "", known, ["--config", str(file), "--path", "b", "--option", "region=us"])
    assert (found.text("url"), found.text("path"), found.text("level")) == ("s3://b", "b", "2")
    assert found.flag("json")
    assert found.pairs("option") == {"region": "us", "endpoint": "x"}
    assert found.source_options == {"url": "s3://b", "path": "b", "store.region": "us", "store.endpoint": "x"}
    assert "region" not in repr(found.location)
    for wrong, message in {
        "path: a": "--url is missing",
        "url: x\npath: a\nlevel: 3": "--level must be one of 1, 2",
        "url: x\npath: a\ncolour: red": "a setting 'colour', which this job has not",
        "url: x\npath: a\noption: red": "option in .* must be a mapping",
        "[1": "cannot be read",
    }.items():
        file.write_text(wrong)
        with pytest.raises(InvalidError, match=message):
            parse("job", "", known, ["--config", str(file)])


def test_a_file_says_what_it_says(tmp_path: Path) -> None:
    known = (*DATABASE, Setting("start", ""), Setting("checkpoint", ""), Setting("read", "", many=True), *COMMON)
    file = tmp_path / "job.yaml"
    file.write_text(
        'url: s3://b\npath: 0042\nstart: 1e3\ncheckpoint:\njson: "false"\n'
        'option: {region: on, endpoint: null, x: "null"}\nread: {a: 010, b: 2020-01-01}\n'
    )
    found = parse("job", "", known, ["--config", str(file)])
    assert (found.text("path"), found.text("start"), found.text("checkpoint")) == ("0042", "1e3", "")
    assert found.flag("json") is False
    assert found.pairs("option") == {"region": "on", "x": "null"}
    assert found.pairs("read") == {"a": "010", "b": "2020-01-01"}


def test_a_file_may_be_json_with_booleans_and_numbers(tmp_path: Path) -> None:
    known = (
        *DATABASE,
        Setting("worker", "", flag=True),
        Setting("min-bytes", ""),
        Setting("read", "", many=True),
        *COMMON,
    )
    file = tmp_path / "job.yaml"
    said = {"url": "s3://b", "path": "a", "worker": True, "min-bytes": "123", "json": True, "read": {"n": 5, "t": True}}
    for json_flag, expected in ((True, True), (False, False), ("true", True), ("False", False)):
        file.write_text(json.dumps({**said, "json": json_flag}))
        found = parse("job", "", known, ["--config", str(file)])
        assert found.flag("worker") is True
        assert found.flag("json") is expected
        assert found.number("min-bytes") == 123
        assert found.pairs("read") == {"n": "5", "t": "true"}
    for wrong, message in {
        "json: maybe": "json in .* must be true or false, and is 'maybe'",
        "path: [a, b]": "path in .* must be one value",
        "read: [a]": "read in .* must be a mapping",
        "read: {a: [b]}": "each entry of read in .* must be one value",
    }.items():
        file.write_text(f"url: x\n{wrong}")
        with pytest.raises(InvalidError, match=message):
            parse("job", "", known, ["--config", str(file)])
