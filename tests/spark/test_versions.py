"""Which Spark may push filters down, and what happens where it must not."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import slate_engine.spark
from slate_engine.errors import InvalidError
from slate_engine.spark import probe, session, versions
from slate_engine.spark.versions import PUSHDOWN
from tests.spark.databases import Story

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.parametrize("version", ["4.1.0", "4.1.4", "4.2.1", "4.3.0", "4.3.7", "4.3.0-SNAPSHOT"])
def test_a_version_that_mixes_up_filters_is_not_even_asked(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "keeps_filters_apart", pytest.fail)
    spark: Any = SimpleNamespace(version=version)
    assert not versions.pushes(spark)


@pytest.mark.parametrize("version", ["4.4.0", "4.10.1", "5.0.0-preview1"])
@pytest.mark.parametrize("apart", [False, True])
def test_a_later_version_has_to_show_it(version: str, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "keeps_filters_apart", lambda spark: apart)
    spark: Any = SimpleNamespace(version=version)
    assert versions.pushes(spark) == apart


def test_where_no_plan_can_be_seen_nothing_is_shown() -> None:
    over_connect: Any = SimpleNamespace(version="5.0.0")
    assert not versions.pushes(over_connect)


def test_only_a_process_that_pushes_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    versions.refuse_pushdown()
    pushing: Any = SimpleNamespace(__spec__=SimpleNamespace(name=versions._PUSHING_PROCESS))
    for place in (versions._PUSHING_PROCESS, "__main__"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, place, pushing)
            with pytest.raises(InvalidError, match=f"{PUSHDOWN} is on"):
                versions.refuse_pushdown()


# --- on Spark ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    made = Story(tmp_path_factory.mktemp("story"))
    asyncio.run(made.write({b"k%04d" % i: b"%d" % i for i in range(1000)}))
    asyncio.run(made.keep("c"))
    return made


@pytest.fixture
def own(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of its own, and the one that Spark looks at: it asks the active one for sources and settings."""
    made = spark.newSession()
    # The one public call that makes a session the active one.
    made.createDataFrame([], "id INT")
    yield made
    keeper = session._keepers.get(session._id_of(made))
    if keeper is not None:
        keeper.close()
    spark.createDataFrame([], "id INT")


def load(spark: SparkSession, story: Story, **options: str) -> DataFrame:
    told = {**story.options, "checkpoint": "c", "keyFormat": "utf8", "partitionBytes": "4k", **options}
    return spark.read.format("slatedb").options(**told).load()


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("when", ["before", "after"])
def test_pushdown_that_is_forced_is_refused(own: SparkSession, story: Story, when: str) -> None:
    """Whether the session had it on when it was made, or turns it on later; and nothing is wrong when it is off again."""
    if when == "before":
        own.conf.set(PUSHDOWN, "true")
    slate_engine.spark.register(own)
    own.conf.set(PUSHDOWN, "true")
    frame = load(own, story)
    assert frame.count() == 1000
    with pytest.raises(Exception, match=r"later queries, joins and subqueries .* silently lose rows.*\"prefix\" or"):
        frame.where("key = 'k0001'").count()
    with pytest.raises(Exception, match=f"{PUSHDOWN} is on"):
        frame.where("key > 'k0001' and value is not null").collect()
    own.conf.set(PUSHDOWN, "false")
    assert frame.where("key = 'k0001'").count() == 1
    assert frame.count() == 1000


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_nothing_turns_pushdown_on_by_itself(spark: SparkSession) -> None:
    assert spark.conf.get(PUSHDOWN) == "false"


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_probe_sees_what_this_spark_does(own: SparkSession) -> None:
    """It mixes up the scans of a frame. Frames of their own stand for a Spark that does not."""
    assert not probe.keeps_filters_apart(own)
    assert own.conf.get(PUSHDOWN) == "false", "as it was"
    own.conf.set(PUSHDOWN, "true")

    class Apart:
        """A frame whose every use is loaded for itself."""

        def __getattr__(self, name: str) -> Callable[..., DataFrame]:
            frame = own.read.format(probe.NAME).load()
            use: Callable[..., DataFrame] = getattr(frame, name)
            return use

    frame: Any = Apart()
    assert probe.is_apart(frame)


@pytest.fixture
def pushing(own: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """A session that pushes filters. It is right here only because each frame is used once."""
    monkeypatch.setattr(session, "pushes", lambda spark: True)
    slate_engine.spark.register(own)
    return own


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_where_filters_are_pushed_they_reach_the_partitions(pushing: SparkSession, story: Story) -> None:
    assert pushing.conf.get(PUSHDOWN) == "true"
    whole = load(pushing, story).rdd.getNumPartitions()
    assert whole > 3
    for condition, rows in (
        ("key = 'k0001'", 1),
        ("key in ('k0001', 'k0002', 'nope')", 2),
        ("key >= 'k0100' and key < 'k0110' and value != '105'", 9),
        ("startswith(key, 'k010')", 10),
        ("key = 'nope'", 0),
    ):
        narrow = load(pushing, story).where(condition)
        assert narrow.rdd.getNumPartitions() < whole
        assert narrow.count() == rows
    both = load(pushing, story, start="k0100").where("key < 'k0110'")
    assert both.count() == 10
