"""A sorted run of a million rows, from local files to Arrow: our scan beside the original's, on the same database."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import slatedb.uniffi as original

from slate_engine.format.columns import HAS_CREATE, Bytes, Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_build import build_sst
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.state.tree import SortedRun
from slate_engine.state.views import SstView, Views
from slate_engine.store.open import open_store

ROWS = 1_000_000
KEY, VALUE = 16, 100
SSTS = 4
EVERYTHING = original.KeyRange(start=None, start_inclusive=False, end=None, end_inclusive=False)


def run() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="slate-bench-") as folder:
        asyncio.run(write_run(folder, sample_rows(ROWS)))
        ours = min(asyncio.run(scan_arrow(folder)) for _ in range(3))
        theirs = min(asyncio.run(scan_original(folder)) for _ in range(2))
    megabytes = ROWS * (KEY + VALUE) / 1e6
    yield {
        "what": "scan of a sorted run to Arrow, checksums on, against next_batch(4096)",
        "rows": ROWS,
        "ours_rows_per_s": round(ROWS / ours),
        "ours_mb_per_s": round(megabytes / ours),
        "peer_rows_per_s": round(ROWS / theirs),
        "ratio": round(theirs / ours, 1),
        "bar": 20,
        "ok": theirs / ours >= 20,
    }


def sample_rows(count: int) -> Rows:
    """Sorted rows with 16-byte keys and values that do not compress."""
    keys = np.frombuffer(b"".join(b"%016d" % i for i in range(count)), np.uint8)
    values = np.random.default_rng(1).integers(0, 256, count * VALUE, np.uint8)
    created = np.full(count, 1_700_000_000_000, np.int64)
    return Rows(
        Bytes(keys, np.arange(0, count * KEY + 1, KEY)),
        Bytes(values, np.arange(0, count * VALUE + 1, VALUE)),
        np.arange(1, count + 1, dtype=np.uint64),
        np.full(count, HAS_CREATE, np.uint8),
        created,
        np.zeros(count, np.int64),
    )


async def write_run(folder: str, rows: Rows) -> None:
    """A database that holds ``rows`` as one sorted run."""
    runtime = SystemRuntime()
    files = DatabaseFiles(open_store(f"file://{folder}", runtime=runtime), "db", runtime)
    edges = np.linspace(0, len(rows), SSTS + 1).astype(int).tolist()
    views = []
    for first, last in pairwise(edges):
        sst = build_sst(rows.slice(first, last))
        handle = SstHandle(Ulid.new(runtime), sst.info, sst.version)
        await files.store.put(files.paths.compacted(handle.id), sst.tobytes())
        views.append(SstView(handle.id, handle))
    await files.manifests.create_first(Manifest())

    def with_run(old: Manifest) -> Manifest:
        tree = replace(old.root.with_run(SortedRun(0, Views.of(views))), last_compacted_l0_view=views[-1].id)
        return replace(old.with_root(tree), last_l0_seq=len(rows), last_l0_clock_tick=1_700_000_000_000)

    await files.manifests.update(with_run)


async def scan_arrow(folder: str) -> float:
    runtime = SystemRuntime(threads=1)
    files = DatabaseFiles(open_store(f"file://{folder}", runtime=runtime), "db", runtime)
    start = time.perf_counter()
    snapshot = await files.latest()
    rows = 0
    async for batch in snapshot.scan_arrow():
        rows += batch.num_rows
    elapsed = time.perf_counter() - start
    assert rows == ROWS, rows
    return elapsed


async def scan_original(folder: str) -> float:
    builder = original.ObjectStoreBuilder(original.ObjectStoreType.LOCAL)
    builder.with_config("local_path", folder)
    reading = original.DbReaderBuilder("db", builder.build())
    reading.with_reader_mode(original.ReaderMode.FOLLOW_LATEST())
    reader = await reading.build()
    start = time.perf_counter()
    iterator = await reader.scan(EVERYTHING)
    rows = 0
    while batch := await iterator.next_batch(4096):
        rows += len(batch)
    elapsed = time.perf_counter() - start
    assert rows == ROWS, rows
    await reader.shutdown()
    return elapsed
