"""Sorted key columns: search, merge, gather.

A merge of K sorted runs is a balanced tree of two-way merges of row numbers. Comparisons look first at one 64-bit word of
each key (the eight bytes after the prefix that all keys share), and only on a tie at the rest, so that they touch the keys
themselves for equal words alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slate_engine.format.columns import I64, U8, U64, Bytes, Rows
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import copy, octets, readonly


@kernel
def compare(a: U8, a_start: int, a_end: int, b: U8, b_start: int, b_end: int) -> int:
    """Below 0, 0 or above 0, as the first string is less than, equal to, or greater than the second. For kernels."""
    common = min(a_end - a_start, b_end - b_start)
    for i in range(common):
        x = a[a_start + i]
        y = b[b_start + i]
        if x != y:
            return -1 if x < y else 1
    if a_end - a_start == b_end - b_start:
        return 0
    return -1 if a_end - a_start < b_end - b_start else 1


@kernel
def _search(data: U8, offsets: I64, key: U8, after_equal: bool) -> int:
    low = 0
    high = len(offsets) - 1
    while low < high:
        middle = (low + high) // 2
        order = compare(data, offsets[middle], offsets[middle + 1], key, 0, len(key))
        if order < 0 or (after_equal and order == 0):
            low = middle + 1
        else:
            high = middle
    return low


def lower_bound(keys: Bytes, key: bytes) -> int:
    """The number of the first of the sorted ``keys`` that is at least ``key``."""
    return _search(readonly(keys.data), readonly(keys.offsets), octets(key), False)


def upper_bound(keys: Bytes, key: bytes) -> int:
    """The number of the first of the sorted ``keys`` that is greater than ``key``."""
    return _search(readonly(keys.data), readonly(keys.offsets), octets(key), True)


@kernel
def _equal_range(data: U8, offsets: I64, key: U8) -> tuple[int, int]:
    first = _search(data, offsets, key, False)
    last = first
    while last < len(offsets) - 1 and compare(data, offsets[last], offsets[last + 1], key, 0, len(key)) == 0:
        last += 1
    return first, last


def equal_range(keys: Bytes, key: bytes) -> tuple[int, int]:
    """The numbers ``[first, last)`` of the sorted ``keys`` that are ``key``."""
    return _equal_range(readonly(keys.data), readonly(keys.offsets), octets(key))


def point_span(separators: Bytes, key: bytes) -> tuple[int, int]:
    """The blocks ``[first, last)`` that may hold ``key``, by their separators. Its versions may begin in the block before
    the first separator that is equal to it."""
    first, last = equal_range(separators, key)
    return max(first - 1, 0), max(last, 1)


@kernel
def _words_after(data: U8, offsets: I64, skip: int) -> U64:
    """The eight bytes of each key after its first ``skip``, as a big-endian number, short keys padded with zeros."""
    count = len(offsets) - 1
    words = np.empty(count, np.uint64)
    for i in range(count):
        start = offsets[i] + skip
        end = min(start + 8, offsets[i + 1])
        word = np.uint64(0)
        for p in range(start, end):
            word = (word << np.uint64(8)) | np.uint64(data[p])
        words[i] = word << np.uint64(8 * (8 - (end - start))) if end > start else np.uint64(0)
    return words


@kernel
def _shared_prefix(data: U8, offsets: I64, numbers: I64) -> int:
    first = offsets[numbers[0]]
    shared: int = offsets[numbers[0] + 1] - first
    for i in range(1, len(numbers)):
        start = offsets[numbers[i]]
        shared = min(shared, offsets[numbers[i] + 1] - start)
        for p in range(shared):
            if data[first + p] != data[start + p]:
                shared = p
                break
    return shared


@kernel
def _merge(data: U8, offsets: I64, bounds: I64, skip: int) -> I64:
    words = _words_after(data, offsets, skip)
    count = len(words)
    order = np.arange(count)
    other = np.empty(count, np.int64)
    bounds = bounds.copy()
    runs = len(bounds) - 1
    while runs > 1:
        merged = 0
        for r in range(0, runs, 2):
            start = bounds[r]
            middle = bounds[r + 1]
            end = bounds[min(r + 2, runs)]
            i = start
            j = middle
            for out in range(start, end):
                if i == middle:
                    take_left = False
                elif j == end:
                    take_left = True
                else:
                    a = order[i]
                    b = order[j]
                    if words[a] != words[b]:
                        take_left = words[a] < words[b]
                    else:
                        take_left = compare(data, offsets[a], offsets[a + 1], data, offsets[b], offsets[b + 1]) <= 0
                if take_left:
                    other[out] = order[i]
                    i += 1
                else:
                    other[out] = order[j]
                    j += 1
            bounds[merged] = start
            merged += 1
        bounds[merged] = count
        runs = merged
        order, other = other, order
    return order


def run_bounds(lengths: Sequence[int] | I64) -> I64:
    """Where each run begins and ends when runs of these lengths stand one after another."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def key_order(keys: Bytes, bounds: I64) -> I64:
    """The order that sorts ``keys``, where keys ``bounds[r]:bounds[r+1]`` are sorted already.

    Stable: of equal keys, the one from the earlier run comes first.
    """
    filled = np.diff(bounds) > 0
    if int(filled.sum()) < 2:
        return np.arange(len(keys))
    data, offsets = readonly(keys.data), readonly(keys.offsets)
    # What all keys share, the smallest and the largest share, and these stand at the edges of the runs.
    edges = np.concatenate([bounds[:-1][filled], bounds[1:][filled] - 1])
    return _merge(data, offsets, readonly(bounds), _shared_prefix(data, offsets, readonly(edges)))


@kernel
def _first_of_key(data: U8, offsets: I64, order: I64) -> U8:
    count = len(order)
    first = np.ones(count, np.uint8)
    for i in range(1, count):
        a = order[i - 1]
        b = order[i]
        if compare(data, offsets[a], offsets[a + 1], data, offsets[b], offsets[b + 1]) == 0:
            first[i] = 0
    return first


def first_of_key(keys: Bytes, order: I64) -> U8:
    """1 where the row at this place of ``order`` has another key than the one before it, else 0."""
    return _first_of_key(readonly(keys.data), readonly(keys.offsets), readonly(order))


@kernel
def _ascents(data: U8, offsets: I64) -> I64:
    """Where in a column each stretch begins in which every key is greater than the one before it; and the end."""
    count = len(offsets) - 1
    bounds = np.empty(count + 1, np.int64)
    found = 0
    for i in range(count):
        if i == 0 or compare(data, offsets[i - 1], offsets[i], data, offsets[i], offsets[i + 1]) >= 0:
            bounds[found] = i
            found += 1
    bounds[found] = count
    return bounds[: found + 1].copy()


def newest_first(keys: Bytes) -> I64:
    """The order that sorts keys which stand in the order of their commits; of equal ones the last comes first. A commit is
    sorted in itself, so there is less to do than it seems."""
    bounds = _ascents(readonly(keys.data), readonly(keys.offsets))
    # Of equal keys, the one from the earlier run comes first: the stretches are taken from the end.
    lengths = np.diff(bounds)[::-1]
    turned = run_bounds(lengths)
    picks = np.arange(len(keys)) + np.repeat(bounds[:-1][::-1] - turned[:-1], lengths)
    return picks[key_order(take_bytes(keys, picks), turned)]


@kernel
def _strictly_ascending(data: U8, offsets: I64) -> bool:
    for i in range(1, len(offsets) - 1):
        if compare(data, offsets[i - 1], offsets[i], data, offsets[i], offsets[i + 1]) >= 0:
            return False
    return True


def is_strictly_ascending(keys: Bytes) -> bool:
    """Whether every key is greater than the one before it: a sorted column without a second version of any key."""
    return _strictly_ascending(readonly(keys.data), readonly(keys.offsets))


@kernel
def _sorted_by_version(data: U8, offsets: I64, seq: U64) -> bool:
    for i in range(1, len(offsets) - 1):
        order = compare(data, offsets[i - 1], offsets[i], data, offsets[i], offsets[i + 1])
        if order > 0 or (order == 0 and seq[i - 1] <= seq[i]):
            return False
    return True


def is_sorted_by_version(rows: Rows) -> bool:
    """Whether rows are in the order of an SST: by key, and of each key the newest version first, none twice."""
    return _sorted_by_version(readonly(rows.keys.data), readonly(rows.keys.offsets), readonly(rows.seq))


@kernel
def _gather(data: U8, offsets: I64, picks: I64, blank: U8, out_offsets: I64) -> U8:
    total = 0
    out_offsets[0] = 0
    for i in range(len(picks)):
        if len(blank) == 0 or not blank[i]:
            total += offsets[picks[i] + 1] - offsets[picks[i]]
        out_offsets[i + 1] = total
    out = np.empty(total, np.uint8)
    for i in range(len(picks)):
        copy(out, out_offsets[i], data, offsets[picks[i]], out_offsets[i + 1] - out_offsets[i])
    return out


_NONE_BLANK = np.empty(0, np.uint8)


def take_bytes(column: Bytes, picks: I64, blank: U8 = _NONE_BLANK) -> Bytes:
    """The items at these row numbers, in this order, in a buffer of their own; empty where ``blank`` is not 0."""
    offsets = np.empty(len(picks) + 1, np.int64)
    data = _gather(readonly(column.data), readonly(column.offsets), readonly(picks), readonly(blank), offsets)
    return Bytes(data, offsets)


def take(rows: Rows, picks: I64) -> Rows:
    """The rows at these numbers, in this order, in buffers of their own."""
    return Rows(
        take_bytes(rows.keys, picks),
        take_bytes(rows.values, picks),
        rows.seq[picks],
        rows.flags[picks],
        rows.create_ts[picks],
        rows.expire_ts[picks],
    )


def concat_bytes(columns: Sequence[Bytes]) -> Bytes:
    """One column after another."""
    if len(columns) == 1:
        return columns[0]
    parts = [column.data[column.offsets[0] : column.offsets[-1]] for column in columns]
    offsets = np.zeros(sum(len(column) for column in columns) + 1, np.int64)
    np.cumsum(np.concatenate([column.lengths for column in columns]), out=offsets[1:])
    return Bytes(np.concatenate(parts), offsets)


def concat(parts: Sequence[Rows]) -> Rows:
    """One batch after another."""
    if len(parts) == 1:
        return parts[0]
    return Rows(
        concat_bytes([rows.keys for rows in parts]),
        concat_bytes([rows.values for rows in parts]),
        np.concatenate([rows.seq for rows in parts]),
        np.concatenate([rows.flags for rows in parts]),
        np.concatenate([rows.create_ts for rows in parts]),
        np.concatenate([rows.expire_ts for rows in parts]),
    )
