"""Tables in stores, written and read by real Spark, beside those that Spark writes itself."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slate_engine.runtime import SystemRuntime
from slate_engine.spark import export
from slate_engine.spark.load import __main__ as loading
from slate_engine.spark.parquet.commit import Mode
from slate_engine.spark.parquet.folder import Folder
from slate_engine.spark.parquet.layout import Layout
from slate_engine.spark.parquet.writing import write_folder
from slate_engine.store.open import open_store
from tests.servers.versitygw import ACCESS_KEY, SECRET_KEY, VersityGW
from tests.spark.databases import Story
from tests.spark.test_jobs import done

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SHAPES = {
    "binary": {},
    "utf8": {"keyFormat": "utf8", "valueFormat": "utf8"},
    "json": {"keyFormat": "utf8", "valueFormat": "json", "valueSchema": "n INT, tags ARRAY<STRING>, d DECIMAL(20,0)"},
    "null": {"keyFormat": "int64", "valueFormat": "uint64", "malformed": "null"},
}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    made = Story(tmp_path_factory.mktemp("story"))
    values = {b"k%05d" % i: b'{"n": %d, "tags": ["t%d", null], "d": %d}' % (i, i, i) for i in range(3000)}
    asyncio.run(made.write({**values, b"12345678": b'{"x": 1}'}))
    asyncio.run(made.keep("c"))
    return made


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[VersityGW]:
    with VersityGW(tmp_path / "s3") as server:
        server.make_bucket("lake")
        yield server


def frame_of(spark: SparkSession, story: Story, **options: str) -> DataFrame:
    return spark.read.format("slatedb").options(**story.options, checkpoint="c", partitionBytes="16k", **options).load()


def parts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_rows_and_types_as_spark_writes(spark: SparkSession, story: Story, tmp_path: Path, shape: str) -> None:
    frame = frame_of(spark, story, **SHAPES[shape])
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    report = write_folder(frame, Folder(ours.as_uri()), Mode.NEW, Layout("zstd"))
    assert report is not None
    frame.write.parquet(str(theirs))
    found = spark.read.parquet(str(ours))
    assert found.schema == spark.read.parquet(str(theirs)).schema == frame.schema
    expected = spark.read.parquet(str(theirs)).orderBy("key").collect()
    assert found.orderBy("key").collect() == expected
    assert len(expected) == 3001
    tables = [pq.read_table(folder).sort_by("key") for folder in (ours, theirs)]
    assert tables[0].schema.equals(tables[1].schema)
    assert tables[0].equals(tables[1])
    files = [path for path in parts(ours) if path.suffix == ".parquet"]
    assert report.files == len(files) > 1
    assert report.bytes == sum(path.stat().st_size for path in files)
    assert [path.name for path in parts(ours)] == ["_SUCCESS", *(path.name for path in files)]
    assert pq.read_metadata(files[0]).row_group(0).column(0).compression == "ZSTD"


def test_a_task_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder((tmp_path / "t").as_uri())
    bad = F.when(F.col("id") == 999, F.raise_error(F.lit("no more"))).otherwise(F.col("id"))
    with pytest.raises(PySparkException, match="no more"):
        write_folder(spark.range(1000, numPartitions=4).select(bad.alias("id")), folder, Mode.NEW, Layout())
    assert parts(tmp_path / "t") == []
    write_folder(spark.range(0).select(F.col("id")), folder, Mode.NEW, Layout())
    assert spark.read.parquet(str(tmp_path / "t")).schema.simpleString() == "struct<id:bigint>"
    write_folder(spark.range(5), folder, Mode.APPEND, Layout())
    write_folder(spark.range(5, 7), folder, Mode.APPEND, Layout())
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "t")).collect()) == list(range(7))
    write_folder(spark.range(3), folder, Mode.OVERWRITE, Layout())
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "t")).collect()) == [0, 1, 2]


def test_out_to_s3_and_in_again(
    spark: SparkSession, story: Story, s3: VersityGW, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Explicit options, secrets among them: nothing that Spark writes down may hold them."""
    place = ["--url", story.url, "--path", "db", "--checkpoint", "c"]
    to = ["--to", "s3://lake/table"]
    for name, value in s3.options().items():
        to += ["--to-option", f"{name}={value}"]
    chosen = ["--prefix", "k0", "--columns", "value,key", "--end", "k00100"]
    out = done(capsys, export.JOB, *place, *to, *chosen, "--write", "compression=gzip")
    assert out["rows"] == 100
    assert out["files"] >= 1
    assert out["bytes"] == sum(len(key) + len(story.rows[key]) for key in (b"k%05d" % i for i in range(100)))
    assert export.JOB.main([*place, *to]) == 1
    assert "there is something at s3://lake/table already" in capsys.readouterr().err
    back = ["--url", (tmp_path / "again").as_uri(), "--path", "db", "--from", "s3://lake/table"]
    for name, value in s3.options().items():
        back += ["--from-option", f"{name}={value}"]
    assert done(capsys, loading.JOB, *back, "--read", "partitionBytes=1k")["rows"] == 100
    loaded = Story(tmp_path / "again")
    found = spark.read.format("slatedb").options(**loaded.options).load().collect()
    assert {bytes(row.key): bytes(row.value) for row in found} == {
        key: value for key, value in story.rows.items() if b"k00000" <= key < b"k00100"
    }
    events = "".join(file.read_text() for file in Path(os.environ["SLATE_TEST_NOTES"]).rglob("events_*"))
    assert "slate-parquet-" in events
    assert ACCESS_KEY not in events
    assert SECRET_KEY not in events


def test_prefixes_and_columns(
    spark: SparkSession, story: Story, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = ("--url", story.url, "--path", "db", "--checkpoint", "c", "--mode", "overwrite")

    def exported(*arguments: str) -> DataFrame:
        done(capsys, export.JOB, *place, "--to", (tmp_path / "t").as_uri(), *arguments)
        return spark.read.parquet(str(tmp_path / "t"))

    bytes_of_keys = exported("--prefix", "k0001", "--columns", "value")
    assert (bytes_of_keys.columns, bytes_of_keys.count()) == (["value"], 10)
    texts = exported("--prefix", "k0001", "--columns", "key,seq", "--read", "keyFormat=utf8", "--where", "value != ''")
    assert {row.key for row in texts.collect()} == {f"k0001{i}" for i in range(10)}
    some = exported("--keys", '["k00001", "nope"]', "--start", "k0", "--columns", "key")
    assert [bytes(row.key) for row in some.collect()] == [b"k00001"]
    failing = [*place, "--to", (tmp_path / "t").as_uri(), "--prefix", "1", "--read", "keyFormat=int64"]
    assert export.JOB.main(failing) == 1
    assert "prefix is for keys that are bytes or text" in capsys.readouterr().err


RETRIED = """
import sys
import time
from pathlib import Path
from pyspark.sql import functions as F
from slate_engine.spark.parquet.commit import Mode
from slate_engine.spark.parquet.folder import Folder
from slate_engine.spark.parquet.layout import Layout
from slate_engine.spark.parquet.writing import write_folder
from tests.spark.conftest import start_session
folder = Path(sys.argv[1])
spark = start_session("local[2,4]", "retried", folder / "spark", **{"spark.sql.execution.arrow.maxRecordsPerBatch": "100"})

def late(id):
    if id == 1999 and not (folder / "failed").exists():
        # What comes before it is on its way to the table.
        for _ in range(600):
            staged = len(list(folder.glob("table/_slatekeeper/*/00000-*.parquet")))
            if staged:
                break
            time.sleep(0.1)
        (folder / "failed").write_text(str(staged))
        raise ValueError("the first attempt fails")
    return f"{id:08d}" + "x" * 10_000  # more than the pipes between Spark and its workers hold

frame = spark.range(4000, numPartitions=2).select(F.udf(late, "string")("id").alias("id"))
write_folder(frame, Folder((folder / "table").as_uri()), Mode.NEW, Layout("none", part_bytes=1 << 20, group_bytes=1 << 19))
spark.stop()
"""


def test_a_task_that_is_repeated_adds_no_row_twice(tmp_path: Path) -> None:
    """Its first attempt has stored files already when it fails."""
    run = [sys.executable, "-c", RETRIED, str(tmp_path)]
    subprocess.run(run, env={**os.environ, "PYTHONPATH": os.getcwd()}, check=True, timeout=600)
    assert int((tmp_path / "failed").read_text()) > 0
    found = pq.read_table(tmp_path / "table")["id"].to_pylist()
    assert sorted(int(text[:8]) for text in found) == list(range(4000))
    assert not list(tmp_path.glob("table/_slatekeeper/*/*"))


# --- in a pod -----------------------------------------------------------------------------------------------------------

USER = """
import sys
from pyspark.sql import SparkSession
import slate_engine.spark
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
slate_engine.spark.register(spark)
print(spark.read.format("slatedb").load().count())
spark.stop()
"""


def in_pod(story: Story, folder: Path, arguments: list[str], **more: str) -> str:
    """What a program prints that is told everything by its environment."""
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SLATE_STORE": story.url,
        "SLATE_PATH": "db",
        "SLATE_CHECKPOINT": "c",
        "SLATE_STORE__OPTIONS__CAS": f"sqlite:///{folder}/transactions.db",
        "SLATE_REPORT": str(folder / "termination-log"),
        "AWS_ACCESS_KEY_ID": "of-the-database",
        "AWS_SECRET_ACCESS_KEY": "of-the-database",
        "AWS_SESSION_TOKEN": "of-the-database",
        **more,
    }
    ended = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, timeout=600, check=False)
    assert SECRET_KEY.encode() not in ended.stdout + ended.stderr
    assert ended.returncode == 0, ended.stderr.decode()[-3000:]
    return ended.stdout.decode()


def test_an_export_in_a_pod(story: Story, s3: VersityGW, tmp_path: Path) -> None:
    """The credentials of the table are another's than those of the database, and stand in the environment only."""
    events = tmp_path / "events"
    events.mkdir()
    arguments = ["-m", "slate_engine.spark.export", "--to", "s3://lake/out", "--conf", "spark.ui.enabled=false"]
    arguments += ["--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir={events.as_uri()}"]
    arguments += ["--conf", "spark.eventLog.compress=false"]
    for name in ("endpoint", "region", "allow_http"):
        arguments += ["--to-option", f"{name}={s3.options()[name]}"]
    sink = {"SLATE_SINK_AWS_ACCESS_KEY_ID": ACCESS_KEY, "SLATE_SINK_AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    in_pod(story, tmp_path, arguments, **sink)
    report: dict[str, Any] = json.loads((tmp_path / "termination-log").read_text())
    assert (report["job"], report["rows"], report["to"]) == ("export", 3001, "s3://lake/out")
    written = asyncio.run(_listed(s3))
    assert "out/_SUCCESS" in written
    assert not [key for key in written if "_slatekeeper" in key]
    told = "".join(file.read_text(errors="replace") for file in events.rglob("*") if file.is_file())
    assert "slate-parquet-" in told
    for secret in (SECRET_KEY, ACCESS_KEY, "of-the-database", "transactions.db"):
        assert secret not in told


async def _listed(server: VersityGW) -> list[str]:
    store = open_store("s3://lake", server.options(), runtime=SystemRuntime(), environment={})
    try:
        return [meta.key async for page in store.list("") for meta in page]
    finally:
        await store.close()


def test_a_program_of_the_user_needs_no_options(story: Story, tmp_path: Path) -> None:
    assert in_pod(story, tmp_path, ["-c", USER]).split()[-1] == "3001"
