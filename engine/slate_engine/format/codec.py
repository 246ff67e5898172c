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

from slate_engine.errors import CorruptData, InvalidError, UnsupportedFormat
from slate_engine.format import checksum, lz4, zstd
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

View = memoryview


class _Malformed(Exception):
    """The stream is not what its codec requires; the caller knows where it came from."""

    def __init__(self, reason: str, number: int = 0) -> None:
        super().__init__(reason)
        self.number = number


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
            raw = octets(data)
            return _packed_lz4(raw, np.zeros(1, np.int64), np.array([len(raw)]), gap=0)[0].data
        case Codec.ZSTD:
            return zstd.pack(data)


def compress_many(codec: Codec, data: U8, starts: I64, ends: I64) -> tuple[U8, I64]:
    """Each part of ``data`` compressed, in one buffer with room for a checksum behind each; and where each room ends."""
    if codec is Codec.LZ4:
        return _packed_lz4(data, starts, ends, gap=checksum.SIZE)
    if codec is Codec.ZSTD:
        parts = zstd.pack_many(data, starts, ends)
    else:
        view = data.data
        parts = [compress(codec, view[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    room = bytes(checksum.SIZE)
    joined = bytearray(room).join([*parts, b""])
    return np.frombuffer(joined, np.uint8), np.cumsum([len(part) + len(room) for part in parts], dtype=np.int64)


def _packed_lz4(data: U8, starts: I64, ends: I64, gap: int) -> tuple[U8, I64]:
    if len(starts) and int((ends - starts).max()) > lz4.LARGEST:
        raise InvalidError(
            f"a block of more than {lz4.LARGEST} bytes is too large for lz4; choose zstd for such values"
        )
    return lz4.pack_many(data, starts, ends, gap)


def decompress(codec: Codec, payload: View, *, object: str, offset: int) -> View:
    """Unpack one section that begins at ``offset`` of the object."""
    if codec is Codec.NONE:
        return payload
    starts, ends = np.zeros(1, np.int64), np.array([len(payload)])
    arena, _, _ = decompress_many(codec, octets(payload), starts, ends, object=object, base=offset, limit=LARGEST)
    return arena.data


def decompress_many(
    codec: Codec, buffer: U8, starts: I64, ends: I64, *, object: str, base: int, limit: int
) -> tuple[U8, I64, I64]:
    """Unpack the payloads ``[starts[i], ends[i])`` into one arena; gives it with the bounds of each payload in it."""

    def corrupt(error: Exception, number: int) -> CorruptData:
        reason = f"does not unpack with {codec.name.lower()}: {error}"
        return CorruptData(reason, object=object, offset=base + int(starts[number]))

    def checked(total: int) -> None:
        if total > limit:
            raise UnsupportedFormat(f"{len(starts)} blocks of {object} unpack to too much; read fewer blocks at once")

    try:
        if codec is Codec.LZ4:
            return _unpacked_lz4(buffer, starts, ends, checked)
        if codec is Codec.ZSTD:
            return _arena(_unpacked_zstd(buffer, starts, ends, checked))
    except _Malformed as error:
        raise corrupt(error, error.number) from None
    unpacked: list[View] = []
    size = 0
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        try:
            unpacked.append(_UNPACK[codec](buffer.data[start:end], _bound(codec, end - start)))
        except (_Malformed, cramjam.DecompressionError, zlib.error) as error:
            raise corrupt(error, number) from None
        size += len(unpacked[-1])
        checked(size)
    return _arena(unpacked)


def _bound(codec: Codec, size: int) -> int:
    return min(EXPANSION[codec] * size, LARGEST)


def _arena(parts: list[Any]) -> tuple[U8, I64, I64]:
    bounds = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=bounds[1:])
    return octets(b"".join(parts)), bounds[:-1], bounds[1:]


def _check_claims(codec: Codec, sizes: I64, packed: I64) -> None:
    """Refuse the first part that claims to become more than ``packed`` bytes can."""
    bounds = np.minimum(EXPANSION[codec] * packed, LARGEST)
    for number in np.flatnonzero(sizes > bounds)[:1].tolist():
        claim = (
            f"claims {sizes[number]} bytes, of which {packed[number]} compressed ones can hold {bounds[number]} at most"
        )
        raise _Malformed(claim, number)


def _unpacked_lz4(buffer: U8, starts: I64, ends: I64, checked: Callable[[int], None]) -> tuple[U8, I64, I64]:
    for number in np.flatnonzero(ends - starts <= lz4.SIZE)[:1].tolist():
        raise _Malformed("cut short", number)
    sizes = lz4.claimed_sizes(buffer, starts)
    _check_claims(Codec.LZ4, sizes, ends - starts)
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    checked(int(bounds[-1]))
    arena, wrong = lz4.unpack_many(buffer, starts, ends, bounds)
    if wrong >= 0:
        raise _Malformed(f"it does not hold the {sizes[wrong]} bytes that it claims", wrong)
    return octets(arena), bounds[:-1], bounds[1:]


def _unpacked_zstd(buffer: U8, starts: I64, ends: I64, checked: Callable[[int], None]) -> list[Any]:
    frames = zstd.survey(buffer, starts, ends)
    packed = ends - starts
    _check_claims(Codec.ZSTD, np.where(frames.known, frames.sizes, 0), packed)
    if frames.wrong >= 0:
        raise _Malformed("it is not one whole frame", frames.wrong)
    for number in np.flatnonzero(frames.windows > np.maximum(zstd.WINDOW, EXPANSION[Codec.ZSTD] * packed))[:1].tolist():
        raise _Malformed(f"asks for a window of {frames.windows[number]} bytes", number)
    checked(int(frames.sizes[frames.known > 0].sum()))
    try:
        unpacked = zstd.unpack_many(buffer, starts, ends, frames)
    except zstd.Malformed:
        # Which one it was matters now, and the time it takes to find out does not.
        for number in range(len(starts)):
            one = slice(number, number + 1)
            try:
                zstd.unpack_many(buffer, starts[one], ends[one], zstd.survey(buffer, starts[one], ends[one]))
            except zstd.Malformed as error:
                raise _Malformed(str(error), number) from None
        raise
    checked(sum(map(len, unpacked)))
    return unpacked


def _snappy(payload: View, bound: int) -> View:
    size, shift = 0, 0
    for byte in payload[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise _Malformed("the length has no end")
    if size > bound:
        raise _Malformed(f"claims {size} bytes, of which {len(payload)} compressed ones can hold {bound} at most")
    target = np.empty(size, np.uint8).data
    written = cramjam.snappy.decompress_raw_into(payload, target)
    if written != size:
        raise _Malformed(f"claims {size} bytes and holds {written}")
    return target


def _zlib(payload: View, bound: int) -> View:
    stream = zlib.decompressobj()
    unpacked = stream.decompress(payload, bound)
    if not stream.eof:
        raise _Malformed("cut short, or more than its bytes can hold")
    if stream.unused_data:
        raise _Malformed(f"{len(stream.unused_data)} bytes follow its end")
    return View(unpacked)


_UNPACK: dict[Codec, Callable[[View, int], View]] = {Codec.SNAPPY: _snappy, Codec.ZLIB: _zlib}
"""The codecs that a library unpacks one payload at a time."""
