"""Data blocks of version 1, which older releases wrote: ``entries ‖ entry offsets u16 BE × n ‖ n u16 BE``.

An entry is u16 BE shared, u16 BE unshared, key suffix, seq u64 BE, flags u8, expire_ts and create_ts (i64 BE) as the flags
say, and unless it is a tombstone u32 BE value length, value. ``shared`` counts bytes of the *first* key of the block. The
two passes are those of :mod:`slate_engine.format.block_v2`.
"""

from __future__ import annotations

import numpy as np

from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, I64, MERGE, TOMBSTONE, U8, U64
from slate_engine.format.fault import (
    BAD_FLAGS,
    BAD_OFFSET,
    BAD_SHARED,
    CUT_SHORT,
    NO_KEY,
    NO_ROWS,
    NO_TRAILER,
    OK,
    TOO_MANY_KEYS,
)
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import copy, load_be16, load_be32, load_be64, load_u8

KEY_EXPANSION = 1024
"""The keys of a block come to at most this many times its bytes: in a block of 64 KiB that is half first key, and half rows
of 19 bytes that share all of it, it is 862 times."""


@kernel
def measure(buffer: U8, starts: I64, ends: I64, rows: I64, key_bytes: I64, value_bytes: I64) -> tuple[int, int, int]:
    """Check the blocks ``[starts[b], ends[b])`` and count what each holds. Gives (fault code, block, position)."""
    for b in range(len(starts)):
        start = int(starts[b])
        end = int(ends[b])
        if end - start < 2:
            return NO_TRAILER, b, start
        count = load_be16(buffer, end - 2)
        data_end = end - 2 - 2 * count
        if data_end < start:
            return NO_TRAILER, b, end - 2
        if count == 0:
            return NO_ROWS, b, start
        keys = 0
        values = 0
        first_length = 0
        at = start
        for i in range(count):
            entry = at
            if entry - start != load_be16(buffer, data_end + 2 * i):
                return BAD_OFFSET, b, data_end + 2 * i
            if at + 4 > data_end:
                return CUT_SHORT, b, entry
            shared = load_be16(buffer, at)
            unshared = load_be16(buffer, at + 2)
            at += 4 + unshared
            if shared > first_length:
                return BAD_SHARED, b, entry
            if shared + unshared == 0:
                return NO_KEY, b, entry
            if i == 0:
                first_length = unshared
            if at + 9 > data_end:
                return CUT_SHORT, b, entry
            flags = load_u8(buffer, at + 8)
            if flags > 15 or flags & (TOMBSTONE | MERGE) == TOMBSTONE | MERGE:
                return BAD_FLAGS, b, at + 8
            at += 9
            if flags & HAS_EXPIRE:
                at += 8
            if flags & HAS_CREATE:
                at += 8
            if not flags & TOMBSTONE:
                if at + 4 > data_end:
                    return CUT_SHORT, b, entry
                value_length = load_be32(buffer, at)
                at += 4 + value_length
                values += value_length
            if at > data_end:
                return CUT_SHORT, b, entry
            keys += shared + unshared
        if at != data_end:
            return BAD_OFFSET, b, at
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
    """Copy measured blocks into columns, block ``b`` from row ``first_row[b]`` on."""
    for b in range(len(starts)):
        end = int(ends[b])
        data_end = end - 2 - 2 * load_be16(buffer, end - 2)
        at = int(starts[b])
        row = int(first_row[b])
        key = int(first_key[b])
        value = int(first_value[b])
        while at < data_end:
            shared = load_be16(buffer, at)
            unshared = load_be16(buffer, at + 2)
            at += 4
            copy(keys, key, keys, int(first_key[b]), shared)
            copy(keys, key + shared, buffer, at, unshared)
            key += shared + unshared
            at += unshared
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
            if bits & TOMBSTONE:
                # As in SlateDB: when a deletion would have expired is read over.
                bits &= ~HAS_EXPIRE
                expire = np.uint64(0)
            else:
                value_length = load_be32(buffer, at)
                at += 4
                if with_values:
                    copy(values, value, buffer, at, value_length)
                    value += value_length
                at += value_length
            flags[row] = bits
            expire_ts[row] = np.int64(expire)
            create_ts[row] = np.int64(create)
            row += 1
            key_offsets[row] = key
            value_offsets[row] = value
