"""Compaction of the same inputs by us and by the original, each in a process of its own with all cores.

Two shapes, as a busy database has them: eight SSTs of L0 with 64 MB each, and four sorted runs of 256 MB, all with 16-byte
keys and 100-byte values, of which 30 % overwrite older ones. Local files; without compression, with lz4, and with zstd.
``SLATE_BENCH_SCALE`` (1 by default) makes everything smaller or larger.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slate_engine.format.columns import HAS_CREATE, Bytes, Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_build import SstOptions, build_sst
from slate_engine.format.sst_meta import Codec
from slate_engine.lsm.compaction.compactor import compact_once
from slate_engine.lsm.compaction.options import CompactorOptions, MergeOptions, WorkerOptions
from slate_engine.lsm.compaction.plan import Major
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle, Ssts
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import Views
from slate_engine.store.open import open_store

SCALE = float(os.environ.get("SLATE_BENCH_SCALE", "1"))
KEY, VALUE, STORED = 16, 100, 134
OVERWRITTEN = 0.3
NOW_MS = 1_700_000_000_000
BAR, MEMORY_BAR_MB = 1.5, 300
SHAPES = {"8 L0s of 64 MB": (8, 64, True), "4 sorted runs of 256 MB": (4, 256, False)}
NAMES = {Codec.NONE: None, Codec.LZ4: "Lz4", Codec.ZSTD: "Zstd"}


def run() -> Iterator[dict[str, Any]]:
    for shape, (sources, megabytes, is_l0) in SHAPES.items():
        for codec in NAMES:
            with tempfile.TemporaryDirectory(prefix="slate-bench-") as folder:
                stored = asyncio.run(write_inputs(folder, sources, int(megabytes * SCALE * 1e6 / STORED), is_l0, codec))
                yield compare(folder, f"{shape}, {codec.name.lower()}", stored / 1e6, codec)
    yield growth_with_inputs()


def compare(folder: str, what: str, megabytes: float, codec: Codec) -> dict[str, Any]:
    """Both databases have the same SSTs; neither side changes what it reads."""
    ours, theirs = (measured(side, folder, codec) for side in ("ours", "theirs"))
    assert ours["rows"] == theirs["rows"], (ours, theirs)
    ratio = theirs["seconds"] / ours["seconds"]
    extra_mb = ours["peak_mb"] - theirs["peak_mb"]
    return {
        "what": f"compaction of {what}",
        "input_mb": round(megabytes),
        "ours_mb_per_s": round(megabytes / ours["seconds"]),
        "peer_mb_per_s": round(megabytes / theirs["seconds"]),
        "ours_mb_per_cpu_s": round(megabytes / ours["cpu_seconds"]),
        "peer_mb_per_cpu_s": round(megabytes / theirs["cpu_seconds"]),
        "ours_peak_mb": round(ours["peak_mb"]),
        "peer_peak_mb": round(theirs["peak_mb"]),
        "ratio": round(ratio, 2),
        "bar": BAR,
        "ok": ratio >= BAR and extra_mb <= MEMORY_BAR_MB,
    }


def growth_with_inputs() -> dict[str, Any]:
    """CPU time for the same bytes, from 2 inputs to 32."""
    figures: dict[int, float] = {}
    for sources in (2, 4, 8, 16, 32):
        with tempfile.TemporaryDirectory(prefix="slate-bench-") as folder:
            rows = int(128 * SCALE * 1e6 / STORED / sources)
            stored = asyncio.run(write_inputs(folder, sources, rows, True, Codec.NONE))
            figures[sources] = measured("ours", folder, Codec.NONE)["cpu_seconds"] / (stored / 1e9)
    growth, bar = figures[32] / figures[2], math.log2(32) / math.log2(2)
    return {
        "what": "CPU seconds per GB, by the number of inputs",
        "figures": {str(sources): round(seconds, 2) for sources, seconds in figures.items()},
        "growth": round(growth, 2),
        "bar": bar,
        "ok": growth <= bar,
    }


def measured(side: str, folder: str, codec: Codec) -> dict[str, Any]:
    """One side's figures, from a process that does nothing else."""
    command = [sys.executable, "-m", "bench.compaction", side, folder, codec.name]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


# --- the inputs ------------------------------------------------------------------------------------------------------


async def write_inputs(folder: str, sources: int, rows: int, is_l0: bool, codec: Codec) -> int:
    """Two databases, ``ours`` and ``theirs``, whose SSTs are the same files; gives the bytes of one."""
    runtime = SystemRuntime()
    store = open_store(f"file://{folder}", runtime=runtime)
    files = {side: DatabaseFiles(store, side, runtime) for side in ("ours", "theirs")}
    chance = np.random.default_rng(1)
    words = chance.integers(0, 256, (256, 10), np.uint8)
    used = np.empty(0, np.int64)
    handles: list[SstHandle] = []
    stored = 0
    for number in range(sources):
        old = chance.choice(used, int(rows * OVERWRITTEN), replace=False) if number else used
        fresh = np.arange(len(used), len(used) + rows - len(old)) * 7_919 % (sources * rows)
        used = np.concatenate([used, fresh])
        data = build_sst(
            _rows(np.sort(np.concatenate([old, fresh])), number + 1, words, chance), SstOptions(codec=codec)
        )
        handles.append(SstHandle(Ulid.of(NOW_MS + number, number), data.info, data.version))
        stored += data.size
        ours, theirs = (Path(folder) / each.paths.compacted(handles[-1].id) for each in files.values())
        for path in (ours, theirs):
            path.parent.mkdir(parents=True, exist_ok=True)
        ours.write_bytes(data.tobytes())
        os.link(ours, theirs)
    newest_first = Ssts.of(reversed(handles))
    if is_l0:
        tree = Tree(l0=Views.of_ssts(newest_first))
    else:
        runs = [SortedRun(sources - 1 - i, Views.of_ssts(newest_first[i : i + 1])) for i in range(sources)]
        tree = Tree(runs=tuple(runs), last_compacted_l0_view=handles[-1].id)
    manifest = Manifest(last_l0_seq=sources, last_l0_clock_tick=NOW_MS, recent_snapshot_min_seq=sources)
    for each in files.values():
        await each.manifests.create_first(Manifest())
        await each.manifests.update(lambda old: replace(manifest.with_root(tree), writer_epoch=old.writer_epoch))
    return stored


def _rows(numbers: np.ndarray[Any, Any], seq: int, words: np.ndarray[Any, Any], chance: Any) -> Rows:
    count = len(numbers)
    digits = np.char.zfill(numbers.astype("S12"), KEY - 4)
    values = words[chance.integers(0, 256, count * VALUE // 10)].reshape(-1)
    places = np.arange(count + 1, dtype=np.int64)
    return Rows(
        Bytes(np.char.add(b"user", digits).view(np.uint8), places * KEY),
        Bytes(values, places * VALUE),
        np.full(count, seq, np.uint64),
        np.full(count, HAS_CREATE, np.uint8),
        np.full(count, NOW_MS, np.int64),
        np.zeros(count, np.int64),
    )


# --- the two sides ---------------------------------------------------------------------------------------------------


def figures(seconds: float, cpu_seconds: float, rows: int) -> dict[str, Any]:
    # Not from getrusage, which counts also what the parent had when it started this process.
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    peak_mb = int(line.split()[1]) / 1024
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "rows": rows, "peak_mb": peak_mb}


async def rows_of(files: DatabaseFiles) -> int:
    """How many rows the one run has that is left, by its statistics."""
    manifest = await files.manifest()
    assert not len(manifest.root.l0)
    (run,) = manifest.root.runs
    opener = files.tables.opener(manifest)
    stats = [await opener(view).stats() for view in run.views]
    return sum(each.num_puts for each in stats if each is not None)


async def compact_ours(folder: str, codec: Codec) -> dict[str, Any]:
    options = CompactorOptions(worker=WorkerOptions(MergeOptions(SstOptions(codec=codec))))
    with tempfile.TemporaryDirectory(prefix="slate-bench-") as small:
        # Compiled kernels are loaded when first used: that belongs to starting a process, not to a compaction.
        await write_inputs(small, 2, 2000, True, codec)
        await compact_once(_files(small), Major(), options)
    files = _files(folder)
    start, cpu = time.perf_counter(), time.process_time()
    await compact_once(files, Major(), options)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    peak = figures(seconds, cpu_seconds, 0)["peak_mb"]
    return {**figures(seconds, cpu_seconds, await rows_of(files)), "peak_mb": peak}


def _files(folder: str, side: str = "ours") -> DatabaseFiles:
    runtime = SystemRuntime()
    return DatabaseFiles(open_store(f"file://{folder}", runtime=runtime), side, runtime)


async def compact_theirs(folder: str, codec: Codec) -> dict[str, Any]:
    import slatedb.uniffi as original

    builder = original.ObjectStoreBuilder(original.ObjectStoreType.LOCAL)
    builder.with_config("local_path", folder)
    store = builder.build()
    settings = original.Settings.default()
    for name, value in {
        "garbage_collector_options": None,
        "compactor_options.poll_interval": "10ms",
        "compactor_options.commit_compacted_interval": "10ms",
        "compactor_options.scheduler_options.min_compaction_sources": "1000",
        "compactor_options.scheduler_options.max_compaction_sources": "1000",
        "compactor_options.worker.compactions_poll_interval": "10ms",
        "compactor_options.worker.compression_codec": NAMES[codec],
    }.items():
        settings.set(name, json.dumps(value))
    opening = original.DbBuilder("theirs", store)
    opening.with_settings(settings)
    db = await opening.build()
    admin = original.AdminBuilder("theirs", store).build()
    manifest = await admin.read_manifest(None)
    sources = [
        *(original.SourceId.SST_VIEW(view.id) for view in manifest.l0),
        *(original.SourceId.SORTED_RUN(run.id) for run in manifest.compacted),
    ]
    spec = original.CompactionSpec.TIERED(segment=b"", sources=sources, destination=0)
    start, cpu = time.perf_counter(), time.process_time()
    job = await admin.submit_compaction(spec)
    while True:
        found = await admin.read_compaction(job.id, None)
        if found is None or found.status == original.CompactionStatus.COMPLETED:
            break
        assert found.status != original.CompactionStatus.FAILED
        await asyncio.sleep(0.02)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    peak = figures(seconds, cpu_seconds, 0)["peak_mb"]
    await db.shutdown()
    return {**figures(seconds, cpu_seconds, await rows_of(_files(folder, "theirs"))), "peak_mb": peak}


if __name__ == "__main__":
    side, place, codec_name = sys.argv[1:4]
    work = compact_ours if side == "ours" else compact_theirs
    print(json.dumps(asyncio.run(work(place, Codec[codec_name]))))
