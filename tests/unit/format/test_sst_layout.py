"""The footer and the index: everything that they say about the file is checked before it is used."""

from __future__ import annotations

from dataclasses import replace

import flatbuffers
import numpy as np
import pytest

from slate_engine.errors import CorruptData, UnsupportedFormat
from slate_engine.format.blocks import decode_blocks
from slate_engine.format.columns import Bytes, Rows
from slate_engine.format.sst import Footer, info_offset, open_sst, parse_footer, read_index
from slate_engine.format.sst_build import SstOptions, build_sst
from slate_engine.format.sst_meta import BlockIndex, Codec, FilterFormat, SstType
from slate_engine.format.wal import read_wal
from tests.unit.format.plain import Row, blocks_v1, blocks_v2, bloom, sealed, siphash13, sst

ROWS: list[Row] = [(b"key%03d" % i, b"v" * i, 500 - i, 0, 0, 0) for i in range(60)]
BLOCKS = list(blocks_v2(ROWS, 400))
U64_MAX = (1 << 64) - 1


def test_a_ranged_reader_needs_the_end_the_index_and_the_blocks() -> None:
    data = build_sst(Rows.of(ROWS), SstOptions(block_size=400, min_filter_keys=1)).tobytes()
    tail = data[-200:]
    footer = parse_footer(tail, len(data), object="x")
    assert footer == Footer(footer.info, 2, info_offset(tail[-10:], len(data)))
    index = data[footer.info.index_offset :][: footer.info.index_len]
    assert len(read_index(index, footer.info)) == len(BLOCKS)
    with pytest.raises(CorruptData, match="before the part"):
        parse_footer(data[-20:], len(data))


def test_version_1_is_read() -> None:
    data = sst(list(blocks_v1(ROWS, 400)), version=1)
    assert open_sst(data).version == 1
    assert list(open_sst(data).rows().tuples()) == ROWS


def test_a_part_of_the_blocks() -> None:
    whole = open_sst(sst(BLOCKS))
    parts = [list(whole.rows(i, i + 1).tuples()) for i in range(len(BLOCKS))]
    assert [row for part in parts for row in part] == ROWS
    assert len(whole.rows(3, 3)) == 0


def test_a_legacy_filter_and_no_stats() -> None:
    legacy = bloom([siphash13(key) for key, *_ in ROWS], 10)
    opened = open_sst(sst(BLOCKS, filters=legacy, filter_format=FilterFormat.LEGACY))
    assert opened.stats() is None
    assert [(name, bytes(data)) for name, data in opened.filters()] == [("_bf", legacy)]
    assert len(opened.rows()) == len(ROWS)


def test_an_sst_without_blocks_has_no_rows() -> None:
    assert len(open_sst(sst([])).rows()) == 0


def padded_index(offsets: list[int], lengths: list[int]) -> bytes:
    """An index as SlateDB 0.18 writes it, which our encoder does not: 0.17 could not read it."""
    builder = flatbuffers.Builder()
    blocks = []
    for offset, length in zip(offsets, lengths, strict=True):
        key = builder.CreateByteVector(b"")
        builder.StartObject(3)
        builder.PrependUint64Slot(0, offset, 0)
        builder.PrependUOffsetTRelativeSlot(1, key, 0)
        builder.PrependUint32Slot(2, length, 0)
        blocks.append(builder.EndObject())
    builder.StartVector(4, len(blocks), 4)
    for block in reversed(blocks):
        builder.PrependUOffsetTRelative(block)
    vector = builder.EndVector()
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, vector, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def test_padded_blocks_are_as_long_as_the_index_says() -> None:
    places = [sealed(block).ljust(500, b"\x00") for block in BLOCKS]
    offsets, lengths = [500 * i for i in range(len(BLOCKS))], [len(block) + 4 for block in BLOCKS]
    info = replace(open_sst(sst(BLOCKS)).info, filter_offset=500 * len(BLOCKS), index_offset=500 * len(BLOCKS))
    blocks = read_index(sealed(padded_index(offsets, lengths)), info)
    rows = decode_blocks(b"".join(places), blocks.starts, blocks.ends, version=2, codec=Codec.NONE)
    assert list(rows.tuples()) == ROWS
    for wrong in (501, 4, 3, (1 << 32) - 1):
        with pytest.raises(CorruptData):
            read_index(sealed(padded_index(offsets, [*lengths[:-1], wrong])), info)


LIES = [
    {"index_offset": U64_MAX},
    {"index_len": U64_MAX},
    {"index_offset": 1 << 63, "index_len": 1 << 63},
    {"index_len": 0},
    {"index_len": 4},
    {"index_offset": 0},
    {"index_offset": 10},
    {"filter_offset": 0, "filter_len": U64_MAX},
    {"filter_offset": U64_MAX, "filter_len": 9},
    {"filter_len": 4},
    {"filter_offset": 5, "filter_len": 1 << 40},
    {"stats_offset": 3, "stats_len": 40},
    {"stats_offset": U64_MAX, "stats_len": 2},
    {"stats_offset": U64_MAX, "stats_len": U64_MAX},
]


def read_everything(data: bytes) -> None:
    opened = open_sst(data, object="x.sst")
    opened.filters()
    opened.stats()
    opened.rows()


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_an_info_that_lies(lie: dict[str, int]) -> None:
    data = sst(BLOCKS, info=lambda info: replace(info, **lie))  # type: ignore[arg-type]
    with pytest.raises(CorruptData) as caught:
        read_everything(data)
    assert caught.value.object == "x.sst"
    assert 0 <= caught.value.offset <= len(data)


def offsets_of(*values: int) -> BlockIndex:
    return BlockIndex(np.array(values, np.uint64), Bytes.of([b""] * len(values)))


@pytest.mark.parametrize(
    "index",
    [
        offsets_of(0, 0),
        offsets_of(0, 300, 200),
        offsets_of(0, 3),
        offsets_of(U64_MAX),
        offsets_of(1 << 63),
        offsets_of(0, 1 << 62),
        offsets_of(5),
        offsets_of(0, 100),
        offsets_of(*range(0, 1000, 4)),
    ],
)
def test_an_index_that_lies(index: BlockIndex) -> None:
    with pytest.raises(CorruptData) as caught:
        open_sst(sst(BLOCKS, index=lambda _: index), object="x.sst").rows()
    assert caught.value.object == "x.sst"


@pytest.mark.parametrize("meta_offset", [0, 7, 1 << 63, U64_MAX])
def test_a_footer_that_lies(meta_offset: int) -> None:
    with pytest.raises(CorruptData):
        open_sst(sst(BLOCKS, meta_offset=meta_offset))


@pytest.mark.parametrize("version", [0, 3, 256, 65_535])
def test_other_versions(version: int) -> None:
    with pytest.raises(UnsupportedFormat, match=f"version {version}"):
        open_sst(sst(BLOCKS, version=version))


@pytest.mark.parametrize("size", range(25))
def test_files_too_short_to_be_anything(size: int) -> None:
    with pytest.raises(CorruptData):
        open_sst(b"\x00" * (size - 1) + b"\x02" if size else b"")


def test_a_codec_that_was_not_used() -> None:
    for codec in (Codec.SNAPPY, Codec.ZLIB, Codec.LZ4, Codec.ZSTD):
        with pytest.raises(CorruptData):
            open_sst(sst(BLOCKS, info=lambda info, codec=codec: replace(info, codec=codec))).rows()  # type: ignore[misc]


def test_sorted_rows_are_not_a_wal() -> None:
    with pytest.raises(CorruptData, match="WAL"):
        read_wal(sst(BLOCKS))
    assert list(read_wal(sst(BLOCKS, info=lambda info: replace(info, sst_type=SstType.WAL))).tuples()) == ROWS
