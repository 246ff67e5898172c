"""CRC-32 on every path and alignment, and what happens when it does not match."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from slate_engine.errors import CorruptData
from slate_engine.format import checksum
from slate_engine.format.memory import octets

DATA = np.random.default_rng(7).integers(0, 256, 70_000, dtype=np.uint8).tobytes()
LENGTHS = [*range(200), 255, 256, 257, 1023, 4092, 4096, 65_535, 65_536]


def test_the_check_value_of_the_polynomial() -> None:
    assert int(checksum.crc32(octets(b"123456789"), 0, 9)) == 0xCBF43926


@pytest.mark.parametrize("start", [0, 1, 3, 8, 15])
def test_every_length_equals_zlib(start: int) -> None:
    buffer = octets(DATA)
    for length in LENGTHS:
        assert int(checksum.crc32(buffer, start, start + length)) == zlib.crc32(DATA[start : start + length]), length


@pytest.mark.parametrize("advance", [checksum.by_tables, checksum.by_folding])
def test_both_ways_agree_with_zlib(advance: object) -> None:
    """The one that this machine does not choose is the one that another machine runs."""
    if advance is checksum.by_folding and not checksum.multiplies():
        advance = checksum.by_tables
    for length in [*range(0, 400, 16), 4096, 65_536]:
        state = advance(octets(DATA), 5, length, np.uint64(0xFFFFFFFF))  # type: ignore[operator]
        assert int(state) ^ 0xFFFFFFFF == zlib.crc32(DATA[5 : 5 + length]), length


def sections(payloads: list[bytes]) -> tuple[bytes, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    sealed = [checksum.sealed(payload) for payload in payloads]
    bounds = np.cumsum([0, *map(len, sealed)])
    return b"".join(sealed), bounds[:-1], bounds[1:]


def test_sections_are_verified_one_by_one() -> None:
    payloads = [DATA[i : i + 50 * i + 1] for i in range(40)]
    data, starts, ends = sections(payloads)
    checksum.verify(octets(data), starts, ends, object="x", base=0)
    for i in range(40):
        for at in (int(starts[i]), int(ends[i]) - 5, int(ends[i]) - 1):
            broken = bytearray(data)
            broken[at] ^= 0x40
            with pytest.raises(CorruptData) as caught:
                checksum.verify(octets(broken), starts, ends, object="x", base=1000)
            assert (caught.value.object, caught.value.offset) == ("x", 1000 + int(starts[i]))


@pytest.mark.parametrize(("start", "end"), [(-1, 10), (0, 105), (100, 200), (10, 14), (10, 9), (0, 1 << 40)])
def test_sections_that_are_not_in_the_buffer(start: int, end: int) -> None:
    with pytest.raises(CorruptData) as caught:
        checksum.verify(octets(DATA[:104]), np.array([start]), np.array([end]), object="x", base=0)
    assert caught.value.offset == start


def test_one_section() -> None:
    section = checksum.sealed(b"payload")
    assert bytes(checksum.opened(section, object="x", base=0)) == b"payload"
    for broken in (section[:-1], section + b"x", b"p" + section, section[:4], b""):
        with pytest.raises(CorruptData):
            checksum.opened(broken, object="x", base=0)
