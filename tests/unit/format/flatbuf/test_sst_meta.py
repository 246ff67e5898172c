"""The FlatBuffers inside SSTs: those of the samples, and random ones, against Google's runtime."""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.errors import CorruptData, UnsupportedFormat
from slate_engine.format.columns import Bytes
from slate_engine.format.sst_meta import (
    BlockIndex,
    BlockStats,
    Codec,
    FilterFormat,
    SstInfo,
    SstStats,
    SstType,
    decode_index,
    decode_info,
    decode_stats,
    encode_index,
    encode_info,
    encode_stats,
)
from tests.unit.state.drawn import infos, keys, u64
from tests.unit.state.reference import decode_table, encode_table
from tests.unit.state.samples import STORE, name
from tests.unit.state.wire import present

SSTS = sorted(file for file in STORE.glob("*/*/*.sst") if file.stat().st_size > 10)


def sections(file: Path) -> tuple[SstInfo, dict[str, bytes]]:
    data = file.read_bytes()
    offset = int.from_bytes(data[-10:-2], "big")
    raw = {"SsTableInfo": data[offset:-14]}
    assert zlib.crc32(raw["SsTableInfo"]) == int.from_bytes(data[-14:-10], "big")
    info = decode_info(raw["SsTableInfo"], object=name(file), base=offset)
    if info.codec == Codec.NONE:
        raw["SsTableIndex"] = data[info.index_offset : info.index_offset + info.index_len - 4]
        if info.stats_len:
            raw["SstStats"] = data[info.stats_offset : info.stats_offset + info.stats_len - 4]
    return info, raw


def test_there_are_samples() -> None:
    assert len(SSTS) == 96


@pytest.mark.parametrize("file", SSTS, ids=name)
def test_samples_read_as_the_reference_reads_them_and_stay_the_same(file: Path) -> None:
    info, raw = sections(file)
    assert decode_table("SsTableInfo", raw["SsTableInfo"]) == info_wire(info)
    assert decode_table("SsTableInfo", encode_info(info)) == info_wire(info)
    assert len(encode_info(info)) <= len(raw["SsTableInfo"])
    if "SsTableIndex" in raw:
        index = decode_index(raw["SsTableIndex"], object="", base=0)
        expected = decode_table("SsTableIndex", raw["SsTableIndex"])
        assert index_wire(index) == expected
        assert decode_table("SsTableIndex", encode_index(index)) == expected
        assert len(encode_index(index)) <= len(raw["SsTableIndex"])
    if "SstStats" in raw:
        stats = decode_stats(raw["SstStats"], object="", base=0)
        expected = decode_table("SstStats", raw["SstStats"])
        assert stats_wire(stats) == expected
        assert decode_table("SstStats", encode_stats(stats)) == expected


def info_wire(info: SstInfo) -> dict[str, Any]:
    fields = {field: getattr(info, field) for field in SstInfo.__slots__}
    return present(**{key: int(value) if isinstance(value, int) else value for key, value in fields.items()})


def index_wire(index: BlockIndex) -> dict[str, Any]:
    lengths = [0] * len(index) if index.encoded_len is None else index.encoded_len.tolist()
    return {
        "block_meta": [
            present(offset=offset, first_key=key, encoded_len=length)
            for offset, key, length in zip(index.offsets.tolist(), index.first_keys, lengths, strict=True)
        ]
    }


def stats_wire(stats: SstStats) -> dict[str, Any]:
    blocks = zip(*(column.tolist() for column in stats.block_stats), strict=True)
    return present(
        num_puts=stats.num_puts,
        num_deletes=stats.num_deletes,
        num_merges=stats.num_merges,
        raw_key_size=stats.raw_key_size,
        raw_val_size=stats.raw_val_size,
        block_stats=[present(num_puts=p, num_deletes=d, num_merges=m) for p, d, m in blocks] or None,
    )


@given(infos(b"", None) | keys.flatmap(lambda key: infos(key, key)))
def test_any_info(info: SstInfo) -> None:
    data = encode_info(info)
    assert decode_info(data, object="", base=0) == info
    assert decode_table("SsTableInfo", data) == info_wire(info)


@given(st.lists(st.tuples(u64, st.binary(max_size=80), st.integers(0, 2**32 - 1)), max_size=30))
def test_any_index(blocks: list[tuple[int, bytes, int]]) -> None:
    offsets = np.array([offset for offset, _, _ in blocks], np.uint64)
    first_keys = Bytes.of(key for _, key, _ in blocks)
    lengths = np.array([length for _, _, length in blocks], np.uint32)
    padded = BlockIndex(offsets, first_keys, lengths)
    # Padded blocks are read but never written.
    read = decode_index(encode_table("SsTableIndex", index_wire(padded)), object="", base=0)
    assert index_wire(read) == index_wire(padded)
    assert (read.encoded_len is None) == (not lengths.any())
    again = decode_index(encode_index(padded), object="", base=0)
    assert index_wire(again) == index_wire(BlockIndex(offsets, first_keys))


@given(st.lists(u64, min_size=5, max_size=5), st.lists(st.tuples(*[st.integers(0, 2**16 - 1)] * 3), max_size=20))
def test_any_stats(totals: list[int], blocks: list[tuple[int, int, int]]) -> None:
    columns = [np.array([block[i] for block in blocks], np.uint16) for i in range(3)]
    puts, deletes, merges, key_size, val_size = totals
    stats = SstStats(puts, deletes, merges, key_size, val_size, BlockStats(*columns))
    data = encode_stats(stats)
    assert stats_wire(decode_stats(data, object="", base=0)) == stats_wire(stats)
    assert decode_table("SstStats", data) == stats_wire(stats)


@pytest.mark.parametrize("field", ["codec", "sst_type", "filter_format"])
@pytest.mark.parametrize("number", [5, -1, 127])
def test_unknown_kinds_are_unsupported(field: str, number: int) -> None:
    with pytest.raises(UnsupportedFormat, match=r"x\.sst at byte 99"):
        decode_info(encode_table("SsTableInfo", {field: number}), object="x.sst", base=99)


def test_an_error_names_the_object_and_the_byte() -> None:
    info = SstInfo(b"k", b"k", 1, 2, 3, 4, Codec.NONE, SstType.WAL, 5, 6, FilterFormat.LEGACY)
    data = encode_info(info)
    with pytest.raises(CorruptData) as caught:
        decode_info(data[:-6], object="x.sst", base=1000)
    assert caught.value.object == "x.sst"
    assert 1000 <= caught.value.offset < 1000 + len(data)


def test_a_large_index_is_a_matter_of_milliseconds() -> None:
    n = 65_536
    index = BlockIndex(np.arange(n, dtype=np.uint64) * 4096, Bytes.of(b"%012d" % i for i in range(n)))
    decode_index(encode_index(index), object="", base=0)
    fastest = 1.0
    for _ in range(5):
        started = time.perf_counter()
        read = decode_index(encode_index(index), object="", base=0)
        fastest = min(fastest, time.perf_counter() - started)
    assert read.first_keys[n - 1] == b"%012d" % (n - 1)
    assert fastest < 0.2, "an order of magnitude above what it takes"
