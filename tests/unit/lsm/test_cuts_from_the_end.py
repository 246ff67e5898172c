"""Cuts for whoever reads backwards: the last part is the first, and the smallest."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.format.columns import Bytes
from slate_engine.lsm.cuts import cut_keys

BLOCKS = st.tuples(st.binary(min_size=1, max_size=3), st.integers(1, 100))
TABLES = st.lists(st.lists(BLOCKS, max_size=20, unique_by=lambda block: block[0]), max_size=4)


@given(TABLES, st.lists(st.integers(1, 150), min_size=1, max_size=4))
def test_parts_grow_from_the_end(tables: list[list[tuple[bytes, int]]], targets: list[int]) -> None:
    # The first separator of a table is empty, whatever its first key is.
    tables = [[(b"" if n == 0 else key, size) for n, (key, size) in enumerate(sorted(table))] for table in tables]
    cuts = cut_keys(
        [Bytes.of([key for key, _ in table]) for table in tables],
        [np.array([size for _, size in table], np.int64) for table in tables],
        targets,
        backwards=True,
    )
    assert all(before < after for before, after in itertools.pairwise(cuts))
    blocks = [block for table in tables for block in table]
    keys = {key for key, _ in blocks}
    assert set(cuts) <= keys - {b""}
    edges = [b"", *cuts, b"\xff" * 4]
    parts = [[block for block in blocks if start <= block[0] < end] for start, end in itertools.pairwise(edges)]
    for number, part in enumerate(reversed(parts[1:])):
        target = targets[min(number, len(targets) - 1)]
        # Large enough, and no larger than it must be: without its lowest key it would be too small.
        assert sum(size for _, size in part) >= target
        lowest = min(key for key, _ in part)
        assert sum(size for key, size in part if key > lowest) < target


def test_tables_without_blocks_are_not_cut() -> None:
    nothing = [Bytes.of([])], [np.empty(0, np.int64)]
    assert cut_keys(*nothing, [10]) == cut_keys(*nothing, [10], backwards=True) == []
