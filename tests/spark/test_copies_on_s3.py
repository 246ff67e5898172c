"""A deep copy by executors from one S3 server to another that has other credentials, taken up again after a failure."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.spark import copy
from slate_engine.store.open import open_store
from tests.servers.versitygw import VersityGW
from tests.spark.test_killed_executors import rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SSTS = 5


def files_of(server: VersityGW, path: str) -> DatabaseFiles:
    return DatabaseFiles(open_store("s3://bucket", server.options()), path, SystemRuntime())


async def fill(files: DatabaseFiles) -> None:
    writer = await Writer.open(files, WriterOptions())
    for number in range(SSTS):
        await writer.write([Change(b"%d-%04d" % (number, key), b"x" * 100) for key in range(500)])
        await writer.flush_memtable()
    await writer.write([Change(b"logged", b"1")])
    await writer.close()


def options(name: str, server: VersityGW) -> list[str]:
    return [text for pair in server.options().items() for text in (f"--{name}", "=".join(pair))]


def test_to_a_bucket_of_the_same_name_elsewhere_and_again_after_a_failure(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    with VersityGW(here) as source, VersityGW(there) as target:
        for server in (source, target):
            server.make_bucket("bucket")
        asyncio.run(fill(files_of(source, "db")))
        expected = rows(files_of(source, "db"))
        assert len(expected) == 500 * SSTS + 1
        job = ["--url", "s3://bucket", "--path", "db", "--to-url", "s3://bucket", "--to-path", "copies/db"]
        job += [*options("option", source), *options("to-option", target), "--objects-per-task", "1"]
        # Somebody takes an object of the source away, and the copy cannot be whole.
        lost = max((here / "buckets" / "bucket" / "db" / "compacted").iterdir())
        os.rename(lost, tmp_path / "lost")
        assert copy.JOB.main(job) == 1
        assert lost.stem in capsys.readouterr().err
        compacted = there / "buckets" / "bucket" / "copies" / "db" / "compacted"
        before = {each.name: each.stat().st_mtime_ns for each in compacted.iterdir()}
        assert 0 < len(before) < SSTS
        os.rename(tmp_path / "lost", lost)
        assert copy.JOB.main(job) == 0
        after = {each.name: each.stat().st_mtime_ns for each in compacted.iterdir()}
        assert len(after) == SSTS
        assert before.items() <= after.items(), "only what was missing is copied"
        assert rows(files_of(target, "copies/db")) == expected
        left = asyncio.run(files_of(source, "db").manifest()).checkpoints
        assert all(each.expire_time_s is not None for each in left), "what the failure left at the source expires"
