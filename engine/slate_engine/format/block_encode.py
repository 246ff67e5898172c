"""Kernels that write data blocks of version 2: the counterpart of :mod:`slate_engine.format.block_v2`."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from slate_engine.format import checksum
from slate_engine.format.block_v2 import RESTART_INTERVAL
from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, I64, MERGE, TOMBSTONE, U8, U64
from slate_engine.format.fault import (
    BACKWARDS,
    EMPTY_KEY,
    KEY_ORDER,
    OK,
    SEQ_ORDER,
    UNKNOWN_FLAGS,
    VALUE_OF_TOMBSTONE,
)
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import (
    copy,
    load_le64,
    load_u8,
    store_be16,
    store_be32,
    store_be64,
    store_u8,
    trailing_zeros,
)

U16: TypeAlias = npt.NDArray[np.uint16]

# What is carried from call to call about the block under construction, as positions in one array.
BYTES, ROWS, RESTARTS, PUTS, DELETES, MERGES, TOTAL = range(7)


@kernel
def _common_prefix(left: U8, i: int, right: U8, j: int, limit: int) -> int:
    """How many of the next ``limit`` bytes are equal."""
    at = 0
    while at + 8 <= limit:
        difference = load_le64(left, i + at) ^ load_le64(right, j + at)
        if difference:
            return at + (trailing_zeros(difference) >> 3)
        at += 8
    while at < limit and load_u8(left, i + at) == load_u8(right, j + at):
        at += 1
    return at


@kernel
def _varint_size(value: int) -> int:
    size = 1
    while value >= 128:
        value >>= 7
        size += 1
    return size


@kernel
def _put_varint(out: U8, at: int, value: int) -> int:
    while value >= 128:
        store_u8(out, at, (value & 127) | 128)
        value >>= 7
        at += 1
    store_u8(out, at, value)
    return at + 1


@kernel
def close_block(out: U8, start: int, at: int, restarts: I64, count: int, seal: bool) -> int:
    """End the block ``out[start:at]``; gives the position after it and after the room for its checksum."""
    for i in range(count):
        store_be16(out, at, restarts[i])
        at += 2
    store_be16(out, at, count)
    at += 2
    if seal:
        store_be32(out, at, checksum.crc32(out, start, at))
    return at + checksum.SIZE


@kernel
def append_rows(
    keys: U8,
    key_offsets: I64,
    values: U8,
    value_offsets: I64,
    seq: U64,
    flags: U8,
    create_ts: I64,
    expire_ts: I64,
    last_key: U8,
    last_seq: Any,
    by_key: bool,
    block_size: int,
    seal: bool,
    state: I64,
    restarts: I64,
    out: U8,
    ends: I64,
    counts: U16,
    first_rows: I64,
    separators: I64,
) -> tuple[int, int, int, int]:
    """Gives (refusal, row, blocks finished, blocks begun)."""
    start = 0
    at = int(state[BYTES])
    finished = 0
    begun = 0
    previous = 0
    previous_length = len(last_key)
    # Offsets that never fall do not pass the last one, for which there is room.
    keys_end = int(key_offsets[len(seq)])
    values_end = int(value_offsets[len(seq)])
    for row in range(len(seq)):
        key = int(key_offsets[row])
        key_length = int(key_offsets[row + 1]) - key
        value = int(value_offsets[row])
        value_length = int(value_offsets[row + 1]) - value
        bits = int(flags[row])
        if key_length < 0 or value_length < 0 or key + key_length > keys_end or value + value_length > values_end:
            return BACKWARDS, row, finished, begun
        if key_length == 0:
            return EMPTY_KEY, row, finished, begun
        if bits > 15 or bits & (TOMBSTONE | MERGE) == TOMBSTONE | MERGE:
            return UNKNOWN_FLAGS, row, finished, begun
        if bits & TOMBSTONE and value_length > 0:
            return VALUE_OF_TOMBSTONE, row, finished, begun

        shorter = min(key_length, previous_length)
        if row == 0:
            common = _common_prefix(last_key, 0, keys, key, shorter)
        else:
            common = _common_prefix(keys, previous, keys, key, shorter)
        if state[TOTAL] > 0:
            if not by_key:
                if seq[row] < last_seq:
                    return SEQ_ORDER, row, finished, begun
            elif common == shorter:
                if key_length < previous_length or (key_length == previous_length and seq[row] >= last_seq):
                    return KEY_ORDER, row, finished, begun
            else:
                before = load_u8(last_key, common) if row == 0 else load_u8(keys, previous + common)
                if load_u8(keys, key + common) < before:
                    return KEY_ORDER, row, finished, begun

        fixed = 9 + value_length + _varint_size(value_length)
        if bits & HAS_EXPIRE:
            fixed += 8
        if bits & HAS_CREATE:
            fixed += 8
        shared = 0
        overhead = 2 * int(state[RESTARTS]) + 2
        if state[ROWS] % RESTART_INTERVAL == 0:
            overhead += 2
        else:
            shared = common
        unshared = key_length - shared
        size = fixed + _varint_size(shared) + _varint_size(unshared) + unshared
        if state[ROWS] > 0 and at - start + overhead + size > block_size:
            at = close_block(out, start, at, restarts, int(state[RESTARTS]), seal)
            start = at
            ends[finished] = at
            for kind in range(3):
                counts[kind, finished] = state[PUTS + kind]
            finished += 1
            state[ROWS : MERGES + 1] = 0
            shared = 0
            unshared = key_length
        if state[ROWS] == 0:
            first_rows[begun] = row
            separators[begun] = min(common + 1, key_length) if state[TOTAL] > 0 else 0
            begun += 1
        if state[ROWS] % RESTART_INTERVAL == 0:
            restarts[state[RESTARTS]] = at - start
            state[RESTARTS] += 1

        at = _put_varint(out, at, shared)
        at = _put_varint(out, at, unshared)
        at = _put_varint(out, at, value_length)
        copy(out, at, keys, key + shared, unshared)
        at += unshared
        copy(out, at, values, value, value_length)
        at += value_length
        store_be64(out, at, seq[row])
        store_u8(out, at + 8, bits)
        at += 9
        if bits & HAS_EXPIRE:
            store_be64(out, at, expire_ts[row])
            at += 8
        if bits & HAS_CREATE:
            store_be64(out, at, create_ts[row])
            at += 8

        state[ROWS] += 1
        state[TOTAL] += 1
        if bits & TOMBSTONE:
            state[DELETES] += 1
        elif bits & MERGE:
            state[MERGES] += 1
        else:
            state[PUTS] += 1
        previous = key
        previous_length = key_length
        last_seq = seq[row]
    state[BYTES] = at - start
    return OK, 0, finished, begun


@kernel
def gather_prefixes(keys: U8, key_offsets: I64, rows: I64, lengths: I64, out: U8) -> None:
    at = 0
    for i in range(len(rows)):
        copy(out, at, keys, int(key_offsets[rows[i]]), int(lengths[i]))
        at += int(lengths[i])
