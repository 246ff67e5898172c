"""Credentials that are options of a frame: whatever Spark writes down of it, on disk or for people, does not show them."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import slate_engine.spark
from slate_engine.spark.options import HADOOP
from slate_engine.spark.redaction import PATTERN, hide_secrets, secret_names
from slate_engine.store.options import OPTIONS
from tests.servers.versitygw import ACCESS_KEY, SECRET_KEY, VersityGW
from tests.spark.conftest import NOTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

NAMES = [*secret_names(), "store.fsspec.password", "Store.Access_Key_Id"]


def written_down() -> str:
    """The event log, which is also all that the history server and the SQL page of the UI know."""
    return "".join(file.read_text() for file in Path(os.environ[NOTES]).rglob("events_*"))


def shown(frame: DataFrame) -> str:
    """What people may look at."""
    execution = frame._jdf.queryExecution()
    mode = frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")  # type: ignore[union-attr]
    return str(execution.toString()) + str(execution.explainString(mode))


def test_all_names_of_secrets_are_known() -> None:
    secret = {option.name for option in OPTIONS if option.secret}
    assert {f"store.{name}" for name in secret} <= set(NAMES)
    assert {name for name, ours in HADOOP.items() if ours in secret} <= set(NAMES)
    assert "fs.azure.account.key" in NAMES
    assert "store.aws_secret_access_key" in NAMES
    assert "store.region" not in NAMES


def test_no_secret_is_in_a_plan_or_in_the_event_log(spark: SparkSession) -> None:
    """Frames, views, writes and streams, none of which can be carried out: the store does not know the option."""
    values: dict[str, str] = {}
    rows = spark.createDataFrame([("x", "1")], "key string, value string")
    for number, name in enumerate(NAMES):
        secret = values[name] = f"hush{number:02d}hush"
        # A store of another service refuses the option before it asks anybody.
        url = (
            "az://container"
            if re.search("aws|s3a|access_key_id|session|secret_access", name.lower())
            else "s3://bucket"
        )
        options = {"url": url, "path": "db", "checkpoint": "c", name: secret}
        frame = spark.read.format("slatedb").options(**options).load()
        frame.createOrReplaceTempView("hidden")
        assert secret not in shown(frame), name
        plans = spark.sql("explain extended select key from hidden").collect()
        assert secret not in str(plans), name
        if number % 4:
            continue  # what follows takes a process of its own each time, and shows options in the same way for all
        with contextlib.suppress(Exception):
            frame.write.format("noop").mode("overwrite").save()
        with contextlib.suppress(Exception):
            rows.write.format("slatedb").mode("append").options(url=url, path="db", **{name: secret}).save()
        with contextlib.suppress(Exception):
            spark.sql(
                f"create or replace temporary view u using slatedb options (url '{url}', path 'db', `{name}` '{secret}')"
            )
    events = written_down()
    assert "hidden" in events
    assert [name for name, value in values.items() if value in events] == []


def test_what_works_shows_no_secret_either(spark: SparkSession, tmp_path: Path) -> None:
    with VersityGW(tmp_path / "s3") as server:
        server.make_bucket("bucket")
        options = {"url": "s3://bucket", "path": "db"}
        options |= {f"store.{name}": value for name, value in server.options().items()}
        assert ACCESS_KEY in options.values()
        try:
            rows = spark.createDataFrame([("x", "1")], "key string, value string")
            rows.write.format("slatedb").mode("append").options(**options).save()
            frame = spark.read.format("slatedb").options(**options).load()
            assert [bytes(row.key) for row in frame.collect()] == [b"x"]
            frame.createOrReplaceTempView("working")
            assert spark.sql("select count(*) from working").collect()[0][0] == 1
            stream = spark.readStream.format("slatedb").options(**options).load()
            sink = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "offsets"))
            query = sink.trigger(availableNow=True).start()
            query.awaitTermination(300)
            plans = query._jsq.explainInternal(True) + shown(frame)
        finally:
            slate_engine.spark.release(spark)
    for text in (plans, written_down()):
        assert ACCESS_KEY not in text
        assert SECRET_KEY not in text


def test_what_the_user_hides_stays_hidden(spark: SparkSession) -> None:
    before = spark.conf.get(PATTERN)
    try:
        spark.conf.set(PATTERN, "(?i)diary")
        for _ in range(2):
            hide_secrets(spark)
        pattern = spark.conf.get(PATTERN)
        assert pattern is not None
        assert pattern.count("fs\\.azure\\.account\\.key") == 1
        matches = spark._jvm.java.util.regex.Pattern.compile(pattern).matcher  # type: ignore[union-attr]
        for name, hidden in {"my.Diary": True, "fs.azure.account.key": True, "path": False, "columns": False}.items():
            assert matches(name).find() is hidden, name
    finally:
        spark.conf.set(PATTERN, before or "")
