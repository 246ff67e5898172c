"""The four compression codecs, with a bound on what they may unpack.

A compressed section says how large it will be (or says nothing at all), and nobody has to believe it. Each codec has an
expansion that no stream of it can exceed; what claims or yields more is corrupt, and is refused before the memory for it is
allocated. So an unpacked section is never larger than its compressed bytes can honestly justify.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import numpy as np

from slate_engine.errors import CorruptData, UnsupportedFormat
from slate_engine.format.columns import I64, U8
from slate_engine.format.memory import octets
from slate_engine.format.sst_meta import Codec

EXPANSION = {
    Codec.NONE: 1,
    Codec.SNAPPY: 22,  # a copy element of three bytes yields at most 64
    Codec.ZLIB: 1032,  # a match of 258 bytes takes two bits
    Codec.LZ4: 255,  # each byte that extends a match length adds at most 255
    Codec.ZSTD: 32768,  # a run-length block of four bytes yields at most 128 KiB
}
"""At most how many bytes one compressed byte can become."""

LARGEST = 1 << 32
"""No section is larger than this: it is the limit of a value, and no other part of an SST comes near it."""

_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_LEVEL = 3
_WINDOW = 8 << 20
"""The decoding window that every zstd decoder has to offer (RFC 8878); a frame may ask for more only to use it."""

View = memoryview


class _Malformed(Exception):
    """The stream is not what its codec requires; the caller knows where it came from."""


def compress(codec: Codec, data: Any) -> Any:
    """``data`` as upstream compresses it; bytes-like."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.SNAPPY:
            return cramjam.snappy.compress_raw(data)
        case Codec.ZLIB:
            return zlib.compress(data)
        case Codec.LZ4:
            return cramjam.lz4.compress_block(data)  # writes the u32 LE size in front
        case Codec.ZSTD:
            return cramjam.zstd.compress(data, _ZSTD_LEVEL)


def decompress(codec: Codec, payload: View, *, object: str, offset: int) -> View:
    """Unpack one section that begins at ``offset`` of the object."""
    if codec is Codec.NONE:
        return payload
    try:
        return _UNPACK[codec](payload, min(EXPANSION[codec] * len(payload), LARGEST))
    except (_Malformed, cramjam.DecompressionError, zlib.error) as error:
        raise CorruptData(f"does not unpack with {codec.name.lower()}: {error}", object=object, offset=offset) from None


def decompress_many(
    codec: Codec, buffer: U8, starts: I64, ends: I64, *, object: str, base: int, limit: int
) -> tuple[U8, I64, I64]:
    """Unpack the payloads ``[starts[i], ends[i])`` into one arena; gives it with the bounds of each payload in it."""
    view = buffer.data
    unpacked = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        unpacked.append(decompress(codec, view[start:end], object=object, offset=base + start))
        limit -= len(unpacked[-1])
        if limit < 0:
            raise UnsupportedFormat(f"{len(starts)} blocks of {object} unpack to too much; read fewer blocks at once")
    bounds = np.zeros(len(unpacked) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, unpacked), np.int64, len(unpacked)), out=bounds[1:])
    return octets(b"".join(unpacked)), bounds[:-1], bounds[1:]


def _filled(decode: Callable[..., int], stream: View, size: int, bound: int) -> View:
    if size > bound:
        raise _Malformed(f"claims {size} bytes, of which {len(stream)} compressed ones can hold {bound} at most")
    target = np.empty(size, np.uint8).data
    written = decode(stream, target)
    if written != size:
        raise _Malformed(f"claims {size} bytes and holds {written}")
    return target


def _snappy(payload: View, bound: int) -> View:
    size, shift = 0, 0
    for byte in payload[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return _filled(cramjam.snappy.decompress_raw_into, payload, size, bound)
    raise _Malformed("the length has no end")


def _lz4(payload: View, bound: int) -> View:
    if len(payload) < 5:
        raise _Malformed("cut short")
    # The size stays in front of the block: with it there, cramjam has no need to guess whether it is there.
    return _filled(cramjam.lz4.decompress_block_into, payload, int.from_bytes(payload[:4], "little"), bound)


def _zlib(payload: View, bound: int) -> View:
    stream = zlib.decompressobj()
    unpacked = stream.decompress(payload, bound)
    if not stream.eof:
        raise _Malformed("cut short, or more than its bytes can hold")
    if stream.unused_data:
        raise _Malformed(f"{len(stream.unused_data)} bytes follow its end")
    return View(unpacked)


def _zstd(payload: View, bound: int) -> View:
    size, window = _zstd_header(payload)
    if size is not None:
        return _filled(cramjam.zstd.decompress_into, payload, size, bound)
    if window > max(_WINDOW, bound):
        raise _Malformed(f"asks for a window of {window} bytes")
    # A frame that was written as a stream does not say how long it is; most blocks shrink to a quarter at best.
    room = min(max(4 * len(payload), 1 << 16), bound)
    while True:
        target = np.empty(room, np.uint8).data
        try:
            return target[: cramjam.zstd.decompress_into(payload, target)]
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error) or room == bound:
                raise
            room = min(4 * room, bound)


def _zstd_header(payload: View) -> tuple[int | None, int]:
    """The content size, if the frame has it, and the window (RFC 8878, 3.1.1.1)."""
    if len(payload) < 5 or int.from_bytes(payload[:4], "little") != _ZSTD_MAGIC:
        raise _Malformed("no frame begins here")
    descriptor = payload[4]
    single_segment = bool(descriptor & 0x20)
    at = 5
    window = 0
    if not single_segment:
        exponent, mantissa = (payload[at] >> 3, payload[at] & 7) if at < len(payload) else (0, 0)
        window = (1 << (10 + exponent)) // 8 * (8 + mantissa)
        at += 1
    at += (0, 1, 2, 4)[descriptor & 3]
    width = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    field = payload[at : at + width]
    if len(field) < width:
        raise _Malformed("cut short")
    if not width:
        return None, window
    return int.from_bytes(field, "little") + (256 if width == 2 else 0), window


_UNPACK: dict[Codec, Callable[[View, int], View]] = {
    Codec.SNAPPY: _snappy,
    Codec.ZLIB: _zlib,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
