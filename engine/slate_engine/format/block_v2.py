"""Data blocks of version 2, many at a time: ``entries ‖ restart offsets u16 BE × r ‖ r u16 BE``.

An entry is varint shared, varint unshared, varint value length, key suffix, value, seq u64 BE, flags u8, then expire_ts and
create_ts (i64 BE) as the flags say. ``shared`` counts bytes of the *previous* key; at a restart (every 16th entry) it is 0.

Reading takes two passes. :func:`measure` walks the entries, checks every bound and says what they come to, so that the
columns are allocated exactly; :func:`fill` then copies, and checks nothing: the bytes must be the ones that were measured.
"""

from __future__ import annotations

import numpy as np

from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, I64, MERGE, TOMBSTONE, U8, U64
from slate_engine.format.fault import (
    BAD_FLAGS,
    BAD_RESTART,
    BAD_SHARED,
    BAD_VARINT,
    CUT_SHORT,
    DELETED_VALUE,
    NO_KEY,
    NO_ROWS,
    NO_TRAILER,
    OK,
    TOO_MANY_KEYS,
)
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import LOOSE, copy, copy_loose, load_be16, load_be64, load_le64, load_u8

RESTART_INTERVAL = 16

KEY_EXPANSION = RESTART_INTERVAL
"""The keys of a block come to at most this many times its bytes: each of the up to 16 keys of a restart group is made of
bytes of that group. A block that shares more was made to exhaust memory."""


@kernel
def read_varint(buffer: U8, at: int, end: int) -> tuple[int, int]:
    """An unsigned LEB128 of 32 bits: its value (-1 if there is none) and the position after it."""
    value = 0
    shift = 0
    while at < end:
        byte = load_u8(buffer, at)
        at += 1
        if shift == 28 and byte > 15:
            break
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return -1, at


@kernel
def read_lengths(buffer: U8, at: int, end: int) -> tuple[int, int, int, int]:
    """The three lengths that a row begins with (-1 for one that is not there), and the position after them."""
    if at + 8 <= end:
        word = load_le64(buffer, at)
        if word & np.uint64(0x808080) == np.uint64(0):  # a byte each, as nearly always
            return load_u8(buffer, at), load_u8(buffer, at + 1), load_u8(buffer, at + 2), at + 3
    shared, at = read_varint(buffer, at, end)
    unshared, at = read_varint(buffer, at, end)
    value_length, at = read_varint(buffer, at, end)
    return shared, unshared, value_length, at


@kernel
def measure(buffer: U8, starts: I64, ends: I64, rows: I64, key_bytes: I64, value_bytes: I64) -> tuple[int, int, int]:
    """Check the blocks ``[starts[b], ends[b])`` and count what each holds. Gives (fault code, block, position)."""
    for b in range(len(starts)):
        start = int(starts[b])
        end = int(ends[b])
        if end - start < 2:
            return NO_TRAILER, b, start
        restarts = load_be16(buffer, end - 2)
        data_end = end - 2 - 2 * restarts
        if data_end < start:
            return NO_TRAILER, b, end - 2
        if data_end == start or restarts == 0:
            return NO_ROWS, b, start
        next_restart = start + load_be16(buffer, data_end)
        seen_restarts = 0
        count = 0
        keys = 0
        values = 0
        key_length = 0
        at = start
        while at < data_end:
            entry = at
            shared, unshared, value_length, at = read_lengths(buffer, at, data_end)
            if shared < 0 or unshared < 0 or value_length < 0:
                return BAD_VARINT, b, entry
            if entry == next_restart:
                if shared != 0:
                    return BAD_RESTART, b, entry
                seen_restarts += 1
                next_restart = -1
                if seen_restarts < restarts:
                    next_restart = start + load_be16(buffer, data_end + 2 * seen_restarts)
            if shared > key_length:
                return BAD_SHARED, b, entry
            key_length = shared + unshared
            if key_length == 0:
                return NO_KEY, b, entry
            at += unshared + value_length
            if at + 9 > data_end:
                return CUT_SHORT, b, entry
            flags = load_u8(buffer, at + 8)
            if flags > 15 or flags & (TOMBSTONE | MERGE) == TOMBSTONE | MERGE:
                return BAD_FLAGS, b, at + 8
            if flags & TOMBSTONE and value_length > 0:
                return DELETED_VALUE, b, entry
            at += 9
            if flags & HAS_EXPIRE:
                at += 8
            if flags & HAS_CREATE:
                at += 8
            if at > data_end:
                return CUT_SHORT, b, entry
            count += 1
            keys += key_length
            values += value_length
        if seen_restarts != restarts:
            return BAD_RESTART, b, data_end
        if keys > KEY_EXPANSION * (end - start):
            return TOO_MANY_KEYS, b, start
        rows[b] = count
        key_bytes[b] = keys
        value_bytes[b] = values
    return OK, 0, 0


@kernel
def fill(
    buffer: U8,
    starts: I64,
    ends: I64,
    first_row: I64,
    first_key: I64,
    first_value: I64,
    with_values: bool,
    keys: U8,
    key_offsets: I64,
    values: U8,
    value_offsets: I64,
    seq: U64,
    flags: U8,
    create_ts: I64,
    expire_ts: I64,
) -> None:
    """Copy measured blocks into columns, block ``b`` from row ``first_row[b]`` on. ``keys`` has ``LOOSE`` bytes to spare."""
    for b in range(len(starts)):
        end = int(ends[b])
        data_end = end - 2 - 2 * load_be16(buffer, end - 2)
        at = int(starts[b])
        row = int(first_row[b])
        key = int(first_key[b])
        value = int(first_value[b])
        previous = key
        while at < data_end:
            shared, unshared, value_length, at = read_lengths(buffer, at, data_end)
            if shared <= LOOSE and unshared <= LOOSE and at + LOOSE <= len(buffer):
                copy_loose(keys, key, keys, previous)
                copy_loose(keys, key + shared, buffer, at)
            else:
                copy(keys, key, keys, previous, shared)
                copy(keys, key + shared, buffer, at, unshared)
            previous = key
            key += shared + unshared
            at += unshared
            if with_values:
                copy(values, value, buffer, at, value_length)
                value += value_length
            at += value_length
            seq[row] = load_be64(buffer, at)
            bits = load_u8(buffer, at + 8)
            at += 9
            expire = np.uint64(0)
            if bits & HAS_EXPIRE:
                expire = load_be64(buffer, at)
                at += 8
            create = np.uint64(0)
            if bits & HAS_CREATE:
                create = load_be64(buffer, at)
                at += 8
            flags[row] = bits
            expire_ts[row] = np.int64(expire)
            create_ts[row] = np.int64(create)
            row += 1
            key_offsets[row] = key
            value_offsets[row] = value
