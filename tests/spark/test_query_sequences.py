"""Random sequences of queries on shared frames, beside the same queries on Parquet with the same rows.

A query's rows must not depend on the queries before it, nor on the other scans of its own plan. So frames stay in a pool:
whole ones, filtered ones, cached ones and views, and each step takes any of them, in any order, again and again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.databases import Story

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROWS = 400
STEPS = 24
POOL = 8


def key_of(number: int) -> str:
    return f"{'abcd'[number % 4]}:{number:04d}"


@dataclass(frozen=True)
class Both:
    """The same frame twice: over the database and over Parquet."""

    what: str
    ours: DataFrame
    theirs: DataFrame

    def made(self, what: str, change: Callable[[DataFrame], DataFrame]) -> Both:
        return Both(what.format(self.what), change(self.ours), change(self.theirs))

    def with_other(self, other: Both, what: str, change: Callable[[DataFrame, DataFrame], DataFrame]) -> Both:
        made = change(self.ours, other.ours), change(self.theirs, other.theirs)
        return Both(what.format(self.what, other.what), *made)


class Sequence:
    """The steps of one seed, and the frames that they share."""

    def __init__(self, seed: int, whole: list[Both]) -> None:
        self.random = random.Random(seed)
        self.whole = whole
        self.pool = list(whole)
        self.done: list[str] = []

    def step(self, number: int) -> None:
        steps = (self.rows, self.count, self.columns, self.limited, self.joined, self.united, self.cached, self.viewed)
        # Each kind comes in every sequence; the order and the frames are random.
        kind = steps[number] if number < len(steps) else self.random.choice(steps)
        self.compare(kind())

    def compare(self, both: Both) -> None:
        ours, theirs = (sorted(map(tuple, frame.collect()), key=repr) for frame in (both.ours, both.theirs))
        assert ours == theirs, f"{both.what}\nafter\n" + "\n".join(self.done)
        self.done.append(both.what)

    # --- steps -----------------------------------------------------------------------------------------------------

    def any(self) -> Both:
        return self.random.choice(self.pool)

    def filtered(self) -> Both:
        condition = self.condition(2)
        both = self.any().made(f"{{}} where {condition}", lambda frame: frame.where(condition))
        if len(self.pool) >= POOL:
            self.pool.remove(self.random.choice(self.pool[len(self.whole) :]))
        self.pool.append(both)
        return both

    def rows(self) -> Both:
        return self.random.choice([self.any, self.filtered])()

    def count(self) -> Both:
        return self.rows().made("count of ({})", lambda frame: frame.groupBy().count())

    def columns(self) -> Both:
        columns = self.random.choice([("key",), ("value",), ("length(value) AS n", "key")])
        return self.filtered().made(f"{columns} of ({{}})", lambda frame: frame.selectExpr(*columns))

    def limited(self) -> Both:
        most = self.random.choice([0, 1, 7, 150])
        return self.rows().made(f"first {most} of ({{}})", lambda frame: frame.orderBy("key").limit(most))

    def joined(self) -> Both:
        how = self.random.choice(["inner", "left", "left_anti", "full"])
        left = self.filtered().made("{}", lambda frame: frame.withColumnRenamed("value", "left"))
        right = self.any().made("{}", lambda frame: frame.withColumnRenamed("value", "right"))
        return left.with_other(right, f"({{}}) {how} join ({{}})", lambda a, b: a.join(b, "key", how))

    def united(self) -> Both:
        return self.filtered().with_other(self.filtered(), "({}) union ({})", lambda a, b: a.union(b))

    def cached(self) -> Both:
        both = self.filtered()
        for frame in (both.ours, both.theirs):
            frame.persist()
        # Another query on what lies below runs before the cache is filled.
        self.compare(self.any().made("count of ({}), with a cache to fill", lambda frame: frame.groupBy().count()))
        return both.made("cached ({})", lambda frame: frame.select("*"))

    def viewed(self) -> Both:
        narrow, wide = self.condition(1), self.condition(1)

        def query(frame: DataFrame) -> DataFrame:
            frame.createOrReplaceTempView("shared")
            return frame.sparkSession.sql(
                f"SELECT key, (SELECT count(*) FROM shared WHERE {narrow}) AS narrow, (SELECT count(*) FROM shared) AS whole"
                f" FROM shared WHERE key IN (SELECT key FROM shared WHERE {wide}) OR {narrow}"
            )

        return self.any().made(f"subqueries with {narrow} and {wide} on ({{}})", query)

    # --- conditions ------------------------------------------------------------------------------------------------

    def condition(self, depth: int) -> str:
        if depth and self.random.random() < 0.5:
            form = self.random.choice(["({} AND {})", "({} OR {})", "NOT ({})"])
            return form.format(*(self.condition(depth - 1) for _ in range(form.count("{}"))))
        low, high = sorted(self.random.choices(range(-5, ROWS + 5), k=2))
        a, b = key_of(low), key_of(high)
        forms = [
            f"key = '{a}'",
            f"key < '{b}'",
            f"key >= '{a}'",
            f"key BETWEEN '{min(a, b)}' AND '{max(a, b)}'",
            f"key IN ('{a}', '{b}', 'nope')",
            f"startswith(key, '{a[:4]}')",
            f"key LIKE '{b[:2]}%'",
            "key IS NOT NULL",
            f"value = 'v{low % 7}'",
            f"value < 'v{high % 7}'",
            f"(length(value) > 2 OR key > '{a}')",
        ]
        return self.random.choice(forms)


@pytest.fixture(scope="module")
def frames(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Both]:
    """A whole frame, and one over some of the keys, which is a load of its own."""
    folder: Path = tmp_path_factory.mktemp("sequences")
    story = Story(folder)

    async def write() -> None:
        await story.write({key_of(i).encode(): b"old" for i in range(ROWS)})
        await story.write({key_of(i).encode(): b"v%d" % (i % 7) for i in range(0, ROWS, 3)})
        await story.write({key_of(i).encode(): None for i in range(0, ROWS, 10)}, flush=False)
        await story.keep("c")

    asyncio.run(write())
    rows = {key.decode(): value.decode() for key, value in sorted(story.rows.items())}
    pq.write_table(pa.table({"key": list(rows), "value": list(rows.values())}), folder / "rows.parquet")
    source = spark.read.format("slatedb").options(**story.options, checkpoint="c", partitionBytes="8k")
    source = source.options(columns="key,value", keyFormat="utf8", valueFormat="utf8")
    theirs = spark.read.parquet(str(folder / "rows.parquet"))
    return [
        Both("whole", source.load(), theirs),
        Both("b to c", source.options(start="b:0100", end="d").load(), theirs.where("key >= 'b:0100' AND key < 'd'")),
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_rows_do_not_depend_on_earlier_queries(spark: SparkSession, frames: list[Both], seed: int) -> None:
    sequence = Sequence(seed, frames)
    try:
        for number in range(STEPS):
            sequence.step(number)
        assert frames[0].ours.count() == frames[0].theirs.count() > ROWS / 2
    finally:
        spark.catalog.clearCache()
