"""Tasks that Spark runs twice at the same time: one of the two counts, whatever the other has written."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.store.open import open_store
from tests.interop.original import Original
from tests.interop.style import Style
from tests.servers.process import free_port
from tests.spark.on_cluster import ROWS
from tests.spark.test_killed_executors import on_cluster, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "1s",
}


@contextmanager
def process(log: Path, *arguments: str) -> Iterator[None]:
    """A part of a cluster, in a process group of its own, which ends with the test."""
    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    with log.open("wb") as output:
        command = [home / "bin" / "spark-class", *arguments]
        running = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            yield
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


@contextmanager
def two_hosts(folder: Path) -> Iterator[str]:
    """A cluster whose executors are on two hosts, as far as Spark can tell: on one, it runs no task twice."""
    url, deploy = f"spark://127.0.0.1:{free_port()}", "org.apache.spark.deploy"
    with ExitStack() as stack:
        place = ["--host", "127.0.0.1", "--port", url.rpartition(":")[2], "--webui-port", "0"]
        stack.enter_context(process(folder / "master.log", f"{deploy}.master.Master", *place))
        for host in ("127.0.0.1", "127.0.0.2"):
            work = ["--host", host, "--cores", "1", "--memory", "600m", "--webui-port", "0"]
            work += ["--work-dir", str(folder / f"work-{host}"), url]
            stack.enter_context(process(folder / f"{host}.log", f"{deploy}.worker.Worker", *work))
        wait_until(lambda: (folder / "master.log").read_text().count("Registering worker") == 2)
        yield url


def test_a_load_whose_task_is_run_twice_has_each_row_once(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    settings = [f"{name}={value}" for name, value in EAGER.items()]
    with two_hosts(tmp_path) as master:
        arguments = ["speculate", tmp_path.as_uri(), "db", f"master={master}", f"notes={notes}", *settings]
        with on_cluster(tmp_path / "log", *arguments) as job:
            wait_until(lambda: job.poll() is not None)
            assert job.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    assert {"0-0", "0-1"} <= {note.name for note in notes.iterdir()}
    expected = {b"%08d" % (id * 7919 % ROWS): b"%d" % id for id in range(ROWS)}
    assert {row.key: row.value for row in asyncio.run(Original(tmp_path, Style()).rows("db"))} == expected
    files = DatabaseFiles(open_store(tmp_path.as_uri()), "db", SystemRuntime())
    # A process that is killed while it writes a file leaves that behind, under a name that is none of an SST.
    stored = list((tmp_path / "db" / "compacted").glob("*.sst"))
    assert len(stored) == len(asyncio.run(files.manifest()).ssts)
