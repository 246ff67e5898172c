"""Data blocks: the published vectors, the rules for cutting, and one case for each thing that can be wrong."""

from __future__ import annotations

import itertools
import struct
import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import pytest

from slate_engine.errors import CorruptData, InvalidError, UnsupportedFormat
from slate_engine.format import fault
from slate_engine.format.block_build import BlockBuilder
from slate_engine.format.blocks import decode_blocks
from slate_engine.format.codec import compress
from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, Bytes, Rows
from slate_engine.format.sst_meta import Codec
from tests.unit.format.plain import Row, blocks_v1, blocks_v2, entry_v2, sealed

T = 1_700_000_000_000
VECTOR: list[Row] = [
    (b"k1", b"v", 7, HAS_CREATE, T, 0),
    (b"k1", b"", 5, HAS_CREATE | TOMBSTONE, T, 0),
    (b"k2x", b"", 6, HAS_EXPIRE | MERGE, 0, T + 1),
]
VECTOR_V2 = bytes.fromhex(
    "0002016b31760000000000000007040000018bcfe568000200000000000000000005050000018bcfe568000102003278"
    "00000000000000060a0000018bcfe5680100000001"
)
VECTOR_V1 = bytes.fromhex(
    "000000026b310000000000000007040000018bcfe568000000000176000200000000000000000005050000018bcfe568"
    "0000010002327800000000000000060a0000018bcfe56801000000000000001c00310003"
)


def decoded(*payloads: bytes, version: int = 2, codec: Codec = Codec.NONE, base: int = 0) -> Rows:
    sections = [sealed(payload) for payload in payloads]
    bounds = base + np.cumsum([0, *map(len, sections)])
    return decode_blocks(
        b"".join(sections), bounds[:-1], bounds[1:], version=version, codec=codec, object="x.sst", base=base
    )


def built(rows: list[Row], block_size: int = 4096, parcels: int = 1) -> list[bytes]:
    """The blocks that the kernel makes of the rows, without checksums, the rows handed over in parcels."""
    builder = BlockBuilder(block_size, by_key=True, seal=True)
    columns, out = Rows.of(rows), []
    cuts = np.linspace(0, len(rows), parcels + 1).astype(int).tolist()
    results = [builder.append(columns.slice(a, b)) for a, b in itertools.pairwise(cuts)]
    for result in [*results, builder.finish()]:
        start = 0
        for end in result.ends.tolist():
            section = result.data[start:end].tobytes()
            assert section[-4:] == struct.pack(">I", zlib.crc32(section[:-4]))
            out.append(section[:-4])
            start = end
        assert start == len(result.data) or not len(result.ends)
    return out


def test_the_published_vectors() -> None:
    assert zlib.crc32(VECTOR_V2) == 0x0E443276
    assert zlib.crc32(VECTOR_V1) == 0x5207697D
    assert built(VECTOR) == [VECTOR_V2]
    assert list(blocks_v2(VECTOR, 4096)) == [VECTOR_V2]
    assert list(blocks_v1(VECTOR, 4096)) == [VECTOR_V1]
    assert list(decoded(VECTOR_V2).tuples()) == VECTOR
    assert list(decoded(VECTOR_V1, version=1).tuples()) == VECTOR


def test_version_1_drops_when_a_deletion_expires() -> None:
    rows: list[Row] = [(b"k", b"", 9, TOMBSTONE | HAS_EXPIRE | HAS_CREATE, T, T + 5), (b"l", b"v", 8, HAS_EXPIRE, 0, T)]
    (block,) = blocks_v1(rows, 4096)
    assert list(decoded(block, version=1).tuples()) == [(b"k", b"", 9, TOMBSTONE | HAS_CREATE, T, 0), rows[1]]


def numbered(count: int, size: int = 20) -> list[Row]:
    return [(b"key:%06d" % i, bytes([i % 251]) * (i % size), 10**6 - i, HAS_CREATE, T + i, 0) for i in range(count)]


@pytest.mark.parametrize("block_size", [1, 64, 1024, 4096, 65_535, 65_536])
@pytest.mark.parametrize("parcels", [1, 2, 7, 400])
def test_blocks_are_cut_by_the_rule_however_rows_arrive(block_size: int, parcels: int) -> None:
    rows = numbered(400)
    expected = list(blocks_v2(rows, block_size))
    assert built(rows, block_size, parcels) == expected
    assert list(decoded(*expected).tuples()) == rows


@pytest.mark.parametrize("slack", [-2, -1, 0, 1, 2])
def test_the_row_that_just_fits(slack: int) -> None:
    """A row goes in up to the last byte, the sixteenth restart included."""
    for count in (2, 16, 17, 18, 33):
        rows = numbered(count, 3)
        size = len(b"".join(blocks_v2(rows, 65_536))) + slack
        expected = list(blocks_v2(rows, size))
        assert len(expected) == (1 if slack >= 0 else 2)
        assert built(rows, size) == expected


def test_a_giant_row_has_a_block_of_its_own() -> None:
    rows: list[Row] = [
        (b"a", b"x" * 10, 3, 0, 0, 0),
        (b"b" * 100_000, b"y" * (8 << 20), 2, 0, 0, 0),
        (b"b" * 100_001, b"z", 1, 0, 0, 0),
        (b"c", b"", 1, 0, 0, 0),
    ]
    blocks = built(rows)
    assert blocks == list(blocks_v2(rows, 4096))
    assert [len(block) > 4096 for block in blocks] == [False, True, True, False]
    assert list(decoded(*blocks).tuples()) == rows


@pytest.mark.parametrize("size", [0, -1, 65_537, 1 << 20])
def test_block_sizes_whose_restarts_would_not_fit_16_bits(size: int) -> None:
    with pytest.raises(InvalidError, match="block size"):
        BlockBuilder(size, by_key=True, seal=True)


def test_the_largest_block_of_the_smallest_rows() -> None:
    """As many rows as one block can hold, all of them versions of one key."""
    rows: list[Row] = [(b"k", b"", 10_000 - i, 0, 0, 0) for i in range(9000)]
    blocks = built(rows, 65_536)
    assert blocks == list(blocks_v2(rows, 65_536))
    assert max(struct.unpack(">H", block[-2:])[0] for block in blocks) > 300
    assert list(decoded(*blocks).tuples()) == rows


GOOD: Row = (b"m", b"v", 5, 0, 0, 0)
REFUSED: list[tuple[int, Row]] = [
    (fault.EMPTY_KEY, (b"", b"v", 5, 0, 0, 0)),
    (fault.KEY_ORDER, (b"l", b"v", 4, 0, 0, 0)),
    (fault.KEY_ORDER, (b"m", b"v", 5, 0, 0, 0)),
    (fault.KEY_ORDER, (b"m", b"v", 6, 0, 0, 0)),
    (fault.UNKNOWN_FLAGS, (b"n", b"v", 5, 16, 0, 0)),
    (fault.UNKNOWN_FLAGS, (b"n", b"", 5, TOMBSTONE | MERGE, 0, 0)),
    (fault.VALUE_OF_TOMBSTONE, (b"n", b"v", 5, TOMBSTONE, 0, 0)),
]


@pytest.mark.parametrize(("reason", "row"), REFUSED)
@pytest.mark.parametrize("parcels", [1, 2])
def test_rows_that_cannot_be_written(reason: int, row: Row, parcels: int) -> None:
    with pytest.raises(InvalidError) as caught:
        built([GOOD, row], parcels=parcels)
    assert fault.REFUSALS[reason] in str(caught.value)
    assert "row 1 " in str(caught.value)


def test_a_longer_key_with_a_smaller_one_as_its_prefix_is_in_order() -> None:
    rows = [GOOD, (b"m\x00", b"", 9, 0, 0, 0), (b"m\x00\x00" + b"\xff" * 20, b"", 9, 0, 0, 0)]
    assert list(decoded(*built(rows)).tuples()) == rows
    with pytest.raises(InvalidError):
        built(rows[::-1])


def test_wal_rows_are_ordered_by_seq_alone() -> None:
    builder = BlockBuilder(65_535, by_key=False, seal=True)
    builder.append(Rows.of([(b"z", b"1", 4, 0, 0, 0), (b"a", b"2", 4, 0, 0, 0), (b"a", b"3", 5, 0, 0, 0)]))
    builder.append(Rows.of([(b"a", b"4", 5, 0, 0, 0)]))
    with pytest.raises(InvalidError, match="rising seq"):
        builder.append(Rows.of([(b"b", b"5", 4, 0, 0, 0)]))


def v2(entries: bytes, restarts: tuple[int, ...] = (0,), count: int | None = None) -> bytes:
    return entries + struct.pack(f">{len(restarts) + 1}H", *restarts, len(restarts) if count is None else count)


def v1(entries: bytes, offsets: tuple[int, ...] = (0,), count: int | None = None) -> bytes:
    return v2(entries, offsets, count)


E1 = entry_v2(GOOD, None)
E2 = entry_v2((b"mn", b"", 4, 0, 0, 0), b"m")
FULL = entry_v2((b"mn", b"", 4, 0, 0, 0), None)
SEQ = bytes(8)


def e1(shared: int, suffix: bytes, flags: int = 0, value: bytes = b"", length: int | None = None) -> bytes:
    head = struct.pack(">HH", shared, len(suffix)) + suffix + SEQ + bytes([flags])
    return head + (b"" if flags & TOMBSTONE else struct.pack(">I", len(value) if length is None else length) + value)


BAD_V2: list[tuple[int, bytes]] = [
    (fault.NO_TRAILER, b"\x00"),
    (fault.NO_TRAILER, v2(E1, count=0xFFFF)),
    (fault.NO_TRAILER, v2(b"", (), count=1)),
    (fault.NO_ROWS, v2(b"", ())),
    (fault.NO_ROWS, v2(E1, ())),
    (fault.NO_ROWS, v2(b"")),
    (fault.BAD_VARINT, v2(b"\x80\x80\x80\x80\x10" + E1)),
    (fault.BAD_VARINT, v2(b"\x80\x80\x80\x80\x80\x01" + E1)),
    (fault.BAD_VARINT, v2(E1 + b"\x80" * 4)),
    (fault.BAD_VARINT, v2(E1 + b"\x00\x01")),
    (fault.BAD_RESTART, v2(E1 + E2, (0, 1))),
    (fault.BAD_RESTART, v2(E1 + FULL, (0, len(E1), len(E1)))),
    (fault.BAD_RESTART, v2(E1 + FULL, (len(E1), 0))),
    (fault.BAD_RESTART, v2(E1 + E2, (0, len(E1)))),
    (fault.BAD_RESTART, v2(E1, (0, len(E1)))),
    (fault.BAD_RESTART, v2(E1, (0, 0xFFFF))),
    (fault.BAD_RESTART, v2(entry_v2((b"mn", b"", 4, 0, 0, 0), b"m"))),
    (fault.BAD_SHARED, v2(E1 + entry_v2((b"mmm", b"", 4, 0, 0, 0), b"mm"))),
    (fault.CUT_SHORT, v2(E1[:-1])),
    (fault.CUT_SHORT, v2(b"\x00\xff\xff\xff\xff\x0f\x00" + E1)),
    (fault.CUT_SHORT, v2(b"\x00\x01\xff\xff\xff\xff\x0f" + E1)),
    (fault.CUT_SHORT, v2(b"\x00\x01\x00m" + SEQ + bytes([HAS_CREATE]))),
    (fault.CUT_SHORT, v2(b"\x00\x01\x00m" + SEQ + bytes([HAS_CREATE | HAS_EXPIRE]) + SEQ)),
    (fault.BAD_FLAGS, v2(b"\x00\x01\x00m" + SEQ + b"\x10")),
    (fault.BAD_FLAGS, v2(b"\x00\x01\x00m" + SEQ + b"\x80")),
    (fault.BAD_FLAGS, v2(b"\x00\x01\x00m" + SEQ + b"\x09")),
    (fault.NO_KEY, v2(b"\x00\x00\x00" + SEQ + b"\x00")),
    (fault.DELETED_VALUE, v2(b"\x00\x01\x01mv" + SEQ + b"\x01")),
]
BAD_V1: list[tuple[int, bytes]] = [
    (fault.NO_TRAILER, b"\x00"),
    (fault.NO_TRAILER, v1(e1(0, b"m"), count=0xFFFF)),
    (fault.NO_ROWS, v1(b"", ())),
    (fault.BAD_OFFSET, v1(e1(0, b"m"), (1,))),
    (fault.BAD_OFFSET, v1(e1(0, b"m") + e1(0, b"n"), (0, 0))),
    (fault.BAD_OFFSET, v1(e1(0, b"m") + e1(0, b"n"))),
    (fault.BAD_SHARED, v1(e1(1, b"m"))),
    (fault.BAD_SHARED, v1(e1(0, b"m") + e1(2, b"n"), (0, len(e1(0, b"m"))))),
    (fault.NO_KEY, v1(e1(0, b""))),
    (fault.BAD_FLAGS, v1(e1(0, b"m", 0x20))),
    (fault.BAD_FLAGS, v1(e1(0, b"m", TOMBSTONE | MERGE))),
    (fault.CUT_SHORT, v1(e1(0, b"m")[:-1])),
    (fault.CUT_SHORT, v1(e1(0, b"m")[:3])),
    (fault.CUT_SHORT, v1(e1(0, b"m")[:9])),
    (fault.CUT_SHORT, v1(b"\x00\x00\xff\xffm" + SEQ)),
    (fault.CUT_SHORT, v1(e1(0, b"m", length=0xFFFFFFFF))),
    (fault.CUT_SHORT, v1(e1(0, b"m", HAS_CREATE))),
    (fault.CUT_SHORT, v1(e1(0, b"m", TOMBSTONE | HAS_CREATE))),
]


@pytest.mark.parametrize(
    ("version", "code", "block"), [(2, *case) for case in BAD_V2] + [(1, *case) for case in BAD_V1]
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_every_fault_has_its_name_and_place(version: int, code: int, block: bytes, codec: Codec) -> None:
    good = next(blocks_v2([GOOD], 4096)) if version == 2 else next(blocks_v1([GOOD], 4096))
    packed = [bytes(compress(codec, part)) for part in (good, block, good)]
    with pytest.raises(CorruptData) as caught:
        decoded(*packed, version=version, codec=codec, base=500)
    first = 500 + len(packed[0]) + 4
    assert fault.FAULTS[code] in caught.value.reason
    assert caught.value.object == "x.sst"
    assert first <= caught.value.offset <= first + len(packed[1])


def test_every_fault_is_covered() -> None:
    covered = {code for code, _ in [*BAD_V2, *BAD_V1]} | {fault.TOO_MANY_KEYS}
    assert covered == set(fault.FAULTS)
    assert {code for code, _ in REFUSED} | {fault.SEQ_ORDER, fault.BACKWARDS} == set(fault.REFUSALS)


def test_keys_cannot_be_multiplied() -> None:
    """One long key that thousands of rows share would be hundreds of megabytes; no writer makes such a block."""
    key = b"k" * 30_000
    entries = entry_v2((key, b"", 1, 0, 0, 0), None) + entry_v2((key, b"", 1, 0, 0, 0), key) * 2500
    tracemalloc.start()
    with pytest.raises(CorruptData, match="more than its bytes can hold"):
        decoded(v2(entries))
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_sixteen_long_keys_to_a_restart_are_not_too_many() -> None:
    rows: list[Row] = [(b"k" * 4000, b"", 9000 - i, 0, 0, 0) for i in range(200)]
    blocks = built(rows, 65_536)
    assert list(decoded(*blocks).tuples()) == rows


def test_columns_that_do_not_hold_together() -> None:
    small = Rows.of([GOOD, (b"n", b"w", 4, 0, 0, 0)])
    endless = np.broadcast_to(np.uint8(0), 1 << 33)
    wrong = [
        ("beyond its bytes", replace(small, values=Bytes(small.values.data, np.array([0, 1, 99])))),
        ("beyond its bytes", replace(small, keys=Bytes(small.keys.data, np.array([-1, 1, 2])))),
        ("never fall", replace(small, keys=Bytes(small.keys.data, np.array([0, 2, 1])))),
        ("never fall", replace(small, values=Bytes(small.values.data, np.array([0, 2, 1])))),
        ("never fall", replace(small, values=Bytes(small.values.data, np.array([0, 1 << 40, 2])))),
        ("differ in length", replace(small, values=Bytes(small.values.data, np.array([0, 1])))),
        ("differ in length", replace(small, flags=small.flags[:1])),
        ("4 GiB", replace(small, values=Bytes(endless, np.array([0, 1, (1 << 32) + 1])))),
    ]
    for reason, rows in wrong:
        with pytest.raises(InvalidError, match=reason):
            BlockBuilder(4096, by_key=True, seal=True).append(rows)


def test_versions_of_the_future() -> None:
    with pytest.raises(UnsupportedFormat, match="version 3"):
        decoded(VECTOR_V2, version=3)


def test_no_blocks_no_rows() -> None:
    assert len(decoded()) == 0
