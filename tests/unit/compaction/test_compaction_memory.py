"""What a compaction holds at once does not grow with its input."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from slate_engine.format.columns import HAS_CREATE, Bytes, Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_build import build_sst
from slate_engine.lsm.compaction.compactor import compact_once
from slate_engine.lsm.compaction.options import CompactorOptions, WorkerOptions
from slate_engine.lsm.compaction.plan import Major
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle, Ssts
from slate_engine.state.tree import Tree
from slate_engine.state.views import Views
from slate_engine.store.open import open_store

LEVELS, BUDGET_MB = 6, 64
SIZES = (1, 80, 320)


def sample(level: int, rows: int) -> Rows:
    numbers = np.arange(rows) * LEVELS + level
    places = np.arange(rows + 1, dtype=np.int64)
    return Rows(
        Bytes(np.char.zfill(numbers.astype("S12"), 16).view(np.uint8), places * 16),
        Bytes(np.random.default_rng(level).integers(0, 256, rows * 100, np.uint8), places * 100),
        np.full(rows, level + 1, np.uint64),
        np.full(rows, HAS_CREATE, np.uint8),
        np.full(rows, 7, np.int64),
        np.zeros(rows, np.int64),
    )


def files_of(folder: str, megabytes: int) -> DatabaseFiles:
    runtime = SystemRuntime()
    return DatabaseFiles(open_store(f"file://{folder}", runtime=runtime), f"db{megabytes}", runtime)


async def make(folder: str, megabytes: int) -> None:
    files = files_of(folder, megabytes)
    handles = []
    for level in range(LEVELS):
        built = build_sst(sample(level, megabytes * 1_000_000 // LEVELS // 134))
        handles.append(SstHandle(Ulid.new(files.runtime), built.info, built.version))
        await files.store.put(files.paths.compacted(handles[-1].id), built.tobytes())
    tree = Tree(l0=Views.of_ssts(Ssts.of(reversed(handles))))
    manifest = Manifest(last_l0_seq=LEVELS, last_l0_clock_tick=7, recent_snapshot_min_seq=LEVELS)
    await files.manifests.create_first(manifest.with_root(tree))


async def compact(folder: str, megabytes: int) -> float:
    options = CompactorOptions(worker=WorkerOptions(memory_bytes=BUDGET_MB << 20, max_concurrent_compactions=1))
    report = await compact_once(files_of(folder, megabytes), Major(), options)
    assert report.jobs == 1
    assert not report.errors
    return peak()


def peak() -> float:
    """The most memory that this process has ever had, in MB. Not from getrusage, which counts also what the parent had when
    it started this process."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


@pytest.mark.long
def test_memory_is_bounded_by_the_setting_whatever_the_input() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            asyncio.run(make(folder, size))
        # The inputs were made here; the process that is measured has only compacted.
        command = [sys.executable, "-m", __name__, folder]
        # With an arena for each thread, the C library keeps about as much again that nobody holds.
        one_arena = {**os.environ, "MALLOC_ARENA_MAX": "1"}
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600, env=one_arena)
        nothing, small, large = json.loads(done.stdout)
    assert small - nothing < BUDGET_MB
    assert large - small < BUDGET_MB / 4


if __name__ == "__main__":
    print(json.dumps([asyncio.run(compact(sys.argv[1], size)) for size in SIZES]))
