"""SipHash-1-3 with a zero key, of many byte strings at once: the hash under every bloom filter of SlateDB."""

from __future__ import annotations

from typing import Any

import numpy as np

from slate_engine.format.columns import I64, U8, U64, Bytes
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import load_le64, load_u8, octets, readonly


@kernel
def _rotated(value: Any, bits: int) -> Any:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@kernel
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 += v1
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 += v3
    v3 = _rotated(v3, 16) ^ v2
    v0 += v3
    v3 = _rotated(v3, 21) ^ v0
    v2 += v1
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@kernel
def siphash(data: U8, start: int, length: int) -> Any:
    """The hash of ``data[start:start+length]``, for use inside other kernels."""
    v0 = np.uint64(0x736F6D6570736575)
    v1 = np.uint64(0x646F72616E646F6D)
    v2 = np.uint64(0x6C7967656E657261)
    v3 = np.uint64(0x7465646279746573)
    whole = length & ~7
    for at in range(start, start + whole, 8):
        word = load_le64(data, at)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
    word = np.uint64(length) << np.uint64(56)
    for i in range(length - whole):
        word |= np.uint64(load_u8(data, start + whole + i)) << np.uint64(8 * i)
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= np.uint64(0xFF)
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@kernel
def _each(data: U8, starts: I64, lengths: I64, hashes: U64) -> None:
    for i in range(len(starts)):
        hashes[i] = siphash(data, int(starts[i]), int(lengths[i]))


def hash_items(items: Bytes) -> U64:
    """The hash of every item of a column."""
    return hash_spans(items.data, items.offsets[:-1], items.lengths)


def hash_spans(data: U8, starts: I64, lengths: I64) -> U64:
    """The hash of every ``data[starts[i]:starts[i]+lengths[i]]``."""
    hashes = np.empty(len(starts), np.uint64)
    _each(octets(data), readonly(starts), readonly(lengths), hashes)
    return hashes
