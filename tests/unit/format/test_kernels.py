"""A process pays for compiling once per machine: one signature per kernel, and none that misses the cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

EVERYTHING = """
import numpy as np
from slate_engine.format.arrow import record_batch
from slate_engine.format.columns import Bytes, Rows
from slate_engine.format.filters import Bloom, FixedPrefix, choose
from slate_engine.format.kernel import compilations
from slate_engine.format import block_encode, block_v1, block_v2, blocks, bloom, checksum, filters, siphash
from slate_engine.format.sst import open_sst
from slate_engine.format.sst_build import SstBuilder, SstOptions, build_sst
from slate_engine.format.sst_meta import Codec
from slate_engine.format.wal import build_wal_sst, read_wal
from tests.unit.format.plain import blocks_v1, sst

tuples = [(b"k%05d" % i, b"v" * (i % 9), 1000 - i, 0, 0, 0) for i in range(500)]
rows = Rows.of(tuples)
for codec in Codec:
    for policy in (Bloom(), Bloom(10, FixedPrefix(3))):
        data = build_sst(rows, SstOptions(block_size=256, codec=codec, min_filter_keys=0, filters=(policy,))).tobytes()
        for form in (data, bytearray(data), memoryview(data), np.frombuffer(data, np.uint8).copy()):
            opened = open_sst(form)
            again = opened.rows()
            record_batch(again)
            opened.rows(1, 2, values=False)
            for chosen, found in choose(opened.filters(), (policy,)):
                chosen.may_have_keys(found, again.keys)
                chosen.may_have_prefix(found, b"k000")
        builder = SstBuilder(SstOptions(codec=codec))
        for start in range(0, 500, 7):
            builder.append(again.slice(start, min(start + 7, 500)))
        builder.finish()
old = open_sst(sst(list(blocks_v1(tuples, 256)), version=1)).rows()
build_sst(old.slice(3, 400))
rising = Rows(rows.keys, rows.values, rows.seq[::-1].copy(), rows.flags, rows.create_ts, rows.expire_ts)
read_wal(build_wal_sst(rising).tobytes())

entries = {
    "append": block_encode.append_rows, "gather": block_encode.gather_prefixes, "close": block_encode.close_block,
    "measure 1": block_v1.measure, "fill 1": block_v1.fill, "measure 2": block_v2.measure, "fill 2": block_v2.fill,
    "insert": bloom._insert, "lookup": bloom._lookup, "checksum": checksum._first_mismatch,
    "prefixes": filters._starts_run, "hash": siphash._each,
}
for name, kernel in entries.items():
    assert len(kernel.signatures) == 1, (name, kernel.signatures)
print(compilations())
"""


def compiled_by_a_fresh_process() -> int:
    done = subprocess.run(
        [sys.executable, "-c", EVERYTHING], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_warm_process_compiles_nothing() -> None:
    compiled_by_a_fresh_process()
    assert compiled_by_a_fresh_process() == 0
