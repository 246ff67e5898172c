"""Reads of states, without Spark: databases of the original, of every shape, and how little they ask of the store."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, LessThan
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint
from slate_engine.errors import InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import ALL
from slate_engine.lsm.compaction.options import MergeOptions
from slate_engine.lsm.table import Table
from slate_engine.spark.holding import Keeper
from slate_engine.spark.load.commit import commit_load
from slate_engine.spark.merging import MergeTask, merge_range
from slate_engine.spark.options import Location
from slate_engine.spark.reading import State, pulled
from slate_engine.state.compactions import Compaction, CompactionStatus, TieredSpec
from slate_engine.store.metrics import StoreMetrics
from tests.spark.databases import Story, pairs, read, write_layers
from tests.spark.loads import begun, built

DATA = Path(__file__).parents[1] / "data"
EXPECTED = sorted(path.stem for path in (DATA / "expected").glob("*.json"))
KEY = ("key",)


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    made = Keeper()
    yield made
    made.close()


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample databases where checkpoints can be made."""
    folder = tmp_path_factory.mktemp("samples") / "store"
    shutil.copytree(DATA / "store", folder)
    return folder


@pytest.mark.parametrize("name", EXPECTED)
async def test_databases_of_the_original(name: str, samples: Path, keeper: Keeper) -> None:
    """Clones, unions, segments, projections, codecs, a log that was not flushed, a checkpoint by its name."""
    path, _, checkpoint = name.partition("@")
    options = {"url": f"file://{samples}", "path": path, "partitionBytes": "32k"}
    options["mergeOperator"] = "tests.interop.history:Concat"
    if checkpoint:
        options["checkpoint"] = checkpoint
    table = await read(options, keeper=keeper.address, id=uuid4())
    expected = json.loads((DATA / "expected" / f"{name}.json").read_text())
    found = [
        [row["key"].hex(), row["value"].hex(), row["seq"], row["create_ts"], row["expire_ts"]]
        for row in table.to_pylist()
    ]
    assert found == [row[:5] for row in expected]


async def test_merge_operands_need_their_operator(samples: Path, keeper: Keeper) -> None:
    options = {"url": f"file://{samples}", "path": "main"}
    with pytest.raises(InvalidError, match=r'option\("mergeOperator"'):
        await read(options, keeper=keeper.address, id=uuid4())
    keys = await read({**options, "columns": "key"}, keeper=keeper.address, id=uuid4())
    assert len(keys) == len(json.loads((DATA / "expected" / "main.json").read_text()))


@pytest.fixture
async def story(tmp_path: Path) -> Story:
    """Five thousand keys in three layers, kept as ``c``."""
    made = Story(tmp_path)
    await made.write({b"k%05d" % i: b"old" * 100 for i in range(5000)})
    await made.compact()
    await made.write({b"k%05d" % i: b"new" for i in range(0, 5000, 7)})
    await made.write({b"k%05d" % i: None for i in range(0, 5000, 11)}, flush=False)
    await made.keep("c")
    return made


async def test_shares_of_any_size_give_the_same_rows(story: Story) -> None:
    for size in ("1k", "64k", "128m"):
        table = await read({**story.options, "checkpoint": "c", "partitionBytes": size})
        assert pairs(table) == story.kept["c"]


async def test_columns_are_those_that_were_asked_for(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    original = Table.rows

    async def watching(self: Table, first: int, last: int, *, values: bool = True) -> Any:
        seen.append(values)
        return await original(self, first, last, values=values)

    monkeypatch.setattr(Table, "rows", watching)
    table = await read({**story.options, "checkpoint": "c", "columns": "seq,key"})
    assert table.column_names == ["seq", "key"]
    assert table["key"].to_pylist() == sorted(story.kept["c"])
    assert seen
    assert not any(seen), "values are not even decoded"
    with pytest.raises(InvalidError, match="there is no column 'val'"):
        await read({**story.options, "checkpoint": "c", "columns": "val"})


@pytest.mark.parametrize(
    ("options", "type", "advice"),
    [
        ({}, LongType(), "column value is BINARY here, and the schema says BIGINT: choose another valueFormat"),
        ({}, StringType(), "the schema says STRING"),
        ({"valueFormat": "utf8"}, BinaryType(), "column value is STRING here, and the schema says BINARY"),
        ({"valueFormat": "int64"}, TimestampType(), "the schema says TIMESTAMP"),
        (
            {"valueFormat": "uint64"},
            DecimalType(20, 2),
            r"is DECIMAL\(20,0\) here, and the schema says DECIMAL\(20,2\)",
        ),
        ({"valueFormat": "json", "valueSchema": "n INT"}, IntegerType(), "the schema says INT"),
    ],
)
async def test_a_schema_does_not_reinterpret(
    story: Story, options: dict[str, str], type: DataType, advice: str
) -> None:
    schema = StructType([StructField("key", BinaryType()), StructField("value", type)])
    with pytest.raises(InvalidError, match=advice):
        await read({**story.options, "checkpoint": "c", **options}, schema=schema)


async def test_the_numbers_of_a_schema_are_numbers(story: Story) -> None:
    for name, type in (("seq", DoubleType()), ("create_ts", TimestampType()), ("expire_ts", IntegerType())):
        with pytest.raises(InvalidError, match=f"column {name} is BIGINT here, and .* cast the column"):
            await read({**story.options, "checkpoint": "c"}, schema=StructType([StructField(name, type)]))
    right = StructType([StructField("seq", LongType(), False), StructField("key", BinaryType())])
    assert len(await read({**story.options, "checkpoint": "c"}, schema=right)) == len(story.kept["c"])


async def test_a_database_made_again_at_the_same_place_is_another_one(tmp_path: Path) -> None:
    """The worker that has read the first one goes on living, and the numbers of manifests begin anew."""
    for value in (b"1", b"2"):
        story = Story(tmp_path)
        files = story.files()
        intent = await begun(files)
        await commit_load(files, intent, [await built(files, intent, 0, {b"a": value})])
        await story.keep("c")
        assert pairs(await read({**story.options, "checkpoint": "c"})) == {b"a": value}
        shutil.rmtree(tmp_path / "db")


async def test_a_compaction_of_a_database_made_again_is_of_that_one(tmp_path: Path) -> None:
    """The same for a worker of Spark's that has merged a part of the first one."""
    for rows in (1, 2):
        story = Story(tmp_path)
        files = story.files()
        intent = await begun(files)
        values = {b"%d" % key: b"1" for key in range(rows)}
        await commit_load(files, intent, [await built(files, intent, 0, values)])
        held = await create_checkpoint(files, CheckpointOptions(name="spark compaction"))
        job = Compaction(Ulid.new(files.runtime), TieredSpec((), (0,), 0), CompactionStatus.RUNNING)
        task = MergeTask(
            Location(story.url, "db"), "", held.manifest_id, str(held.id), job, ALL, 0, MergeOptions(), 64 << 20
        )
        assert (await asyncio.to_thread(merge_range, task)).rows_written == rows
        shutil.rmtree(tmp_path / "db")


async def test_what_a_store_is_opened_with_tells_it_from_another_but_not_what_that_was() -> None:
    def life(**options: str) -> tuple[str, str]:
        return State(Location("s3://b", "db", store_options=options), 7, 9, "", "c").life

    one, other = life(endpoint="http://one", secret_access_key="hush-hush"), life(endpoint="http://other")
    assert one != other
    assert one == life(secret_access_key="hush-hush", endpoint="http://one")
    assert "hush" not in repr(one)


async def test_filters_narrow_what_is_read(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[int] = []
    original = Table.rows

    async def counting(self: Table, first: int, last: int, **how: Any) -> Any:
        blocks.append(last - first)
        return await original(self, first, last, **how)

    monkeypatch.setattr(Table, "rows", counting)
    options = {**story.options, "checkpoint": "c"}
    expected = story.kept["c"]
    cases: list[tuple[list[Any], int]] = [
        ([EqualTo(KEY, b"k00001")], 4),
        ([EqualTo(KEY, b"nope")], 0),
        ([In(KEY, (b"k00001", b"k02500", b"nope"))], 8),
        ([GreaterThanOrEqual(KEY, b"k00100"), LessThan(KEY, b"k00110")], 6),
    ]
    for filters, most in cases:
        blocks.clear()
        found = pairs(await read(options, filters=filters))
        assert found == {
            key: value
            for key, value in expected.items()
            if (isinstance(filters[0], EqualTo) and key == filters[0].value)
            or (isinstance(filters[0], In) and key in filters[0].value)
            or (len(filters) == 2 and b"k00100" <= key < b"k00110")
        }
        assert sum(blocks) <= most
    blocks.clear()
    assert len(await read(options)) == len(expected)
    assert sum(blocks) > 300, "the whole database is many more blocks than that"


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({"keys": '["00020000"]'}, 0.03),
        ({"keys": '["00000001", "00019999", "nope"]'}, 0.05),
        ({"start": "00020000", "end": "00020400"}, 0.03),
        ({"prefix": "000200"}, 0.03),
        ({"prefix": b"000200".hex(), "keyEncoding": "hex"}, 0.03),
    ],
)
async def test_options_that_name_keys_read_few_bytes(tmp_path: Path, asked: dict[str, str], most: float) -> None:
    """Of 42 MB in four overlapping SSTs, planning and reading together. A request is 4 MB where there is so much."""
    story = await write_layers(tmp_path, 4, 10_000, 1000)
    before = bytes_read()
    assert pairs(await read({**story.options, "checkpoint": "c", **asked}))
    assert bytes_read() - before <= most * size_of(tmp_path)


def bytes_read() -> float:
    """What this process has had from all stores."""
    return sum(child._value.get() for child in StoreMetrics.of().read._metrics.values())


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.sst"))


async def test_requests_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Overlapping SSTs of 10 MB each: every one is fetched in pieces of 4 MB or more, but for its rest."""
    story = await write_layers(tmp_path, 3, 2000, 5000)
    asked: list[int] = []
    original = Table.rows

    async def counting(self: Table, first: int, last: int, **how: Any) -> Any:
        map = await self.blocks()
        if last > first:
            asked.append(int(map.ends[last - 1] - map.starts[first]))
        return await original(self, first, last, **how)

    monkeypatch.setattr(Table, "rows", counting)
    assert len(await read({**story.options, "checkpoint": "c"})) == 6000
    # The first part is small, because a limit may stop the read behind it; each SST has a rest.
    large = [size for size in asked if size >= 4 << 20]
    assert sum(large) > sum(asked) * 0.6
    assert len(asked) <= 3 * 4


async def test_who_stops_early_leaves_the_rest_unread(tmp_path: Path) -> None:
    made: list[int] = []
    closed: list[bool] = []

    async def numbers() -> Any:
        try:
            for i in range(1000):
                made.append(i)
                yield i
        finally:
            closed.append(True)

    taken = pulled(numbers())
    assert [next(taken) for _ in range(3)] == [0, 1, 2]
    taken.close()  # type: ignore[attr-defined]
    assert len(made) < 10
    assert closed == [True]


MEASURE = """
import sys
from tests.spark.databases import peak_mib
from tests.spark.test_reading import read_in_bulk
read_in_bulk(sys.argv[1], sys.argv[2])
print(peak_mib())
"""


def read_in_bulk(url: str, memory: str) -> None:
    import asyncio

    asyncio.run(
        read({"url": url, "path": "db", "checkpoint": "c", "partitionBytes": "1t", "memoryBytes": memory}, drop=True)
    )


@pytest.mark.spark
async def test_memory_is_bounded_by_the_setting_not_by_the_share(tmp_path: Path) -> None:
    """One share of 120 MB in overlapping layers, read with 16 MB: only a fraction of it is ever in memory."""
    large, small = tmp_path / "large", tmp_path / "small"
    for folder, rows in ((large, 30_000), (small, 100)):
        folder.mkdir()
        await write_layers(folder, 4, rows, 1000)

    def peak(folder: Path) -> int:
        run = [sys.executable, "-c", MEASURE, f"file://{folder}", "16m"]
        return int(subprocess.run(run, capture_output=True, check=True, text=True, timeout=120).stdout)

    assert peak(large) - peak(small) < 40
