"""Executors and drivers killed in the middle of loads, reads and compactions: the result is the same, none is half done."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
import slatedb.uniffi as u

from slate_engine.format.key_range import ALL
from slate_engine.gc.collector import Collector
from slate_engine.gc.options import GcOptions, Kind, Task
from slate_engine.lsm.commit import Change
from slate_engine.lsm.compaction.compactor import compact_once
from slate_engine.lsm.compaction.plan import Major
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.state.compactions import CompactionStatus
from slate_engine.store.open import open_store
from tests.interop.original import Original
from tests.interop.style import Style
from tests.servers.versitygw import VersityGW
from tests.spark.compactors import IMPATIENT, compacting, jobs_of
from tests.spark.databases import DATA, upload
from tests.spark.on_cluster import ROWS
from tests.spark.test_load_original import greedy

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

LONGEST = 400.0
EXECUTOR = "CoarseGrainedExecutorBackend"
HERE = Path(__file__).parents[2]


@contextmanager
def on_cluster(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A job in a process group of its own, which is gone at the end, whatever happens."""
    command = [sys.executable, "-m", "tests.spark.on_cluster", *arguments]
    with log.open("wb") as output:
        job = subprocess.Popen(command, cwd=HERE, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            yield job
        finally:
            # The last of them may be gone; executors are children of the driver's JVM.
            for process in [*_descendants(job.pid), job.pid]:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            job.wait()


def _descendants(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill_an_executor(job: subprocess.Popen[bytes], at_work: Callable[[], bool]) -> None:
    """As soon as the job has stored something."""
    wait_until(lambda: at_work() or job.poll() is not None)
    assert job.poll() is None, "the job ended before an executor could be killed"
    executors = [pid for pid in _descendants(job.pid) if EXECUTOR in " ".join(_command(pid))]
    assert len(executors) == 2
    os.kill(executors[0], signal.SIGKILL)


def _command(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def wait_until(condition: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
    end = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < end, "this takes too long"
        meanwhile()
        time.sleep(0.2)


def test_a_load_survives_an_executor_and_greedy_collectors(tmp_path: Path) -> None:
    them = Original(tmp_path, Style())

    def stored() -> int:
        """A process that is killed while it writes a file leaves that behind, under a name that is none of an SST."""
        return len(list((tmp_path / "db" / "compacted").glob("*.sst")))

    async def make() -> None:
        async with them.writer("db") as db:
            await db.put(b"base", b"0")
            await db.flush_with_options(u.FlushOptions(flush_type=u.FlushType.MEM_TABLE))

    asyncio.run(make())
    before = stored()

    def collect() -> None:
        asyncio.run(them.admin("db").run_gc_once(greedy()))

    with on_cluster(tmp_path / "log", "load", tmp_path.as_uri(), "db", "takeOver=true") as job:
        kill_an_executor(job, lambda: stored() > before)
        wait_until(lambda: job.poll() is not None, collect)
        assert job.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    collect()
    expected = {b"%08d" % (id * 7919 % ROWS): b"%d" % id for id in range(ROWS)}
    assert {row.key: row.value for row in asyncio.run(them.rows("db"))} == {**expected, b"base": b"0"}
    # What the attempts left that were killed is gone, too.
    files = DatabaseFiles(open_store(tmp_path.as_uri()), "db", SystemRuntime())
    assert stored() == len(asyncio.run(files.manifest()).ssts)


def test_a_read_of_their_database_on_s3_survives_an_executor(tmp_path: Path) -> None:
    """Every row once, although a task that has handed on some of them dies."""
    notes, table = tmp_path / "notes", tmp_path / "table"
    notes.mkdir()
    with VersityGW(tmp_path / "s3") as server:
        server.make_bucket("bucket")
        asyncio.run(upload("big", server.options()))
        options = [f"store.{name}={value}" for name, value in server.options().items()]
        options += [f"to={table}", f"notes={notes}"]
        with on_cluster(tmp_path / "log", "read", "s3://bucket", "big", *options) as job:
            kill_an_executor(job, lambda: len(list(notes.iterdir())) >= 2)
            wait_until(lambda: job.poll() is not None)
            assert job.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    expected = json.loads((DATA / "expected" / "big.json").read_text())
    found = pq.read_table(table, columns=["key", "value"]).sort_by("key").to_pylist()
    assert [(row["key"].hex(), row["value"].hex()) for row in found] == [(key, value) for key, value, *_ in expected]


@contextmanager
def overlapping(folder: Path) -> Iterator[tuple[DatabaseFiles, list[str]]]:
    """A database on S3 whose level 0 overlaps, and the options of its store for a job."""
    rounds, keys = 4, 20_000
    with VersityGW(folder / "s3") as server:
        server.make_bucket("bucket")
        files = DatabaseFiles(open_store("s3://bucket", server.options()), "db", SystemRuntime())

        async def make() -> None:
            writer = await Writer.open(files, WriterOptions())
            for r in range(rounds):
                part = range(r * keys // rounds, (r + 2) * keys // rounds)
                await writer.write([Change(b"%08d" % (key % keys), b"%d" % r * 100) for key in part])
                await writer.flush_memtable()
            await writer.close()

        asyncio.run(make())
        yield files, [f"{name}={value}" for name, value in server.options().items()]


def stored_in(folder: Path) -> set[str]:
    """The SSTs of that database, whoever shows them."""
    return {each.name for each in (folder / "s3" / "buckets" / "bucket" / "db" / "compacted").iterdir()}


def rows(files: DatabaseFiles) -> list[tuple[bytes, bytes]]:
    async def read() -> list[tuple[bytes, bytes]]:
        snapshot = await files.latest()
        return [(row[0], row[1]) async for part in snapshot.scan(ALL) for row in part.tuples()]

    return asyncio.run(read())


def check_one_run(files: DatabaseFiles, expected: list[tuple[bytes, bytes]]) -> None:
    """All rows, in one run, whose SSTs are there once and follow one another."""
    assert rows(files) == expected
    tree = asyncio.run(files.manifest()).root
    assert (len(tree.l0), len(tree.runs)) == (0, 1)
    views = list(tree.runs[0].views)
    assert len(views) > 2
    assert len({view.sst.id for view in views}) == len(views)
    bounds = [(view.sst.info.first_entry, view.sst.info.last_entry) for view in views]
    assert all(before[1] < after[0] for before, after in pairwise(bounds))


@pytest.mark.parametrize("work", ["compact", "assist"])
def test_a_compaction_survives_an_executor_on_s3(tmp_path: Path, work: str) -> None:
    with overlapping(tmp_path) as (files, options), ExitStack() as beside:
        expected, before = rows(files), stored_in(tmp_path)
        if work == "assist":
            beside.enter_context(compacting(files))
            wait_until(lambda: bool(asyncio.run(jobs_of(files))))
        with on_cluster(tmp_path / "log", work, "s3://bucket", "db", *options) as job:
            kill_an_executor(job, lambda: stored_in(tmp_path) > before)
            wait_until(lambda: job.poll() is not None)
            assert job.returncode == 0, (tmp_path / "log").read_text()[-3000:]
        check_one_run(files, expected)


def test_the_job_of_a_driver_that_dies_is_done_by_the_compactor_and_its_orphans_are_collected(tmp_path: Path) -> None:
    with overlapping(tmp_path) as (files, options):
        expected, before = rows(files), stored_in(tmp_path)
        with compacting(files):
            wait_until(lambda: bool(asyncio.run(jobs_of(files))))
            with on_cluster(tmp_path / "log", "assist", "s3://bucket", "db", *options) as job:
                wait_until(lambda: stored_in(tmp_path) > before or job.poll() is not None)
                assert job.poll() is None, (tmp_path / "log").read_text()[-3000:]
            # All of its processes are dead by now, and it could not say so.
            (left,) = asyncio.run(jobs_of(files))
            assert (left.status, left.worker is None) == (CompactionStatus.RUNNING, False)
            orphans = stored_in(tmp_path) - before
            wait_until(lambda: [job.worker for job in asyncio.run(jobs_of(files))] == [None])
        with compacting(files, IMPATIENT):
            wait_until(lambda: not asyncio.run(jobs_of(files)))
        assert rows(files) == expected
        manifest = asyncio.run(files.manifest())
        assert (len(manifest.root.l0), len(manifest.root.runs)) == (0, 1)
        shown = {f"{id}.sst" for id in manifest.ssts.id}
        assert orphans
        assert not orphans & shown, "what it had written is of no use"
        asyncio.run(_move_on_and_collect(files))
        assert not orphans & stored_in(tmp_path)
        assert rows(files)[:-1] == expected


async def _move_on_and_collect(files: DatabaseFiles) -> None:
    """SSTs as young as the newest job in the book are not collected; the next one makes the orphans old."""
    for _ in range(2):
        writer = await Writer.open(files, WriterOptions())
        await writer.write([Change(b"last", b"1")])
        await writer.flush_memtable()
        await writer.close()
        await compact_once(files, Major(), force=True)
    await Collector(files, GcOptions(compacted=Task(interval=1.0, min_age=0.0))).collect([Kind.COMPACTED])
