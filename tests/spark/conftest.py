"""Real Spark for tests: one session of this process for all, and databases for it to read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTES = "SLATE_TEST_NOTES"
"""The variable that names a folder in which functions that run in workers leave notes for tests."""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    # Workers that stay warm between tests, and forget nothing that a test might need to see cold.
    "spark.python.worker.reuse": "true",
    "spark.log.level": "ERROR",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}


def start_session(master: str, name: str, folder: Path, **more: str) -> SparkSession:
    """A new session with our data source. Python workers are of this environment, wherever they run."""
    from pyspark.sql import SparkSession

    import slate_engine.spark

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault(NOTES, str(folder))
    folder.mkdir(exist_ok=True)
    # What Spark writes down about its work is looked through for secrets.
    places = {
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder),
        "spark.eventLog.dir": f"file://{folder}",
    }
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**SETTINGS, **places, **more}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    slate_engine.spark.register(session)
    return session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """``local[2]``, for all tests that do not break it."""
    session = start_session("local[2]", "slate-tests", tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
