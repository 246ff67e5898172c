"""Where to cut a key range so that each part is about as many bytes to read as the next.

The block indexes of the SSTs say how many bytes lie between which keys. Merging their separators and adding up the bytes
gives cut keys without reading any data. Scans read part after part, a bulk read gives each part to a task, a compaction
works on several at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slate_engine.format.columns import I64, U64, Bytes
from slate_engine.lsm.order import concat_bytes, key_order, run_bounds

MARK_BYTES = 32 << 10
"""Rows in memory are marked after about so many bytes, as an SST is by its blocks."""


def marks(rows: int, nbytes: int) -> tuple[I64, I64]:
    """Where to mark a sorted run of so many rows and bytes: row numbers, and about how many bytes lie from each to the
    next."""
    average = max(1, nbytes // max(1, rows))
    step = max(1, MARK_BYTES // average)
    return np.arange(0, rows, step), np.minimum(np.arange(rows, 0, -step), step) * average


def cut_keys(
    separators: Sequence[Bytes], sizes: Sequence[U64 | I64], targets: Sequence[int], *, backwards: bool = False
) -> list[bytes]:
    """Keys that cut everything below these blocks into parts, the i-th of about ``targets[i]`` bytes (the last target
    serves for all further parts), counted from the first key on, or ``backwards`` from the last.

    ``separators[t]`` are the first keys of the blocks of table ``t`` and ``sizes[t]`` their bytes. A cut is one of the
    separators: part ``i`` holds the keys from cut ``i-1`` on and below cut ``i``.
    """
    if not sum(len(column) for column in separators):
        return []
    keys = concat_bytes(separators)
    order = key_order(keys, run_bounds([len(column) for column in separators]))
    ordered = np.concatenate(sizes)[order].astype(np.int64)
    return _from_the_end(keys, order, ordered, targets) if backwards else _from_the_start(keys, order, ordered, targets)


def _from_the_start(keys: Bytes, order: I64, sizes: I64, targets: Sequence[int]) -> list[bytes]:
    before = np.cumsum(sizes) - sizes
    cuts: list[bytes] = []
    start = 0
    while True:
        goal = int(before[start]) + targets[min(len(cuts), len(targets) - 1)]
        start = int(np.searchsorted(before, goal, side="left"))
        # Several tables may have a block that begins with the same key; a cut must leave something on both sides.
        while start < len(order) and keys[int(order[start])] <= (cuts[-1] if cuts else b""):
            start += 1
        if start == len(order):
            return cuts
        cuts.append(keys[int(order[start])])


def _from_the_end(keys: Bytes, order: I64, sizes: I64, targets: Sequence[int]) -> list[bytes]:
    turned = order[::-1]
    behind = np.cumsum(sizes[::-1])
    cuts: list[bytes] = []
    start, done = 0, 0
    while True:
        goal = done + targets[min(len(cuts), len(targets) - 1)]
        start = max(start, int(np.searchsorted(behind, goal, side="left")))
        # Nothing is below the empty separator, which the first block of every table has.
        if start == len(turned) or not keys[int(turned[start])]:
            return cuts[::-1]
        cuts.append(keys[int(turned[start])])
        while start < len(turned) and keys[int(turned[start])] == cuts[-1]:
            done = int(behind[start])
            start += 1
