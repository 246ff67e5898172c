"""Cuts are separators in order, and part the bytes as asked."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.format.columns import Bytes
from slate_engine.lsm.cuts import cut_keys


def first(block: tuple[bytes, int]) -> bytes:
    return block[0]


tables = st.lists(
    st.lists(
        st.tuples(st.binary(max_size=4), st.integers(1, 50)), min_size=1, max_size=30, unique_by=lambda b: b[0]
    ).map(sorted),
    max_size=5,
)


@given(tables, st.lists(st.integers(1, 200), min_size=1, max_size=3))
def test_parts_reach_their_target_with_the_block_that_crosses_it(
    drawn: list[list[tuple[bytes, int]]], targets: list[int]
) -> None:
    cuts = cut_keys(
        [Bytes.of(key for key, _ in table) for table in drawn],
        [np.array([size for _, size in table], np.uint64) for table in drawn],
        targets,
    )
    blocks = sorted(block for table in drawn for block in table)
    assert cuts == sorted(set(cuts))
    assert b"" not in cuts
    assert set(cuts) <= {key for key, _ in blocks}
    edges = [b"", *cuts]
    for i, (low, high) in enumerate(zip(edges, cuts, strict=False)):
        part = [size for key, size in blocks if low <= key < high]
        twins = sum(size for key, size in blocks if key == high)
        assert sum(part) + twins >= targets[min(i, len(targets) - 1)]


def test_equal_blocks_are_shared_out_evenly() -> None:
    column = Bytes.of(b"%04d" % i for i in range(1000))
    sizes = np.full(1000, 4096, np.uint64)
    assert cut_keys([column, column], [sizes, sizes], [8192 * 100]) == [b"%04d" % i for i in range(100, 1000, 100)]
    assert cut_keys([], [], [1]) == []
