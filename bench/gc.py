"""Garbage collection of 100,000 SSTs with 1,000 checkpoints: CPU time and memory, against the original's ``run_gc_once``.

Two shapes of the same size. In one, each checkpoint keeps a small manifest of its own; in the other, all of them keep twenty
large ones that show nearly everything. Of the SSTs 80 % are live, 10 % are kept by checkpoints only, and 10 % are garbage.
Both collect copies of one folder, each in a process of its own, and must leave the same behind. The files are tiny, since
nobody reads them. ``SLATE_BENCH_SCALE`` (1 by default) makes everything smaller or larger.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from bench.manifest import NOW_MS, large_manifest
from slate_engine.format.flatbuf.spans import Spans
from slate_engine.format.ids import Ids, Ulid
from slate_engine.gc.collector import collect_once
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, TieredSpec
from slate_engine.state.compactions_write import encode_compactions
from slate_engine.state.manifest import Checkpoint, Manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.state.ssts import Ssts
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import Views
from slate_engine.store.open import open_store

SCALE = float(os.environ.get("SLATE_BENCH_SCALE", "1"))
SSTS, CHECKPOINTS = int(100_000 * SCALE), int(1_000 * SCALE)
SHAPES = {"a small manifest for each checkpoint": CHECKPOINTS, "20 large manifests for all checkpoints": 20}
BAR, MEMORY_BAR_MB = 1.0, 500


def run() -> Iterator[dict[str, Any]]:
    for shape, manifests in SHAPES.items():
        with tempfile.TemporaryDirectory(prefix="slate-bench-") as name:
            folder = Path(name)
            garbage = write_database(folder / "made", manifests)
            ours, theirs = (_measured(folder, side) for side in ("ours", "theirs"))
            left = [sorted(os.listdir(folder / side / "db" / "compacted")) for side in ("ours", "theirs")]
            assert left[0] == left[1], "the two collectors do not agree"
            assert len(left[0]) == SSTS - garbage, "something else than the garbage was deleted"
        ratio = theirs["cpu"] / ours["cpu"]
        yield {
            "what": f"GC of {SSTS:,} SSTs, {CHECKPOINTS:,} checkpoints, {shape}, CPU s",
            "ours": round(ours["cpu"], 2),
            "original": round(theirs["cpu"], 2),
            "ratio": round(ratio, 2),
            "bar": BAR,
            "ok": ratio >= BAR,
            "seconds": [round(ours["seconds"], 2), round(theirs["seconds"], 2)],
        }
        yield {
            "what": f"the same, {shape}, peak MB",
            "ours": round(ours["megabytes"]),
            "original": round(theirs["megabytes"]),
            "ratio": round(MEMORY_BAR_MB / ours["megabytes"], 2),
            "bar": 1.0,
            "ok": ours["megabytes"] < MEMORY_BAR_MB,
        }


def write_database(folder: Path, manifests: int) -> int:
    """Returns how many SSTs are garbage."""
    table = _in_order_of_keys(large_manifest(ssts=SSTS, checkpoints=0).ssts)
    live, kept = SSTS * 8 // 10, SSTS // 10
    for directory in ("manifest", "compactions", "compacted"):
        (folder / "db" / directory).mkdir(parents=True)
    for id in table.id:
        (folder / "db" / "compacted" / f"{id}.sst").write_bytes(b"x")
    whole = manifests < CHECKPOINTS
    for number in range(manifests):
        own = np.arange(live + number * kept // manifests, live + (number + 1) * kept // manifests)
        shared = np.arange(live) if whole else np.arange(number * live // manifests, (number + 1) * live // manifests)
        _write(folder, number + 1, _state(table, np.concatenate([shared, own])))
    newest = _state(table, np.arange(live))
    checkpoints = tuple(
        Checkpoint(UUID(int=number + 1), number % manifests + 1, None, NOW_MS // 1000, f"checkpoint-{number:04d}")
        for number in range(CHECKPOINTS)
    )
    # As if everything in level 0 had just been compacted: what is older than that, and than the last job, may go.
    just_now = Ulid.of(NOW_MS + SSTS, 1)
    root = replace(newest.root, last_compacted_l0_view=just_now)
    _write(folder, manifests + 1, replace(newest.with_root(root), checkpoints=checkpoints))
    book = Compactions(5, (Compaction(just_now, TieredSpec((), (), 0), CompactionStatus.COMPLETED),))
    (folder / "db" / "compactions" / f"{1:020d}.compactions").write_bytes(encode_compactions(book))
    return SSTS - live - kept


def _in_order_of_keys(table: Ssts) -> Ssts:
    """The same SSTs, the older an SST the smaller its keys, so that any of them make a sorted run."""
    keys = np.char.zfill(np.arange(2 * len(table)).astype("S16"), 16).view(np.uint8)
    keys.flags.writeable = False
    starts, lengths = np.arange(2 * len(table), dtype=np.int64) * 16, np.full(len(table), 16)
    return replace(
        table, first=Spans(keys, starts[::2].copy(), lengths), last=Spans(keys, starts[1::2].copy(), lengths)
    )


def _state(table: Ssts, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Manifest:
    run = SortedRun(0, Views.of_ssts(table.take(rows)))
    base = Manifest(writer_epoch=7, compactor_epoch=5, replay_after_wal_id=99, wal_id_last_seen=99)
    return replace(base, last_l0_seq=10**9, last_l0_clock_tick=NOW_MS).with_root(Tree().with_run(run))


def _write(folder: Path, number: int, manifest: Manifest) -> None:
    (folder / "db" / "manifest" / f"{number:020d}.manifest").write_bytes(encode_manifest(manifest))


def _measured(folder: Path, side: str) -> dict[str, float]:
    """On a copy: a second name for each file is enough, since neither side changes one."""
    subprocess.run(["cp", "-al", folder / "made", folder / side], check=True)
    command = [sys.executable, "-m", "bench.gc", side, str(folder / side)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


async def _ours(folder: str) -> None:
    runtime = SystemRuntime()
    at_once = Task(min_age=0)
    options = GcOptions(manifests=at_once, wal=at_once, compacted=at_once, compactions=at_once)
    report = await collect_once(DatabaseFiles(open_store(f"file://{folder}", runtime=runtime), "db", runtime), options)
    assert not report.errors, report.errors


async def _theirs(folder: str) -> None:
    import slatedb.uniffi as wheel

    store = wheel.ObjectStoreBuilder(wheel.ObjectStoreType.LOCAL)
    store.with_config("local_path", folder)
    at_once = wheel.GarbageCollectorDirectoryOptions(interval_ms=None, min_age_ms=0, dry_run=False)
    options = wheel.GarbageCollectorOptions(
        manifest_options=at_once,
        wal_options=at_once,
        wal_fence_options=wheel.GarbageCollectorDirectoryOptions(interval_ms=None, min_age_ms=0, dry_run=True),
        compacted_options=at_once,
        compactions_options=at_once,
        detach_options=wheel.GarbageCollectorScheduleOptions(interval_ms=None),
    )
    await wheel.AdminBuilder("db", store.build()).build().run_gc_once(options)


def _measure(side: str, folder: str) -> None:
    """The CPU time of all threads while it collects; the memory of the whole process. Loading an engine is not collecting:
    theirs is a library, and ours are kernels."""
    if side == "theirs":
        import slatedb.uniffi  # noqa: F401
    else:
        Ids.of([]).find(Ids.of([]))
    seconds, cpu = time.perf_counter(), time.process_time()
    asyncio.run((_ours if side == "ours" else _theirs)(folder))
    seconds, cpu = time.perf_counter() - seconds, time.process_time() - cpu
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "megabytes": megabytes}))


if __name__ == "__main__":
    _measure(sys.argv[1], sys.argv[2])
