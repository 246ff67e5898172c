"""A checkpoint on a manifest of 100,000 SSTs and 1,000 checkpoints, against the original's ``create_detached_checkpoint``.

The original reads the newest manifest, adds the checkpoint and writes the next one, all in local files. Ours is measured
twice: the bytes alone (decode what the original wrote, change one checkpoint, encode), and the whole way through the
store, where we also make sure that the file is on the disk before we say so.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from slate_engine.format.flatbuf.spans import Spans
from slate_engine.format.ids import Ids
from slate_engine.runtime import SystemRuntime, uuid4
from slate_engine.state.checkpoints import with_checkpoint, with_checkpoint_refreshed
from slate_engine.state.manifest import Checkpoint, Manifest
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.state.ssts import Ssts
from slate_engine.state.stores import ManifestStore
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import Views
from slate_engine.store.files import FileStore

SSTS, CHECKPOINTS, RUNS = 100_000, 1_000, 10
NOW_MS = 1_700_000_000_000
TIMES = 7
BAR = 0.5
"""At most twice the original's time."""


def run() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        yield from checkpoint_on_large_manifest(Path(folder))


def large_manifest(ssts: int = SSTS, checkpoints: int = CHECKPOINTS, runs: int = RUNS) -> Manifest:
    """Sorted runs of equal size over keys of 16 bytes, every SST whole and with a filter."""
    chance = np.random.default_rng(1)
    high = (np.uint64(NOW_MS) + np.arange(ssts, dtype=np.uint64) // np.uint64(4)) << np.uint64(16)
    digits = np.char.zfill(np.arange(2 * ssts).astype("S16"), 16).view(np.uint8)
    starts = np.arange(2 * ssts, dtype=np.int64) * 16
    digits.flags.writeable = False
    sizes = chance.integers(60_000_000, 256_000_000, ssts).astype(np.uint64)

    def column(value: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.full(ssts, value, np.uint64)

    table = Ssts(
        id=Ids(
            high | chance.integers(0, 2**16, ssts).astype(np.uint64), chance.integers(0, 2**63, ssts).astype(np.uint64)
        ),
        format_version=column(2),
        first=Spans(digits, starts[::2].copy(), np.full(ssts, 16)),
        last=Spans(digits, starts[1::2].copy(), np.full(ssts, 16)),
        index_offset=sizes + np.uint64(2_000_000),
        index_len=column(1_800_000),
        filter_offset=sizes,
        filter_len=column(2_000_000),
        codec=column(0),
        sst_type=column(0),
        stats_offset=sizes + np.uint64(3_800_000),
        stats_len=column(90_000),
        filter_format=column(1),
    )
    views = Views.of_ssts(table)
    tree = Tree()
    for number in range(runs):
        part = views[number * ssts // runs : (number + 1) * ssts // runs]
        tree = tree.with_run(SortedRun(number, part))
    return Manifest(
        writer_epoch=7,
        compactor_epoch=5,
        replay_after_wal_id=99_000,
        wal_id_last_seen=99_500,
        last_l0_clock_tick=NOW_MS,
        last_l0_seq=10**9,
        recent_snapshot_min_seq=10**9,
        checkpoints=tuple(
            Checkpoint(UUID(int=number + 1), number + 1, None, NOW_MS // 1000, f"checkpoint-{number:04d}")
            for number in range(checkpoints)
        ),
    ).with_root(tree)


def checkpoint_on_large_manifest(folder: Path) -> Iterator[dict[str, Any]]:
    ours = encode_manifest(large_manifest())
    files = folder / "db" / "manifest"
    files.mkdir(parents=True)
    (files / f"{1:020d}.manifest").write_bytes(ours)
    original = asyncio.run(_with_the_original(folder))
    theirs = max(files.iterdir()).read_bytes()
    bytes_alone = best_of(TIMES, partial(_change, theirs))
    through_store = asyncio.run(_through_the_store(folder))
    yield _compared("decode + change one checkpoint + encode, ms", bytes_alone, original)
    yield _compared("checkpoint through the store, on the disk, ms", through_store, original)
    yield {
        "what": "bytes of a manifest of 100,000 SSTs",
        "ours": len(_change(theirs)),
        "original": len(theirs),
        "ratio": round(len(theirs) / len(_change(theirs)), 2),
        "bar": 1.0,
        "ok": len(_change(theirs)) <= len(theirs),
    }


def _compared(what: str, ours: float, original: float) -> dict[str, Any]:
    ratio = original / ours
    return {
        "what": what,
        "ours": round(ours * 1e3, 1),
        "original": round(original * 1e3, 1),
        "ratio": round(ratio, 2),
        "bar": BAR,
        "ok": ratio >= BAR,
    }


def _change(data: bytes) -> bytes:
    manifest = decode_manifest(data, object="bench")
    changed = with_checkpoint_refreshed(manifest, UUID(int=500), now_ms=NOW_MS, lifetime_ms=60_000)
    return encode_manifest(changed)


async def _with_the_original(folder: Path) -> float:
    import slatedb.uniffi as wheel

    store = wheel.ObjectStoreBuilder(wheel.ObjectStoreType.LOCAL)
    store.with_config("local_path", str(folder))
    admin = wheel.AdminBuilder("db", store.build()).build()
    options = wheel.CheckpointOptions(lifetime_ms=None, source=None, name=None)
    best = float("inf")
    for _ in range(TIMES):
        start = time.perf_counter()
        await admin.create_detached_checkpoint(options)
        best = min(best, time.perf_counter() - start)
    return best


async def _through_the_store(folder: Path) -> float:
    """Every time as if the process had just begun: nothing is remembered of the last manifest."""
    runtime = SystemRuntime()
    store = FileStore(folder, runtime)
    best = float("inf")
    for _ in range(TIMES):
        start = time.perf_counter()
        manifests = ManifestStore.open(store, "db", runtime)
        await manifests.update(partial(with_checkpoint, id=uuid4(runtime), now_ms=runtime.now_ms()))
        best = min(best, time.perf_counter() - start)
    await store.close()
    return best


def best_of(times: int, work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best
