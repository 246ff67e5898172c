"""Blocks and filters in plain Python, a row at a time, as the format describes them: a second opinion on the kernels, and
the only writer of version 1 blocks, which the engine just reads."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, TOMBSTONE, Bytes
from slate_engine.format.sst_meta import (
    BlockIndex,
    Codec,
    FilterFormat,
    SstInfo,
    SstType,
    encode_index,
    encode_info,
)

Row = tuple[bytes, bytes, int, int, int, int]
"""key, value, seq, flags, create_ts, expire_ts"""


def common(left: bytes, right: bytes) -> int:
    length = 0
    while length < min(len(left), len(right)) and left[length] == right[length]:
        length += 1
    return length


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def times(flags: int, create_ts: int, expire_ts: int) -> bytes:
    expire = struct.pack(">q", expire_ts) if flags & HAS_EXPIRE else b""
    return expire + (struct.pack(">q", create_ts) if flags & HAS_CREATE else b"")


def entry_v2(row: Row, previous: bytes | None) -> bytes:
    key, value, seq, flags, create_ts, expire_ts = row
    shared = common(previous, key) if previous is not None else 0
    lengths = varint(shared) + varint(len(key) - shared) + varint(len(value))
    return lengths + key[shared:] + value + struct.pack(">QB", seq, flags) + times(flags, create_ts, expire_ts)


def blocks_v2(rows: Sequence[Row], block_size: int) -> Iterator[bytes]:
    """Blocks of version 2, cut by the writer's rule, without checksums."""
    data, restarts, count, previous = b"", [], 0, b""
    for row in rows:
        entry = entry_v2(row, None if count % 16 == 0 else previous)
        extra = 2 if count % 16 == 0 else 0
        if count and len(data) + 2 * len(restarts) + 2 + len(entry) + extra > block_size:
            yield data + struct.pack(f">{len(restarts) + 1}H", *restarts, len(restarts))
            data, restarts, count = b"", [], 0
            entry = entry_v2(row, None)
        if count % 16 == 0:
            restarts.append(len(data))
        data, count, previous = data + entry, count + 1, row[0]
    if count:
        yield data + struct.pack(f">{len(restarts) + 1}H", *restarts, len(restarts))


def entry_v1(row: Row, first: bytes) -> bytes:
    key, value, seq, flags, create_ts, expire_ts = row
    shared = common(first, key)
    head = struct.pack(">HH", shared, len(key) - shared) + key[shared:] + struct.pack(">QB", seq, flags)
    body = b"" if flags & TOMBSTONE else struct.pack(">I", len(value)) + value
    return head + times(flags, create_ts, expire_ts) + body


def blocks_v1(rows: Sequence[Row], block_size: int) -> Iterator[bytes]:
    """Blocks of version 1, cut by the writer's rule, without checksums."""
    data, offsets, first = b"", [], b""
    for row in rows:
        if offsets and 2 + 2 * len(offsets) + len(data) + len(entry_v1(row, first)) > block_size:
            yield data + struct.pack(f">{len(offsets) + 1}H", *offsets, len(offsets))
            data, offsets, first = b"", [], b""
        offsets.append(len(data))
        data += entry_v1(row, first)
        first = first or row[0]
    if offsets:
        yield data + struct.pack(f">{len(offsets) + 1}H", *offsets, len(offsets))


def sealed(payload: bytes) -> bytes:
    return payload + struct.pack(">I", zlib.crc32(payload))


def sst(
    blocks: Sequence[bytes],
    *,
    version: int = 2,
    codec: Codec = Codec.NONE,
    index: Callable[[BlockIndex], BlockIndex] = lambda index: index,
    info: Callable[[SstInfo], SstInfo] = lambda info: info,
    filters: bytes = b"",
    filter_format: FilterFormat = FilterFormat.COMPOSITE,
    meta_offset: int | None = None,
) -> bytes:
    """An SST around payloads that are taken as they are; ``index`` and ``info`` may tell lies about it."""
    sections = [sealed(block) for block in blocks]
    offsets = np.cumsum([0, *map(len, sections)]).astype(np.uint64)
    data = b"".join(sections)
    filter_section = sealed(filters) if filters else b""
    true_index = BlockIndex(offsets[:-1], Bytes.of([b""] * len(blocks)))
    index_section = sealed(encode_index(index(true_index)))
    end = len(data) + len(filter_section) + len(index_section)
    true_info = SstInfo(
        first_entry=b"a",
        last_entry=b"z",
        index_offset=len(data) + len(filter_section),
        index_len=len(index_section),
        filter_offset=len(data),
        filter_len=len(filter_section),
        codec=codec,
        sst_type=SstType.COMPACTED,
        stats_offset=0,
        stats_len=0,
        filter_format=filter_format,
    )
    info_section = sealed(encode_info(info(true_info)))
    at = end if meta_offset is None else meta_offset
    return data + filter_section + index_section + info_section + struct.pack(">QH", at, version)


def siphash13(data: bytes) -> int:
    mask = 0xFFFFFFFFFFFFFFFF
    v = [0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573]

    def rotate(x: int, bits: int) -> int:
        return (x << bits | x >> (64 - bits)) & mask

    def compress() -> None:
        v[0] = (v[0] + v[1]) & mask
        v[1] = rotate(v[1], 13) ^ v[0]
        v[0] = rotate(v[0], 32)
        v[2] = (v[2] + v[3]) & mask
        v[3] = rotate(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & mask
        v[3] = rotate(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & mask
        v[1] = rotate(v[1], 17) ^ v[2]
        v[2] = rotate(v[2], 32)

    padded = data + b"\0" * (7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        compress()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(3):
        compress()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def probes(hashed: int, count: int, bits: int) -> list[int]:
    position, delta = (hashed & 0xFFFFFFFF) % bits, (hashed >> 32) % bits
    found = []
    for i in range(count):
        delta = (delta + i) % bits
        found.append(position)
        position = (position + delta) % bits
    return found


def bloom(hashes: Sequence[int], bits_per_key: int) -> bytes:
    size = -(-len(hashes) * bits_per_key // 8)
    count = int(bits_per_key * 0.69)
    array = bytearray(size)
    for hashed in hashes:
        for probe in probes(hashed, count, 8 * size):
            array[probe >> 3] |= 1 << (probe & 7)
    return struct.pack(">H", count) + bytes(array)
