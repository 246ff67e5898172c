"""All codecs both ways, and compressed bytes that lie about what is in them."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import cramjam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.errors import CorruptData, UnsupportedFormat
from slate_engine.format.codec import EXPANSION, compress, compress_many, decompress, decompress_many
from slate_engine.format.memory import octets
from slate_engine.format.sst_meta import Codec

PACKED = [Codec.SNAPPY, Codec.ZLIB, Codec.LZ4, Codec.ZSTD]


def unpack(codec: Codec, payload: bytes) -> bytes:
    return bytes(decompress(codec, memoryview(payload), object="x", offset=77))


@contextmanager
def no_more_than(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] <= limit
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", list(Codec))
@given(
    data=st.binary(min_size=1, max_size=3000)
    | st.builds(bytes.__mul__, st.binary(min_size=1, max_size=9), st.integers(1, 9999))
)
def test_round_trip(codec: Codec, data: bytes) -> None:
    assert unpack(codec, bytes(compress(codec, data))) == data


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [4096, 65_536, 8 << 20])
def test_what_shrinks_best_still_unpacks(codec: Codec, size: int) -> None:
    """The bounds hold for honest data, however extreme."""
    payload = bytes(compress(codec, bytes(size)))
    assert size <= EXPANSION[codec] * len(payload)
    assert unpack(codec, payload) == bytes(size)


def test_zstd_frames_that_do_not_say_their_size() -> None:
    for size in (1, 5000, 300_000, 4 << 20):
        data = random.Random(size).randbytes(size // 10 + 1) * 10
        streamed = cramjam.zstd.Compressor()
        streamed.compress(data)
        frame = bytes(streamed.finish())
        assert not frame[4] & 0xE0  # neither a content size nor a single segment
        assert unpack(Codec.ZSTD, frame) == data


@pytest.mark.parametrize("codec", PACKED)
def test_damage_is_corrupt_data(codec: Codec) -> None:
    data = random.Random(3).randbytes(300) * 6
    payload = bytes(compress(codec, data))
    chance = random.Random(4)
    wrong = [payload[:cut] for cut in range(len(payload))]
    wrong += [payload + b"\x00", payload + payload]
    for case in wrong:
        with pytest.raises(CorruptData) as caught:
            unpack(codec, case)
        assert (caught.value.object, caught.value.offset) == ("x", 77)
    for _ in range(500):
        broken = bytearray(payload)
        broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        with suppress(CorruptData):  # without its checksum a stream may unpack to something else
            unpack(codec, bytes(broken))


def test_a_claim_beyond_the_codec_is_refused_before_it_is_believed() -> None:
    claims = {
        Codec.SNAPPY: b"\xff\xff\xff\xff\x0f" + b"\x00" * 20,
        Codec.LZ4: struct.pack("<I", 0xFFFFFFFF) + b"\x10" * 20,
        Codec.ZSTD: struct.pack("<IBQ", 0xFD2FB528, 0xE0, 1 << 40) + b"\x00" * 20,
    }
    for codec, payload in claims.items():
        with no_more_than(1 << 20), pytest.raises(CorruptData, match="claims"):
            unpack(codec, payload)


def test_zstd_may_not_ask_for_a_huge_window() -> None:
    with no_more_than(1 << 20), pytest.raises(CorruptData, match="window"):
        unpack(Codec.ZSTD, struct.pack("<IBB", 0xFD2FB528, 0x00, (31 - 10) << 3) + b"\x01\x00\x00")


def test_a_claim_that_is_not_met_is_refused() -> None:
    data = b"some bytes" * 10
    lz4 = bytearray(compress(Codec.LZ4, data))
    lz4[0] += 1
    snappy = bytearray(compress(Codec.SNAPPY, data))
    snappy[0] += 1
    for codec, payload in ((Codec.LZ4, lz4), (Codec.SNAPPY, snappy)):
        with pytest.raises(CorruptData):
            unpack(codec, bytes(payload))


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x80" * 9, b"\xff" * 40])
def test_rubbish(codec: Codec, payload: bytes) -> None:
    if codec is Codec.SNAPPY and payload == b"\x00":
        assert unpack(codec, payload) == b""
        return
    with pytest.raises(CorruptData):
        unpack(codec, payload)


@pytest.mark.parametrize("codec", PACKED)
def test_many_payloads_share_an_arena(codec: Codec) -> None:
    items = [bytes([i]) * (i * 7 + 1) for i in range(60)]
    payloads = [bytes(compress(codec, item)) for item in items]
    bounds = np.cumsum([0, *map(len, payloads)])
    joined = octets(b"".join(payloads))
    arena, starts, ends = decompress_many(codec, joined, bounds[:-1], bounds[1:], object="x", base=0, limit=1 << 20)
    assert [arena[s:e].tobytes() for s, e in zip(starts, ends, strict=True)] == items
    with pytest.raises(UnsupportedFormat, match="fewer blocks"):
        decompress_many(codec, joined, bounds[:-1], bounds[1:], object="x", base=0, limit=1000)


def test_zlib_is_what_every_other_zlib_reads() -> None:
    assert zlib.decompress(compress(Codec.ZLIB, b"abc" * 100)) == b"abc" * 100


@given(
    st.lists(
        st.binary(max_size=300)
        | st.builds(bytes.__mul__, st.binary(min_size=1, max_size=40), st.integers(1, 3000))
        | st.builds(lambda seed: bytes(random.Random(seed).choices(b"abc", k=seed)), st.integers(1, 2000)),
        min_size=1,
        max_size=6,
    )
)
def test_our_lz4_is_what_others_read_and_the_reverse(items: list[bytes]) -> None:
    """Several blocks of one call share the memory of what was seen where: none may refer to another."""
    bounds = np.cumsum([0, *map(len, items)])
    packed, ends = compress_many(Codec.LZ4, octets(b"".join(items)), bounds[:-1], bounds[1:])
    starts = np.concatenate([[0], ends[:-1]])
    for item, start, end in zip(items, starts, ends, strict=True):
        block = packed[start : end - 4].tobytes()
        assert bytes(cramjam.lz4.decompress_block(block)) == item
        theirs = bytes(cramjam.lz4.compress_block(item))
        assert unpack(Codec.LZ4, theirs) == item
        assert len(block) <= 1.1 * len(theirs) + 8, "no worse than the reference"
