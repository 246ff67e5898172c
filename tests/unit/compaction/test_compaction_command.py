"""``slate compact`` and ``slate compactor`` as a user meets them, on local files."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from slate_engine.cli.main import app
from slate_engine.format.columns import HAS_CREATE
from slate_engine.format.sst_build import SstOptions
from slate_engine.format.sst_meta import Codec
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.row import Row
from slate_engine.runtime import SystemRuntime
from slate_engine.state.compactions import Compactions, CompactionStatus
from slate_engine.state.epochs import claim_compactor
from slate_engine.state.manifest import Manifest
from slate_engine.store.open import open_store
from tests.unit.compaction.databases import Scribe, book_of, rows_of

PATIENCE = 60.0


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[DatabaseFiles]:
    runtime = SystemRuntime(threads=2)
    store = open_store(f"file://{folder}", runtime=runtime)
    yield DatabaseFiles(store, "db", runtime)
    await store.close()


def make(folder: Path, flushes: int = 5, rows: int = 200, codec: Codec = Codec.NONE) -> list[Row]:
    """A database with so many SSTs in L0; gives what readers see of it."""

    async def fill() -> list[Row]:
        async with opened(folder) as files:
            scribe = await Scribe(files).create()
            await add(scribe, flushes, rows, codec)
            return await rows_of(files)

    return asyncio.run(fill())


async def add(scribe: Scribe, flushes: int, rows: int, codec: Codec = Codec.NONE) -> None:
    for _ in range(flushes):
        scribe.seq += 1
        keys = sorted(scribe.chance.sample(range(2 * rows), rows))
        batch = [Row(b"key%07d" % key, b"%d" % scribe.seq * 30, scribe.seq, HAS_CREATE, scribe.seq, 0) for key in keys]
        await scribe.add(batch, options=SstOptions(codec=codec))


def look(folder: Path) -> tuple[Manifest, list[Row]]:
    async def read() -> tuple[Manifest, list[Row]]:
        async with opened(folder) as files:
            return await files.manifest(), await rows_of(files)

    return asyncio.run(read())


def slate(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["--store", f"file://{folder}", "--path", "db", *words])


# --- once ------------------------------------------------------------------------------------------------------------


def test_compact_merges_everything_and_says_how_much(tmp_path: Path) -> None:
    expected = make(tmp_path, codec=Codec.LZ4)
    planned = json.loads(slate(tmp_path, "--output", "json", "compact", "--dry-run").stdout)
    assert [(job["l0_ssts"], job["sorted_runs"], job["destination"]) for job in planned] == [(5, [], 0)]
    assert "5 SSTs in L0" in planned[0]["why"]
    assert len(look(tmp_path)[0].root.l0) == 5, "a dry run changes nothing"
    result = slate(tmp_path, "--output", "json", "compact")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["jobs"], facts["failed"]) == (1, [])
    assert facts["read_bytes"] > facts["written_bytes"] > 0
    manifest, rows = look(tmp_path)
    assert rows == expected
    (run,) = manifest.root.runs
    assert [view.sst.info.codec for view in run.views] == [Codec.LZ4], "compressed like what was there"
    assert "nothing to compact" in slate(tmp_path, "compact").stdout
    assert slate(tmp_path, "compact", "--rewrite", "--codec", "zstd").exit_code == 0
    (run,) = look(tmp_path)[0].root.runs
    assert [view.sst.info.codec for view in run.views] == [Codec.ZSTD]


def test_compact_refuses_what_makes_no_sense(tmp_path: Path) -> None:
    make(tmp_path, 1)
    assert slate(tmp_path, "compact", "--codec", "brotli").exit_code == 2
    assert slate(tmp_path, "compact", "--policy", "best").exit_code == 2
    assert slate(tmp_path, "compact", "--policy", "tiered", "--rewrite").exit_code == 2
    assert slate(tmp_path, "compactor", "--policy", "major").exit_code == 2
    assert slate(tmp_path, "compactor", "--worker-only", "--no-worker").exit_code == 2
    assert slate(tmp_path, "compactor", "--max-age", "soon").exit_code == 2
    assert slate(tmp_path, "compactor", "--max-tombstones", "0").exit_code == 1


def test_compact_does_not_disturb_a_compactor_at_work(tmp_path: Path) -> None:
    make(tmp_path)

    async def somebody_works() -> None:
        async with opened(tmp_path) as files:
            await files.manifests.update(claim_compactor)
            await book_of(files).create_first(Compactions(1))

    asyncio.run(somebody_works())
    refused = slate(tmp_path, "compact")
    assert refused.exit_code == 1
    assert "compactor_options" in refused.stderr
    assert slate(tmp_path, "compact", "--force").exit_code == 0


def test_compact_names_a_corrupt_input(tmp_path: Path) -> None:
    expected = make(tmp_path)
    damaged = sorted((tmp_path / "db/compacted").glob("*.sst"))[2]
    whole = damaged.read_bytes()
    data = bytearray(whole)
    data[100] ^= 1
    damaged.write_bytes(data)
    result = slate(tmp_path, "compact")
    assert result.exit_code == 4
    assert damaged.name in result.stderr
    damaged.write_bytes(whole)
    manifest, rows = look(tmp_path)
    assert len(manifest.root.l0) == 5
    assert rows == expected, "no harm was done"


# --- for ever --------------------------------------------------------------------------------------------------------


@contextmanager
def running(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A compactor in a process of its own, which is gone at the end."""
    command = [str(Path(sys.executable).parent / "slate"), "--store", f"file://{folder}", "--path", "db"]
    process = subprocess.Popen([*command, "compactor", *words], stderr=(folder / "log").open("ab"))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until_compacted(folder: Path, l0: int = 0) -> Manifest:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        manifest, _ = look(folder)
        if len(manifest.root.l0) <= l0:
            return manifest
        time.sleep(0.1)
    raise TimeoutError((folder / "log").read_text())


def test_a_compactor_process_and_a_worker_of_it(tmp_path: Path) -> None:
    expected = make(tmp_path)
    often = ("--poll-interval", "200ms")
    with running(tmp_path, "--no-worker", *often) as coordinator, running(tmp_path, "--worker-only", *often) as worker:
        until_compacted(tmp_path)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0
        assert slate(tmp_path, "compact", "--rewrite").exit_code == 0, "ours may take the place of ours"
        assert coordinator.wait(PATIENCE) == 6, "which then has been taken over"
    assert look(tmp_path)[1] == expected
    log = (tmp_path / "log").read_text()
    assert "5 SSTs in L0, 4 are enough" in log, "it says why"
    assert "has merged 1000 rows" in log


@pytest.mark.long
def test_compactors_that_are_killed_at_any_time(tmp_path: Path) -> None:
    """Real processes, killed without warning; readers never notice, and in the end everything is compacted."""
    expected = make(tmp_path, 8, 60_000)
    words = ("--ranges", "3", "--sst-size", "1", "--memory", "8")
    for delay in (0.9, 1.1, 1.3, 1.5, 1.8, 2.2, 2.7):
        with running(tmp_path, *words) as process:
            time.sleep(delay)
            os.kill(process.pid, signal.SIGKILL)
        assert look(tmp_path)[1] == expected
    with running(tmp_path, *words):
        until_compacted(tmp_path)
    assert look(tmp_path)[1] == expected

    async def ended() -> None:
        async with opened(tmp_path) as files:
            book = (await book_of(files).read_latest()).value
            assert all(job.status is CompactionStatus.COMPLETED for job in book.jobs if not job.is_active)

    asyncio.run(ended())
