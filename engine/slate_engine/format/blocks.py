"""Data blocks to rows: one call for any number of blocks of one file, whatever their version and codec."""

from __future__ import annotations

from typing import Any

import numpy as np

from slate_engine.errors import CorruptData, UnsupportedFormat
from slate_engine.format import block_v1, block_v2, checksum
from slate_engine.format.codec import decompress_many
from slate_engine.format.columns import EMPTY, I64, U8, Bytes, Rows
from slate_engine.format.fault import FAULTS, OK
from slate_engine.format.memory import LOOSE, octets, readonly
from slate_engine.format.sst_meta import Codec

VERSIONS = {1: block_v1, 2: block_v2}
"""The block layout of each SST version."""

READ_LIMIT = 2 << 30
"""What one call may allocate, unless the file bytes it was handed are a considerable part of that themselves."""


def decode_blocks(
    data: Any,
    starts: I64,
    ends: I64,
    *,
    version: int,
    codec: Codec,
    object: str = "",
    base: int = 0,
    values: bool = True,
) -> Rows:
    """Decode the blocks at bytes ``[starts[i], ends[i])`` of an object, checksums included and checked.

    ``data`` holds the object from byte ``base`` on, and must not change meanwhile. Without ``values`` that column is empty,
    and copying it is saved. Give a scan's worth of blocks at once, a few megabytes: then the work per call does not count,
    and the bytes are still in the processor's cache when the second pass comes by.
    """
    if version not in VERSIONS:
        raise UnsupportedFormat(f"{object or 'buffer'} has version {version}; this engine reads {sorted(VERSIONS)}")
    if not len(starts):
        return EMPTY
    buffer = octets(data)
    local_starts, local_ends = starts - base, ends - base
    checksum.verify(buffer, local_starts, local_ends, object=object, base=base)
    local_ends -= checksum.SIZE
    limit = max(READ_LIMIT, 16 * len(buffer))
    if codec is Codec.NONE:
        return _rows(buffer, local_starts, local_ends, version, values, limit, object, base)
    buffer, at, until = decompress_many(codec, buffer, local_starts, local_ends, object=object, base=base, limit=limit)
    return _rows(buffer, at, until, version, values, limit, object, base, packed=starts)


def _rows(
    buffer: U8,
    starts: I64,
    ends: I64,
    version: int,
    with_values: bool,
    limit: int,
    object: str,
    base: int,
    packed: I64 | None = None,
) -> Rows:
    layout = VERSIONS[version]
    starts, ends = readonly(starts), readonly(ends)
    counts = np.empty((3, len(starts)), np.int64)
    fault, block, at = layout.measure(buffer, starts, ends, counts[0], counts[1], counts[2])
    if fault != OK:
        if packed is None:
            raise CorruptData(FAULTS[fault], object=object, offset=base + at)
        inside = f"{FAULTS[fault]} (byte {at - int(starts[block])} of the unpacked block)"
        raise CorruptData(inside, object=object, offset=int(packed[block]))
    if not with_values:
        counts[2] = 0
    firsts = np.zeros((3, len(starts) + 1), np.int64)
    np.cumsum(counts, axis=1, out=firsts[:, 1:])
    rows, key_bytes, value_bytes = firsts[:, -1].tolist()
    if 41 * rows + key_bytes + value_bytes > limit:
        raise UnsupportedFormat(
            f"{len(starts)} blocks of {object or 'buffer'} come to {key_bytes + value_bytes} bytes in {rows} rows; "
            "read fewer blocks at once"
        )
    keys, values = np.empty(key_bytes + LOOSE, np.uint8), np.empty(value_bytes, np.uint8)
    key_offsets, value_offsets = np.empty(rows + 1, np.int64), np.empty(rows + 1, np.int64)
    key_offsets[0] = value_offsets[0] = 0
    seq, flags = np.empty(rows, np.uint64), np.empty(rows, np.uint8)
    create_ts, expire_ts = np.empty(rows, np.int64), np.empty(rows, np.int64)
    layout.fill(
        buffer,
        starts,
        ends,
        *(readonly(first) for first in firsts),
        with_values,
        keys,
        key_offsets,
        values,
        value_offsets,
        seq,
        flags,
        create_ts,
        expire_ts,
    )
    return Rows(Bytes(keys[:key_bytes], key_offsets), Bytes(values, value_offsets), seq, flags, create_ts, expire_ts)
