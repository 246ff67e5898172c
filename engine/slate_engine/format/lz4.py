"""LZ4 blocks, thousands in a call.

A data block has four kilobytes, and its compression takes a few microseconds: calling a library for each costs as much
again, and holds the GIL for it, which keeps the other threads of a compaction waiting. So the codec is a kernel like the
decoding of rows. The format is the public one ("LZ4 Block Format Description"), behind a size of four bytes as SlateDB has
it: sequences of a token, literals, and a match that lies up to 64 KiB behind; the last five bytes are always literals, and
no match begins in the last twelve.
"""

from __future__ import annotations

import numpy as np

from slate_engine.format.columns import I64, U8
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import (
    LOOSE,
    copy,
    copy_loose,
    load_be64,
    load_le64,
    load_u8,
    readonly,
    store_be64,
    store_u8,
    trailing_zeros,
)

LARGEST = 0x7E000000
"""The format's own limit for one block."""

SIZE = 4
"""Bytes in front of a block: how large it is unpacked, little-endian."""

_HASH_BITS = 12
_MIN_MATCH = 4
_LAST_LITERALS = 5
_NO_MATCH_FROM = 12
_FAR = 65535
_SKIP = 6
"""After so many doublings of disappointed looks the search takes longer steps: what does not shrink is passed quickly."""


def pack_many(data: U8, starts: I64, ends: I64, gap: int) -> tuple[U8, I64]:
    """Each part of ``data`` packed, with ``gap`` bytes of room behind each; and where each room ends."""
    size = int((ends - starts).sum())
    out = np.empty(size + size // 255 + (16 + SIZE + gap) * len(starts) + LOOSE, np.uint8)
    places = np.empty(len(starts), np.int64)
    _pack_many(data, readonly(starts), readonly(ends), gap, out, places)
    return out[: int(places[-1]) if len(places) else 0], places


def claimed_sizes(buffer: U8, starts: I64) -> I64:
    """How large each block says that it is."""
    sizes: I64 = (buffer[starts[:, None] + np.arange(SIZE)].astype(np.int64) << 8 * np.arange(SIZE)).sum(axis=1)
    return sizes


def unpack_many(buffer: U8, starts: I64, ends: I64, bounds: I64) -> tuple[U8, int]:
    """Unpack each block to ``[bounds[i], bounds[i+1])`` of an arena; gives it, and the number of the first block that does
    not hold so much exactly, or -1."""
    arena = np.empty(int(bounds[-1]) + LOOSE, np.uint8)
    wrong = _unpack_many(buffer, readonly(starts), readonly(ends), readonly(bounds), arena)
    return arena[: int(bounds[-1])], wrong


@kernel
def _put_length(out: U8, at: int, length: int) -> int:
    while length >= 255:
        store_u8(out, at, 255)
        length -= 255
        at += 1
    store_u8(out, at, length)
    return at + 1


@kernel
def _put_literals(data: U8, start: int, length: int, out: U8, at: int) -> int:
    """The token and the literals behind it; gives the position after them. The low half of the token stays zero."""
    store_u8(out, at, min(length, 15) << 4)
    at += 1
    if length >= 15:
        at = _put_length(out, at, length - 15)
    if length <= LOOSE and start + LOOSE <= len(data):
        copy_loose(out, at, data, start)
    else:
        copy(out, at, data, start, length)
    return at + length


@kernel
def _equal_bytes(data: U8, left: int, right: int, end: int) -> int:
    """How many bytes from the two positions on are equal; the right one goes up to ``end``."""
    at = right
    while at + 8 <= end:
        difference = load_le64(data, left) ^ load_le64(data, at)
        if difference:
            return at + (trailing_zeros(difference) >> 3) - right
        at += 8
        left += 8
    while at < end and load_u8(data, left) == load_u8(data, at):
        at += 1
        left += 1
    return at - right


@kernel
def _slot(word: np.uint64) -> np.uint64:
    """Where positions of these first five bytes are remembered. Unsigned, so that no index counts from the end."""
    return ((word << np.uint64(24)) * np.uint64(889523592379)) >> np.uint64(64 - _HASH_BITS)


@kernel
def _pack(data: U8, start: int, end: int, out: U8, at: int, table: I64) -> int:
    """Pack ``data[start:end]`` to ``out`` from ``at`` on; gives the position after it.

    ``table`` may hold what earlier calls with the same ``data`` have left: only what lies in this block is used."""
    size = end - start
    for byte in range(SIZE):
        store_u8(out, at + byte, (size >> (8 * byte)) & 255)
    at += SIZE
    unwritten = start
    here = start
    last = end - _NO_MATCH_FROM
    misses = 1 << _SKIP
    four = np.uint64(0xFFFFFFFF)
    while here <= last:
        word = load_le64(data, here)
        slot = _slot(word)
        match = table[slot]
        table[slot] = here
        if match < start or match >= here or here - match > _FAR or (load_le64(data, match) ^ word) & four:
            here += misses >> _SKIP
            misses += 1
            continue
        misses = 1 << _SKIP
        while here > unwritten and match > start and load_u8(data, here - 1) == load_u8(data, match - 1):
            here -= 1
            match -= 1
        token = at
        literals = here - unwritten
        at = _put_literals(data, unwritten, literals, out, at)
        offset = here - match
        store_u8(out, at, offset & 255)
        store_u8(out, at + 1, offset >> 8)
        at += 2
        extra = _equal_bytes(data, match + _MIN_MATCH, here + _MIN_MATCH, end - _LAST_LITERALS)
        store_u8(out, token, min(literals, 15) << 4 | min(extra, 15))
        if extra >= 15:
            at = _put_length(out, at, extra - 15)
        here += _MIN_MATCH + extra
        unwritten = here
        if here <= last:
            table[_slot(load_le64(data, here - 2))] = here - 2
    return _put_literals(data, unwritten, end - unwritten, out, at)


@kernel
def _copy_match(out: U8, at: int, offset: int, length: int) -> None:
    """What lies ``offset`` bytes behind, ``length`` of it, which may reach into what is being written. Writes up to
    ``LOOSE`` bytes too many."""
    if offset >= LOOSE:
        for step in range(0, length, LOOSE):
            copy_loose(out, at + step, out, at + step - offset)
    elif offset >= 8:
        for step in range(0, length, 8):
            store_be64(out, at + step, load_be64(out, at + step - offset))
    else:
        for step in range(length):
            store_u8(out, at + step, load_u8(out, at + step - offset))


@kernel
def _unpack(data: U8, start: int, end: int, out: U8, begin: int, size: int) -> bool:
    """Unpack the sequences ``data[start:end]``, which must give exactly ``size`` bytes, to ``out`` from ``begin`` on.

    Tells whether they do. ``out`` has ``LOOSE`` bytes more, of which anything may remain."""
    at = begin
    limit = begin + size
    here = start
    while here < end:
        token = load_u8(data, here)
        here += 1
        length = token >> 4
        if length == 15:
            while True:
                if here >= end:
                    return False
                more = load_u8(data, here)
                here += 1
                length += more
                if more != 255:
                    break
        if length > end - here or length > limit - at:
            return False
        if length <= LOOSE and here + LOOSE <= len(data):
            copy_loose(out, at, data, here)
        else:
            copy(out, at, data, here, length)
        here += length
        at += length
        if here == end:
            # The last sequence has no match.
            return at == limit and token & 15 == 0
        if here + 2 > end:
            return False
        offset = load_u8(data, here) | load_u8(data, here + 1) << 8
        here += 2
        length = token & 15
        if length == 15:
            while True:
                if here >= end:
                    return False
                more = load_u8(data, here)
                here += 1
                length += more
                if more != 255:
                    break
        length += _MIN_MATCH
        if offset == 0 or offset > at - begin or length > limit - at:
            return False
        _copy_match(out, at, offset, length)
        at += length
    return False


@kernel
def _pack_many(data: U8, starts: I64, ends: I64, gap: int, out: U8, places: I64) -> None:
    table = np.zeros(1 << _HASH_BITS, np.int64)
    at = 0
    for i in range(len(starts)):
        at = _pack(data, int(starts[i]), int(ends[i]), out, at, table) + gap
        places[i] = at


@kernel
def _unpack_many(data: U8, starts: I64, ends: I64, bounds: I64, arena: U8) -> int:
    for i in range(len(starts)):
        size = int(bounds[i + 1] - bounds[i])
        if not _unpack(data, int(starts[i]) + SIZE, int(ends[i]), arena, int(bounds[i]), size):
            return i
    return -1
