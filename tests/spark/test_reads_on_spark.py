"""Frames on a real Spark session of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slate_engine.spark
from slate_engine.admin.checkpoints import list_checkpoints
from slate_engine.errors import InvalidError
from tests.spark.conftest import NOTES
from tests.spark.databases import DATA, Story, upload, write_layers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def load(spark: SparkSession, story: Story, **options: str) -> DataFrame:
    return spark.read.format("slatedb").options(**story.options, **options).load()


def rows_of(frame: DataFrame) -> dict[bytes, bytes]:
    return {bytes(row.key): bytes(row.value) for row in frame.collect()}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Some layers, and a log, kept as ``c``; then more."""
    made = Story(tmp_path_factory.mktemp("story"))

    async def write() -> None:
        await made.write({b"k%05d" % i: b"%d" % i for i in range(4000)})
        await made.compact()
        await made.write({b"k%05d" % i: b"new" for i in range(0, 4000, 5)})
        await made.write({b"k%05d" % i: None for i in range(0, 4000, 7)}, flush=False)
        await made.keep("c")
        await made.write({b"later": b"x"})

    asyncio.run(write())
    return made


def test_a_checkpoint_and_the_present_state(spark: SparkSession, story: Story) -> None:
    kept = load(spark, story, checkpoint="c", partitionBytes="16k")
    assert kept.rdd.getNumPartitions() > 3
    assert kept.columns == ["key", "value", "seq", "create_ts", "expire_ts"]
    assert rows_of(kept) == story.kept["c"]
    assert rows_of(load(spark, story)) == story.rows


@pytest.mark.parametrize("name", ["main", "clone1", "seg", "proj"])
def test_databases_of_the_original(spark: SparkSession, name: str, tmp_path: Path) -> None:
    shutil.copytree(DATA / "store", tmp_path / "store")
    reader = spark.read.format("slatedb").option("url", f"file://{tmp_path}/store")
    frame = reader.option("mergeOperator", "tests.interop.history:Concat").load(name)
    expected = {
        bytes.fromhex(key): (bytes.fromhex(value), *rest[:3])
        for key, value, *rest in json.loads((DATA / "expected" / f"{name}.json").read_text())
    }
    found = {bytes(row.key): (bytes(row.value), row.seq, row.create_ts, row.expire_ts) for row in frame.collect()}
    assert found == expected


def test_filters(spark: SparkSession, story: Story) -> None:
    from pyspark.sql.functions import col

    whole = load(spark, story, checkpoint="c", partitionBytes="16k", keyFormat="utf8")
    expected = {key.decode(): value for key, value in story.kept["c"].items()}
    cases: list[tuple[Any, Any]] = [
        (col("key") == "k00001", lambda key: key == "k00001"),
        (col("key").isin("k00001", "k00002", "nope"), lambda key: key in ("k00001", "k00002")),
        ((col("key") >= "k00100") & (col("key") < "k00200"), lambda key: "k00100" <= key < "k00200"),
        (col("key").startswith("k001"), lambda key: key.startswith("k001")),
        ((col("key") > "k03990") & (col("value") != b"new"), lambda key: key > "k03990" and expected[key] != b"new"),
    ]
    for condition, wanted in cases:
        narrow = whole.where(condition)
        assert {row.key for row in narrow.collect()} == {key for key in expected if wanted(key)}
    assert whole.where(col("key") == "nope").count() == 0
    assert whole.count() == len(expected)


def test_options_that_name_keys_reach_the_partitions(spark: SparkSession, story: Story) -> None:
    asked: list[tuple[dict[str, str], Any]] = [
        ({"keys": json.dumps(["k00001", "k00002", "nope"])}, lambda key: key in (b"k00001", b"k00002")),
        ({"start": "k00100", "end": "k00200"}, lambda key: b"k00100" <= key < b"k00200"),
        ({"prefix": "k001"}, lambda key: key.startswith(b"k001")),
        ({"prefix": b"k001".hex(), "keyEncoding": "hex"}, lambda key: key.startswith(b"k001")),
    ]
    for options, wanted in asked:
        narrow = load(spark, story, checkpoint="c", partitionBytes="16k", **options)
        assert narrow.rdd.getNumPartitions() <= 3
        assert rows_of(narrow) == {key: value for key, value in story.kept["c"].items() if wanted(key)}


def test_columns(spark: SparkSession, story: Story) -> None:
    assert load(spark, story, checkpoint="c", columns="key").columns == ["key"]
    assert load(spark, story, checkpoint="c", columns="seq").count() == len(story.kept["c"])
    typed = (
        spark.read.format("slatedb").schema("seq BIGINT, key BINARY").options(**story.options, checkpoint="c").load()
    )
    assert {bytes(row.key) for row in typed.collect()} == set(story.kept["c"])


def test_decoded_columns(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(tmp_path)
    asyncio.run(story.write({struct.pack(">q", i): b'{"n": %d, "tags": ["t%d"]}' % (i, i) for i in (-3, 0, 7)}))
    frame = load(spark, story, keyFormat="int64", valueFormat="json", valueSchema="n INT, tags ARRAY<STRING>")
    assert frame.schema.simpleString().startswith("struct<key:bigint,value:struct<n:int,tags:array<string>>")
    found = {row.key: (row.value.n, row.value.tags) for row in frame.where("key < 5").collect()}
    assert found == {-3: (-3, ["t-3"]), 0: (0, ["t0"])}
    by_function = load(spark, story, valueFormat="tests.spark.test_decoding:reversed_text", valueSchema="STRING")
    assert {row.value[-2] for row in by_function.collect()} == {'"'}


def test_mistakes_reach_the_user(spark: SparkSession, story: Story) -> None:
    for options, message in (
        ({"checkpoint": "nope"}, "has no checkpoint 'nope'"),
        ({"colunms": "key"}, "there is no option 'colunms'"),
        ({"valueFormat": "int64"}, "it is not 8 bytes long"),
        ({"keys": "k00001"}, "must be a JSON array of keys"),
    ):
        with pytest.raises(Exception, match=message):
            load(spark, story, **options).collect()


def test_a_limit_stops_early(spark: SparkSession, tmp_path: Path) -> None:
    """Ten rows of 60,000 in one partition: most of it is never decoded."""
    story = asyncio.run(write_layers(tmp_path, 1, 60_000, 1000))
    notes = Path(os.environ[NOTES], "counted")
    frame = load(spark, story, checkpoint="c", valueFormat=f"{__name__}:counted", valueSchema="BINARY")
    assert len(frame.limit(10).collect()) == 10
    assert sum(map(int, notes.read_text().split())) < 40_000


def counted(column: Any) -> Any:
    """A decoder that writes down how many values it was given."""
    with Path(os.environ[NOTES], "counted").open("a") as file:
        file.write(f"{len(column)} ")
    return column


def test_a_frame_is_one_state(spark: SparkSession, tmp_path: Path) -> None:
    """Also joined with itself, also after more was written and compacted."""
    story = Story(tmp_path)
    asyncio.run(story.write({b"a": b"1", b"b": b"1"}))
    frame = load(spark, story)
    assert frame.count() == 2
    asyncio.run(story.write({b"b": None, b"c": b"2"}))
    assert frame.count() == 2
    assert frame.join(frame.select("key").alias("other"), "key").count() == 2
    assert load(spark, story).count() == 2
    assert rows_of(load(spark, story)) == {b"a": b"1", b"c": b"2"}


def test_checkpoints_are_held_until_they_are_released(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(tmp_path)
    asyncio.run(story.write({b"a": b"1"}))
    frame = load(spark, story)
    assert frame.count() == 1
    (held,) = asyncio.run(list_checkpoints(story.files()))
    assert held.name == "spark"
    assert held.expire_time_s is not None
    same = type(spark)(spark.sparkContext, spark._jsparkSession)
    slate_engine.spark.register(same)
    slate_engine.spark.release(same)
    assert asyncio.run(list_checkpoints(story.files())) == []
    with pytest.raises(InvalidError, match="this session holds no checkpoints"):
        slate_engine.spark.release(spark.newSession())


def test_scans_of_one_frame_never_see_several_states(spark: SparkSession, tmp_path: Path) -> None:
    """Spark makes the source of a frame with the user's own schema when it plans, for each scan of a query at once."""
    story = Story(tmp_path)
    asyncio.run(story.write({b"a": b"1", b"b": b"1"}))
    chosen = spark.read.format("slatedb").schema("key BINARY, seq BIGINT").options(**story.options).load()
    with pytest.raises(Exception, match=r"the present state cannot be read with a schema of yours.*\"columns\""):
        chosen.join(chosen.alias("other"), "key").count()
    assert asyncio.run(list_checkpoints(story.files())) == []
    frame = load(spark, story, columns="key,seq")
    assert frame.join(frame.alias("other"), "key").count() == 2
    assert len(asyncio.run(list_checkpoints(story.files()))) == 1
    slate_engine.spark.release(spark)


APPLICATION = """
import sys
from pathlib import Path
from tests.spark.conftest import start_session
from tests.spark.databases import Story
folder, how = Path(sys.argv[1]), sys.argv[2]
spark = start_session("local[1]", "application", folder / "spark")
frame = spark.read.format("slatedb").options(**Story(folder / "db").options).load()
assert frame.count() == 1
print(len(list((folder / "db" / "db" / "manifest").iterdir())))
if how == "stop":
    spark.stop()
"""


@pytest.mark.parametrize("how", ["stop", "exit"])
def test_the_end_of_an_application_deletes_its_checkpoints(tmp_path: Path, how: str) -> None:
    """Whether it stops its session, or just ends."""
    story = Story(tmp_path / "db")
    story.folder.mkdir()
    asyncio.run(story.write({b"a": b"1"}))
    manifests = len(list((story.folder / "db" / "manifest").iterdir()))
    run = [sys.executable, "-c", APPLICATION, str(tmp_path), how]
    ended = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True, timeout=600)
    assert int(ended.stdout) == manifests + 1, "a checkpoint was made"
    assert asyncio.run(list_checkpoints(story.files())) == []


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The options of a frame over the sample ``big`` on a real S3 server, in the names that Hadoop gives them."""
    from tests.servers.versitygw import ACCESS_KEY, REGION, SECRET_KEY, VersityGW

    with VersityGW(tmp_path) as server:
        server.make_bucket("bucket")
        asyncio.run(upload("big", server.options()))
        yield {
            "url": "s3://bucket",
            "path": "big",
            "fs.s3a.access.key": ACCESS_KEY,
            "fs.s3a.secret.key": SECRET_KEY,
            "fs.s3a.endpoint": server.endpoint.removeprefix("http://"),
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.path.style.access": "true",
            "store.probe": "false",
        }


def test_on_s3_with_credentials_that_nothing_shows(
    spark: SparkSession, s3: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        frame = spark.read.format("slatedb").options(**s3, partitionBytes="32k").load()
        found = {row.key.hex(): row.value.hex() for row in frame.where(frame.key > b"").collect()}
        frame.explain(extended=True)
        frame.explain(mode="formatted")
        plans = frame._jdf.queryExecution().toString()
        with pytest.raises(Exception, match="has no checkpoint 'nope'") as raised:
            spark.read.format("slatedb").options(**s3, checkpoint="nope").load().collect()
    finally:
        slate_engine.spark.release(spark)
    assert found == {key: value for key, value, *_ in json.loads((DATA / "expected" / "big.json").read_text())}
    events = "".join(file.read_text() for file in Path(os.environ[NOTES]).rglob("events_*"))
    assert "SparkListenerSQLExecutionStart" in events
    printed = capfd.readouterr().out
    assert "slatedb" in printed
    for text in (plans, str(raised.value), printed, events):
        assert s3["fs.s3a.access.key"] not in text
        assert s3["fs.s3a.secret.key"] not in text


def test_a_diff(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(tmp_path)

    async def write() -> None:
        await story.write({b"k%04d" % i: b"old" for i in range(1000)})
        await story.keep("before")
        await story.write({b"k0001": b"new", b"k0002": None, b"l": b"x"})
        await story.compact()
        await story.keep("after")

    asyncio.run(write())
    frame = load(spark, story, **{"from": "before", "to": "after"}, keyFormat="utf8", valueFormat="utf8")
    assert {(row.change, row.key, row.old_value, row.value) for row in frame.collect()} == {
        ("update", "k0001", "old", "new"),
        ("delete", "k0002", "old", None),
        ("insert", "l", None, "x"),
    }
    assert frame.where("key > 'k0001' and change = 'delete'").count() == 1
    assert frame.count() == 3
    some = load(spark, story, **{"from": "before", "to": "after", "prefix": "k"})
    assert some.count() == 2
