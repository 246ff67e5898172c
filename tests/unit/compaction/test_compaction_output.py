"""Runs as they are cut into SSTs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from slate_engine.format.columns import HAS_CREATE, Rows
from slate_engine.format.sst import open_sst
from slate_engine.format.sst_build import SstOptions
from slate_engine.format.sst_meta import Codec
from slate_engine.lsm.compaction.output import Piece, RunBuilder

BLOCK = 1024
MANY = 1 << 30


def sample(keys: int, versions: int = 1, value: int = 50) -> Rows:
    rng = np.random.default_rng(3)
    return Rows.of(
        [
            (b"key%05d" % k, rng.bytes(value), k * versions + versions - v, HAS_CREATE, 7, 0)
            for k in range(keys)
            for v in range(versions)
        ]
    )


def built(builder: RunBuilder, batches: list[Rows]) -> list[bytes]:
    pieces: list[Piece] = [piece for batch in batches for piece in builder.append(batch)]
    pieces += builder.finish()
    files: list[bytes] = []
    current: list[bytes] = []
    for piece in pieces:
        current += map(bytes, piece.chunks)
        if piece.built is not None:
            files.append(b"".join(current))
            assert len(files[-1]) == piece.built.size
            current = []
    assert not current
    return files


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("batch", [1, 7, 400, 5000])
def test_ssts_are_about_as_large_as_asked_and_hold_all_rows(batch: int, codec: Codec) -> None:
    rows = sample(2000)
    options = SstOptions(block_size=BLOCK, codec=codec)
    batches = [rows.slice(i, min(i + batch, len(rows))) for i in range(0, len(rows), batch)]
    files = built(RunBuilder(options, 20 * BLOCK, MANY), batches)
    assert [row for file in files for row in open_sst(file).rows().tuples()] == list(rows.tuples())
    sizes = [int(open_sst(file).index().ends[-1]) for file in files]
    assert len(files) > 3
    assert all(20 * BLOCK < size < 24 * BLOCK for size in sizes[:-1])


def test_how_rows_come_does_not_change_a_small_cut() -> None:
    """Even a limit of two blocks is kept to, whatever the size of the batches."""
    rows = sample(600)
    files = built(RunBuilder(SstOptions(block_size=BLOCK), 2 * BLOCK, MANY), [rows])
    assert all(len(open_sst(file).index()) <= 4 for file in files)


def test_versions_of_a_key_may_straddle_two_ssts() -> None:
    files = [
        open_sst(file) for file in built(RunBuilder(SstOptions(block_size=BLOCK), 2 * BLOCK, MANY), [sample(3, 100)])
    ]
    edges = [(before.info.last_entry, after.info.first_entry) for before, after in pairwise(files)]
    assert any(last == first for last, first in edges)


def test_nothing_comes_of_nothing() -> None:
    assert built(RunBuilder(SstOptions(), 1 << 20, MANY), [sample(0)]) == []


def test_an_sst_has_so_many_rows_at_most() -> None:
    files = built(RunBuilder(SstOptions(block_size=BLOCK), 1 << 30, 300), [sample(450), sample(0)])
    assert [len(open_sst(file).rows()) for file in files] == [300, 150]
