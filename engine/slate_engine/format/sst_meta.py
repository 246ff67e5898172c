"""The FlatBuffers inside an SST: its info, its block index, its statistics. Raw, without checksum and compression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from slate_engine.errors import UnsupportedFormat
from slate_engine.format.columns import U64, Bytes
from slate_engine.format.flatbuf import layout
from slate_engine.format.flatbuf.layout import Codec, FilterFormat, SstType
from slate_engine.format.flatbuf.reader import Source
from slate_engine.format.flatbuf.spans import Spans
from slate_engine.format.flatbuf.writer import Builder

__all__ = [
    "BlockIndex",
    "BlockStats",
    "Codec",
    "FilterFormat",
    "SstInfo",
    "SstStats",
    "SstType",
    "decode_index",
    "decode_info",
    "decode_stats",
    "encode_index",
    "encode_info",
    "encode_stats",
]

U16: TypeAlias = npt.NDArray[np.uint16]
U32: TypeAlias = npt.NDArray[np.uint32]
Buffer: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class SstInfo:
    """Where the parts of an SST are, and the range of its keys (of a WAL SST: its first sequence number)."""

    first_entry: bytes | None
    last_entry: bytes | None
    index_offset: int
    index_len: int
    filter_offset: int
    filter_len: int
    codec: Codec
    sst_type: SstType
    stats_offset: int
    stats_len: int
    filter_format: FilterFormat


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """Where the data blocks begin, and a separator for each. ``encoded_len`` is there if the blocks are padded to a fixed
    size: then it says how many bytes of a block count."""

    offsets: U64
    first_keys: Bytes
    encoded_len: U32 | None = None

    def __len__(self) -> int:
        return len(self.offsets)


class BlockStats(NamedTuple):
    """Counts of the rows of each block."""

    puts: U16
    deletes: U16
    merges: U16


@dataclass(frozen=True, slots=True)
class SstStats:
    """Counts of the rows of an SST, as a whole and by block."""

    num_puts: int
    num_deletes: int
    num_merges: int
    raw_key_size: int
    raw_val_size: int
    block_stats: BlockStats


def encode_info(info: SstInfo) -> bytes:
    to = layout.SsTableInfo
    builder = Builder()
    first, last = builder.strings(Spans.of([info.first_entry, info.last_entry]), terminated=False).tolist()
    return builder.finish(
        builder.table(
            {
                to.first_entry: first,
                to.last_entry: last,
                to.index_offset: info.index_offset,
                to.index_len: info.index_len,
                to.filter_offset: info.filter_offset,
                to.filter_len: info.filter_len,
                to.codec: info.codec,
                to.sst_type: info.sst_type,
                to.stats_offset: info.stats_offset,
                to.stats_len: info.stats_len,
                to.filter_format: info.filter_format,
            }
        )
    )


def decode_info(buf: Buffer, *, object: str, base: int) -> SstInfo:
    """``base`` is where ``buf`` begins in the object, for errors."""
    of = layout.SsTableInfo
    root = Source(buf, object=object, base=base).root()
    (numbers,) = zip(
        *root.numbers(
            of.index_offset,
            of.index_len,
            of.filter_offset,
            of.filter_len,
            of.codec,
            of.sst_type,
            of.stats_offset,
            of.stats_len,
            of.filter_format,
        ),
        strict=True,
    )
    index_offset, index_len, filter_offset, filter_len, codec, sst_type, stats_offset, stats_len, filters = numbers
    try:
        return SstInfo(
            first_entry=root.spans(of.first_entry)[0],
            last_entry=root.spans(of.last_entry)[0],
            index_offset=index_offset,
            index_len=index_len,
            filter_offset=filter_offset,
            filter_len=filter_len,
            codec=Codec(codec),
            sst_type=SstType(sst_type),
            stats_offset=stats_offset,
            stats_len=stats_len,
            filter_format=FilterFormat(filters),
        )
    except ValueError as unknown:
        raise UnsupportedFormat(f"{object} at byte {base}: {unknown}; a newer version wrote it") from None


def encode_index(index: BlockIndex) -> bytes:
    """``encoded_len`` is never written: SlateDB 0.17 cannot read padded blocks, so nothing that we write has them."""
    to = layout.BlockMeta
    builder = Builder()
    keys = builder.strings(Spans.of_column(index.first_keys), terminated=False)
    blocks = builder.tables(len(index), {to.offset: index.offsets, to.first_key: keys})
    return builder.finish(builder.table({layout.SsTableIndex.block_meta: builder.vector(blocks)}))


def decode_index(buf: Buffer, *, object: str, base: int) -> BlockIndex:
    of = layout.BlockMeta
    blocks, _ = Source(buf, object=object, base=base).root().children(layout.SsTableIndex.block_meta)
    offsets, encoded = blocks.u64(of.offset, of.encoded_len)
    return BlockIndex(
        offsets, blocks.spans(of.first_key).packed(), encoded.astype(np.uint32) if encoded.any() else None
    )


def encode_stats(stats: SstStats) -> bytes:
    builder = Builder()
    vector = 0
    puts, deletes, merges = stats.block_stats
    if len(puts):
        to_block = layout.BlockStats
        blocks = builder.tables(
            len(puts),
            {to_block.num_puts: puts, to_block.num_deletes: deletes, to_block.num_merges: merges},
        )
        vector = builder.vector(blocks)
    to = layout.SstStats
    return builder.finish(
        builder.table(
            {
                to.num_puts: stats.num_puts,
                to.num_deletes: stats.num_deletes,
                to.num_merges: stats.num_merges,
                to.raw_key_size: stats.raw_key_size,
                to.raw_val_size: stats.raw_val_size,
                to.block_stats: vector,
            }
        )
    )


def decode_stats(buf: Buffer, *, object: str, base: int) -> SstStats:
    of, of_block = layout.SstStats, layout.BlockStats
    root = Source(buf, object=object, base=base).root()
    blocks, _ = root.children(of.block_stats)
    (totals,) = zip(
        *root.numbers(of.num_puts, of.num_deletes, of.num_merges, of.raw_key_size, of.raw_val_size), strict=True
    )
    counts = blocks.u64(of_block.num_puts, of_block.num_deletes, of_block.num_merges)
    puts, deletes, merges, key_size, val_size = totals
    return SstStats(
        puts, deletes, merges, key_size, val_size, BlockStats(*(column.astype(np.uint16) for column in counts))
    )
