"""Zstandard frames, thousands in a call.

The library's own functions for many buffers do the work: they hold no GIL meanwhile, and set up a compressor once instead
of once for every four kilobytes, which takes longer than the work itself. What a frame says of itself (RFC 8878, 3.1.1) is
read here first, so that nothing is allocated on the word of bytes that nobody has checked.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import zstandard

from slate_engine.format.columns import I64, U8
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import load_le64, load_u8, readonly

LEVEL = 3
"""SlateDB's."""

WINDOW = 8 << 20
"""The decoding window that every decoder has to offer; a frame may ask for more only to use it."""

_MAGIC = 0xFD2FB528
_BLOCK = 128 << 10
_RAW, _RLE, _COMPRESSED = 0, 1, 2

Malformed = zstandard.ZstdError


class _Engines(threading.local):
    """A compressor and a decompressor for each thread: they are not to be shared."""

    def __init__(self) -> None:
        self.packer = zstandard.ZstdCompressor(level=LEVEL)
        self.unpacker = zstandard.ZstdDecompressor()


_engines = _Engines()


class Frames(NamedTuple):
    """What frames say of themselves: how large each is unpacked (``known``), or can be at most; and the window it wants.
    ``wrong`` is the number of the first one that is not a single whole frame, or -1."""

    sizes: I64
    known: U8
    windows: I64
    wrong: int


def survey(buffer: U8, starts: I64, ends: I64) -> Frames:
    sizes, windows = (np.zeros(len(starts), np.int64) for _ in range(2))
    known = np.zeros(len(starts), np.uint8)
    return Frames(sizes, known, windows, _survey(buffer, readonly(starts), readonly(ends), sizes, known, windows))


def pack_many(data: U8, starts: I64, ends: I64) -> list[Any]:
    """Each part of ``data`` as a frame."""
    parts = zstandard.BufferWithSegments(data.data, _segments(starts, ends))
    return _listed(_engines.packer.multi_compress_to_buffer(parts, threads=1))


def unpack_many(buffer: U8, starts: I64, ends: I64, frames: Frames) -> list[Any]:
    """The contents of frames that :func:`survey` has found whole, and that claim no more than is allowed."""
    if frames.known.all():
        parts = zstandard.BufferWithSegments(buffer.data, _segments(starts, ends))
        sizes = frames.sizes.astype(np.uint64).tobytes()
        return _listed(_engines.unpacker.multi_decompress_to_buffer(parts, decompressed_sizes=sizes, threads=1))
    view = buffer.data
    bounds = zip(starts.tolist(), ends.tolist(), frames.sizes.tolist(), strict=True)
    return [_engines.unpacker.decompress(view[start:end], max_output_size=size) for start, end, size in bounds]


def _listed(parts: zstandard.BufferWithSegmentsCollection) -> list[Any]:
    return [parts[i] for i in range(len(parts))]


def _segments(starts: I64, ends: I64) -> bytes:
    return np.stack([starts, ends - starts], axis=1).astype(np.uint64).tobytes()


def pack(data: Any) -> bytes:
    return _engines.packer.compress(data)


@kernel
def _little(buffer: U8, at: int, width: int) -> Any:
    if width == 8:
        return np.int64(load_le64(buffer, at) & np.uint64(0x7FFFFFFFFFFFFFFF))
    value = np.int64(0)
    for byte in range(width):
        value |= load_u8(buffer, at + byte) << (8 * byte)
    return value


@kernel
def _survey(buffer: U8, starts: I64, ends: I64, sizes: I64, known: U8, windows: I64) -> int:
    for i in range(len(starts)):
        at = int(starts[i])
        end = int(ends[i])
        if end - at < 6 or _little(buffer, at, 4) != _MAGIC:
            return i
        descriptor = load_u8(buffer, at + 4)
        single_segment = descriptor & 0x20 != 0
        at += 5
        if not single_segment:
            asked = load_u8(buffer, at)
            windows[i] = (1 << (10 + (asked >> 3))) // 8 * (8 + (asked & 7))
            at += 1
        at += (0, 1, 2, 4)[descriptor & 3]
        width = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
        if at + width > end:
            return i
        known[i] = width > 0
        sizes[i] = _little(buffer, at, width) + (256 if width == 2 else 0)
        at += width
        content = 0
        last = False
        while not last:
            if at + 3 > end:
                return i
            header = _little(buffer, at, 3)
            last = header & 1 != 0
            kind = header >> 1 & 3
            size = header >> 3
            if kind > _COMPRESSED or size > _BLOCK:
                return i
            at += 3 + (1 if kind == _RLE else size)
            content += _BLOCK if kind == _COMPRESSED else size
        if descriptor & 4:
            at += 4
        if at != end:
            return i
        if not known[i]:
            sizes[i] = content
    return -1
