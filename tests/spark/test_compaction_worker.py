"""Spark as a worker of a compactor that runs: what it leaves is merged by executors, and it commits that itself."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slate_engine.format.ids import Ulid
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.spark import compact, compacting
from slate_engine.spark.compacting import SparkWorker
from slate_engine.spark.options import Location
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, TieredSpec, Worker
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import CompactionsStore
from slate_engine.store.open import open_store
from tests.spark.compactors import compacting as running_compactor
from tests.spark.compactors import jobs_of
from tests.spark.test_jobs import done, rows_of

ROUNDS, KEYS = 3, 3000
EXPECTED = {b"key%06d" % key: b"%d" % max(r for r in range(ROUNDS) if key % (r + 1) == 0) * 50 for key in range(KEYS)}
SCHEDULED, COMPACTED = CompactionStatus.SCHEDULED, CompactionStatus.COMPACTED
COMPLETED, FAILED = CompactionStatus.COMPLETED, CompactionStatus.FAILED


@pytest.fixture
def files(tmp_path: Path) -> DatabaseFiles:
    """A database of ours with three SSTs of level 0 that overlap."""
    made = DatabaseFiles(open_store(tmp_path.as_uri()), "db", SystemRuntime())

    async def make() -> None:
        writer = await Writer.open(made, WriterOptions())
        for r in range(ROUNDS):
            await writer.write([Change(b"key%06d" % key, b"%d" % r * 50) for key in range(0, KEYS, r + 1)])
            await writer.flush_memtable()
        await writer.close()

    asyncio.run(make())
    return made


@pytest.fixture
def where(tmp_path: Path, files: DatabaseFiles) -> tuple[str, ...]:
    return ("--url", tmp_path.as_uri(), "--path", "db", "--ranges", "3", "--sst-bytes", "64k", "--worker")


def manifest_of(files: DatabaseFiles) -> Manifest:
    return asyncio.run(files.manifest())


def book_of(files: DatabaseFiles) -> CompactionsStore:
    return CompactionsStore.open(files.store, files.paths.root, files.runtime)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "this takes too long"
        time.sleep(0.1)


def waits(files: DatabaseFiles) -> bool:
    return [(job.status, job.worker) for job in asyncio.run(jobs_of(files))] == [(SCHEDULED, None)]


@pytest.mark.spark
def test_it_does_what_a_compactor_leaves_and_that_commits_it(
    spark: SparkSession,
    files: DatabaseFiles,
    where: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running_compactor(files):
        until(lambda: waits(files))
        epoch = manifest_of(files).compactor_epoch
        small = done(capsys, compact.JOB, *where, "--min-bytes", "1g")
        assert (small["compactions"], small["rows"]) == (0, 0)
        assert "nothing to do: no compaction of at least 1g waits" in small["result"]
        assert waits(files)
        found = done(capsys, compact.JOB, *where, "--min-bytes", "1k")
        assert (found["compactions"], found["committed"], found["refused"], found["to_be_committed"]) == (1, 1, 0, 0)
        assert found["rows_kept"] == KEYS
        assert found["result"] == "1 of 1 compactions are committed"
        # It was true when it was said.
        manifest = manifest_of(files)
        assert (len(manifest.root.l0), len(manifest.root.runs)) == (0, 1)
        assert len(manifest.root.runs[0].views) >= 3
        assert manifest.compactor_epoch == epoch, "nobody was fenced"
        assert "spark compaction" not in {each.name for each in manifest.checkpoints}
        assert done(capsys, compact.JOB, *where, "--min-bytes", "1")["compactions"] == 0
    assert rows_of(tmp_path) == EXPECTED


@pytest.mark.spark
def test_without_a_compactor_there_is_nothing_to_do(
    spark: SparkSession, files: DatabaseFiles, where: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    before = manifest_of(files)
    assert "nothing to do" in done(capsys, compact.JOB, *where, "--min-bytes", "1")["result"]
    assert manifest_of(files) == before
    assert asyncio.run(book_of(files).latest()) is None
    assert compact.JOB.main([*where, "--force"]) == 1
    assert "leave out --force and --rewrite" in capsys.readouterr().err


@pytest.mark.spark
def test_a_result_waits_in_the_book_for_the_next_compactor(
    spark: SparkSession,
    files: DatabaseFiles,
    where: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running_compactor(files):
        until(lambda: waits(files))
    found = done(capsys, compact.JOB, *where, "--min-bytes", "1", "--wait", "1s")
    assert (found["compactions"], found["committed"], found["to_be_committed"]) == (1, 0, 1)
    assert "wait for a compactor to commit them; none did within 1s" in found["result"]
    assert [job.status for job in asyncio.run(jobs_of(files))] == [COMPACTED]
    with running_compactor(files):
        until(lambda: not asyncio.run(jobs_of(files)))
    root = manifest_of(files).root
    assert (len(root.l0), len(root.runs)) == (0, 1)
    assert rows_of(tmp_path) == EXPECTED


@pytest.mark.spark
def test_a_job_that_is_somebody_elses_by_now_is_left_off(
    spark: SparkSession,
    files: DatabaseFiles,
    where: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = Worker("other", 1)

    def for_long(task: object) -> object:
        time.sleep(120)
        return task

    def take() -> None:
        """As a coordinator that heard nothing of the driver, and the next worker."""
        until(lambda: any(job.worker for job in asyncio.run(jobs_of(files))))

        def taken(old: Compactions) -> Compactions:
            return old.with_job(replace(old.jobs[-1], worker=other))

        asyncio.run(book_of(files).update(taken))

    monkeypatch.setattr(compacting, "BEAT_SECONDS", 0.5)
    monkeypatch.setattr(compacting, "merge_range", for_long)
    with running_compactor(files):
        until(lambda: waits(files))
    before = manifest_of(files)

    began = time.monotonic()
    thief = threading.Thread(target=take)
    thief.start()
    assert compact.JOB.main([*where, "--min-bytes", "1"]) == 1
    thief.join()
    assert time.monotonic() - began < 60, "it does not wait for what is of no use"
    assert "is not this driver's any more" in capsys.readouterr().err
    (job,) = asyncio.run(jobs_of(files))
    assert (job.status, job.worker) == (CompactionStatus.RUNNING, other)
    assert replace(manifest_of(files), checkpoints=()) == replace(before, checkpoints=())
    assert rows_of(tmp_path) == EXPECTED


@pytest.mark.spark
def test_what_cannot_be_merged_is_given_back_with_the_reason(
    spark: SparkSession,
    files: DatabaseFiles,
    where: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running_compactor(files):
        until(lambda: waits(files))
    damaged = tmp_path / files.paths.compacted(manifest_of(files).root.l0[1].sst.id)
    data = bytearray(damaged.read_bytes())
    data[9] ^= 4
    damaged.write_bytes(data)
    assert compact.JOB.main([*where, "--min-bytes", "1"]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("compact: ")
    assert damaged.name in error
    assert waits(files)


# --- what became of a job --------------------------------------------------------------------------------------------


def test_it_knows_whether_a_result_was_committed(files: DatabaseFiles) -> None:
    async def scenario() -> None:
        # Only what it asks for needs Spark.
        worker = SparkWorker(None, files, Location("", ""), None)  # type: ignore[arg-type]
        ssts = (await files.manifest()).ssts
        spec = TieredSpec(tuple((await files.manifest()).root.l0.ids), (), 0)
        shown = Compaction(Ulid.of(1, 1), spec, COMPACTED, ssts)
        unknown = replace(ssts[0], id=Ulid.new(files.runtime))
        lost = replace(shown, outputs=type(ssts).of([unknown]))
        nothing = replace(shown, outputs=ssts[:0])
        newer = Compaction(Ulid.of(2, 1), spec, COMPLETED)
        await book_of(files).create_first(Compactions())

        async def outcome(job: Compaction, *entries: Compaction) -> CompactionStatus | None:
            await book_of(files).update(lambda old: replace(old, jobs=entries))
            return await worker.outcome(job, 0)

        assert await outcome(shown, shown) is None
        for status in (COMPLETED, FAILED):
            assert await outcome(shown, replace(shown, status=status)) is status
        # Once a newer job has ended, the book does not name it any more.
        assert await outcome(shown, newer) is COMPLETED
        assert await outcome(lost, newer) is FAILED
        assert await outcome(nothing, newer) is COMPLETED

    asyncio.run(scenario())
