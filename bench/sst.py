"""SSTs of a sorted run of a million rows (16-byte keys, 100-byte values, no compression): building and decoding.

The run lies in local files, in a database that is all ours; the original scans those very files. Both figures are the best
of several, from files that the operating system has in memory, in one process.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from slate_engine.format import checksum
from slate_engine.format.arrow import record_batch
from slate_engine.format.blocks import decode_blocks
from slate_engine.format.columns import HAS_CREATE, Bytes, Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.memory import octets
from slate_engine.format.sst import TAIL_SIZE, open_sst, parse_footer, read_index
from slate_engine.format.sst_build import build_sst
from slate_engine.state.manifest import Manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.state.ssts import SstHandle, Ssts
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import Views

ROWS = 1_000_000
KEY, VALUE = 16, 100
SSTS = 4
NOW_MS = 1_700_000_000_000
CHUNK = 4 << 20
"""Bytes read and decoded at a time."""

BUILD_BAR = 200.0
DECODE_BAR = 20.0


def run() -> Iterator[dict[str, Any]]:
    rows = sorted_rows(ROWS)
    yield build_run(rows)
    yield verify_run(rows)
    with tempfile.TemporaryDirectory() as folder:
        write_run(Path(folder) / "db", rows)
        yield decode_run(Path(folder) / "db")


def sorted_rows(count: int) -> Rows:
    """Rows in key order, each key once; the values do not compress."""
    digits = np.char.zfill(np.arange(count).astype("S12"), KEY - 4)
    keys = np.char.add(b"user", digits).view(np.uint8)
    values = np.random.default_rng(1).integers(0, 256, count * VALUE, dtype=np.uint8)
    places = np.arange(count + 1, dtype=np.int64)
    return Rows(
        Bytes(keys, places * KEY),
        Bytes(values, places * VALUE),
        places[1:].astype(np.uint64),
        np.full(count, HAS_CREATE, np.uint8),
        np.full(count, NOW_MS, np.int64),
        np.zeros(count, np.int64),
    )


def write_run(root: Path, rows: Rows) -> None:
    """A database of one sorted run."""
    for folder in ("manifest", "compacted", "wal"):
        (root / folder).mkdir(parents=True)
    handles = []
    for number in range(SSTS):
        built = build_sst(rows.slice(number * len(rows) // SSTS, (number + 1) * len(rows) // SSTS))
        handles.append(SstHandle(Ulid.of(NOW_MS, number), built.info, built.version))
        (root / "compacted" / f"{handles[-1].id}.sst").write_bytes(built.tobytes())
    tree = Tree().with_run(SortedRun(0, Views.of_ssts(Ssts.of(handles))))
    manifest = Manifest(last_l0_clock_tick=NOW_MS, last_l0_seq=len(rows)).with_root(tree)
    (root / "manifest" / f"{1:020d}.manifest").write_bytes(encode_manifest(manifest))


def build_run(rows: Rows | None = None) -> dict[str, Any]:
    """Raw bytes of rows per second and core, blocks, index, filter, statistics and checksums included."""
    rows = rows or sorted_rows(ROWS)
    raw = rows.keys.nbytes + rows.values.nbytes
    seconds = best_of(5, lambda: build_sst(rows))
    rate = raw / seconds / 1e6
    return {"what": "build of a run, MB/s per core", "figure": round(rate), "bar": BUILD_BAR, "ok": rate >= BUILD_BAR}


def verify_run(rows: Rows | None = None) -> dict[str, Any]:
    """The checksums of a whole SST."""
    data = build_sst(rows or sorted_rows(ROWS)).tobytes()
    blocks = open_sst(data).index()
    seconds = best_of(5, lambda: checksum.verify(octets(data), blocks.starts, blocks.ends, object="", base=0))
    return {
        "what": f"checksums of {len(data) / 1e6:.0f} MB, ms",
        "figure": round(seconds * 1e3, 1),
        "bar": 50,
        "ok": seconds < 0.05,
    }


def decode_run(root: Path) -> dict[str, Any]:
    """Files to Arrow, against the original's scan of the same files."""
    ours = ROWS / best_of(5, lambda: _expect(sum(map(decode_file, sorted((root / "compacted").iterdir())))))
    theirs = ROWS / best_of(2, lambda: _expect(asyncio.run(scan_with_the_original(root))))
    return {
        "what": "decode of a run to Arrow, rows/s",
        "ours": round(ours),
        "original": round(theirs),
        "ratio": round(ours / theirs, 1),
        "bar": DECODE_BAR,
        "ok": ours / theirs >= DECODE_BAR,
    }


def decode_file(path: Path) -> int:
    """All rows of one SST as record batches, the way a scan reads: its end, its index, then ranges of blocks."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - TAIL_SIZE, 0))
        info, version, _ = parse_footer(file.read(), size)
        file.seek(info.index_offset)
        blocks = read_index(file.read(info.index_len), info)
        rows, first = 0, 0
        buffer = memoryview(bytearray(CHUNK + (1 << 20)))
        while first < len(blocks):
            start = int(blocks.starts[first])
            last = int(np.searchsorted(blocks.ends, start + CHUNK, side="right"))
            file.seek(start)
            part = buffer[: int(blocks.ends[last - 1]) - start]
            file.readinto(part)  # type: ignore[attr-defined]
            starts, ends = blocks.starts[first:last], blocks.ends[first:last]
            batch = record_batch(decode_blocks(part, starts, ends, version=version, codec=info.codec, base=start))
            rows += batch.num_rows
            first = last
    return rows


async def scan_with_the_original(root: Path) -> int:
    import slatedb.uniffi as wheel

    store = wheel.ObjectStoreBuilder(wheel.ObjectStoreType.LOCAL)
    store.with_config("local_path", str(root.parent))
    builder = wheel.DbReaderBuilder(root.name, store.build())
    builder.with_reader_mode(wheel.ReaderMode.FOLLOW_LATEST())
    reader = await builder.build()
    everything = wheel.KeyRange(start=None, start_inclusive=True, end=None, end_inclusive=False)
    iterator = await reader.scan(everything)
    rows = 0
    while batch := await iterator.next_batch(4096):
        rows += len(batch)
    await reader.shutdown()
    return rows


def _expect(rows: int) -> None:
    assert rows == ROWS


def best_of(times: int, work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best
