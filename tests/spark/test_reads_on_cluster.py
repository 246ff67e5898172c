"""Reads on a cluster of two workers, each with an executor in a process of its own, one of which is killed meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from slate_engine.admin.checkpoints import list_checkpoints
from tests.spark.databases import write_layers

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROWS = 3 * 4000

APPLICATION = """
import json, sys
from pathlib import Path
from tests.spark.conftest import start_session
from tests.spark.databases import Story
folder = Path(sys.argv[1])
spark = start_session(
    "local-cluster[2,1,512]", "killed", folder / "spark", **{"spark.executor.memory": "512m", "spark.task.maxFailures": "8"}
)
frame = spark.read.format("slatedb").options(
    **Story(folder / "db").options, partitionBytes="1m", valueFormat="tests.spark.test_reads_on_cluster:slowly",
    valueSchema="BINARY",
).load()
print(json.dumps(sorted([row.key.hex(), len(row.value), row.seq] for row in frame.collect())))
spark.stop()
"""


def slowly(column: Any) -> Any:
    """A decoder that leaves a note of who is at work, and gives the test time to come."""
    Path(os.environ["SLATE_TEST_NOTES"], f"worker-{os.getpid()}").touch()
    time.sleep(0.5)
    return column


def executors(application: psutil.Process) -> list[psutil.Process]:
    return [each for each in application.children(recursive=True) if is_executor(each)]


def is_executor(process: psutil.Process) -> bool:
    try:
        return process.name() == "java" and "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False  # it has ended since, or its parent has not taken note of its end yet


def test_a_killed_executor_costs_time_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    notes = tmp_path / "notes"
    notes.mkdir()
    story = asyncio.run(write_layers(tmp_path / "db", 3, ROWS // 3, 2000))
    run = [sys.executable, "-c", APPLICATION, str(tmp_path)]
    environment = {**os.environ, "SLATE_TEST_NOTES": str(notes), "PYTHONPATH": os.getcwd()}
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as started:
        try:
            application = psutil.Process(started.pid)
            victim = _one_at_work(application, notes)
            os.kill(victim, signal.SIGKILL)
            output, _ = started.communicate(timeout=500)
        except BaseException:
            started.kill()
            raise
    assert started.returncode == 0
    found = json.loads(output)
    assert found == [[(b"%08d" % i).hex(), 2000, i + 1] for i in range(ROWS)]
    assert len(list(notes.iterdir())) >= 3, "the work of the killed one was done again, by another worker"
    left = asyncio.run(list_checkpoints(story.files()))
    assert [each.name for each in left] == ["c"], "the checkpoint of the read is gone"


def _one_at_work(application: psutil.Process, notes: Path) -> int:
    """An executor whose Python worker is reading."""
    until = time.monotonic() + 400
    while time.monotonic() < until:
        working = {int(each.name.removeprefix("worker-")) for each in notes.iterdir()}
        for executor in executors(application):
            with contextlib.suppress(psutil.NoSuchProcess):
                if working & {child.pid for child in executor.children(recursive=True)}:
                    return int(executor.pid)
        time.sleep(0.1)
    raise AssertionError("no executor began to read")
