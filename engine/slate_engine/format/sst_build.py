"""Rows to an SST, whole or as a stream of chunks.

:class:`SstBuilder` takes sorted rows in as many pieces as come and gives finished bytes as they are ready, so that a
compaction holds a few megabytes of its output, never all of it. :func:`build_sst` is the same with one piece.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from slate_engine.errors import InvalidError
from slate_engine.format import checksum
from slate_engine.format.block_build import BlockBuilder, BuiltBlocks
from slate_engine.format.block_encode import U16
from slate_engine.format.codec import compress, compress_many
from slate_engine.format.columns import I64, U64, Bytes, Rows
from slate_engine.format.filters import Bloom, BloomBuilder, encode_filters
from slate_engine.format.siphash import hash_items
from slate_engine.format.sst_meta import (
    BlockIndex,
    BlockStats,
    Codec,
    FilterFormat,
    SstInfo,
    SstStats,
    SstType,
    encode_index,
    encode_info,
    encode_stats,
)

VERSION = 2
"""The SST version that SlateDB 0.17 writes, and so do we."""

PIECE = 2 << 20
"""Rows are worked on in pieces of about this many bytes, which then stay in the processor's cache from pass to pass."""

WAL_BLOCK_SIZE = 65535

Chunk: TypeAlias = bytes | memoryview
"""Some bytes of a file."""


@dataclass(frozen=True, slots=True)
class SstOptions:
    """How an SST of sorted rows is made; the defaults are SlateDB's."""

    block_size: int = 4096
    codec: Codec = Codec.NONE
    min_filter_keys: int = 1000
    """With fewer rows than this, a filter costs a reader more than it saves."""
    filters: tuple[Bloom, ...] = (Bloom(),)


DEFAULTS = SstOptions()


@dataclass(frozen=True, slots=True)
class BuiltSst:
    """A finished SST: what a manifest records of it, and the bytes that had not been taken from the builder before."""

    info: SstInfo
    version: int
    size: int
    stats: SstStats
    chunks: list[Chunk]

    def tobytes(self) -> bytes:
        return b"".join(self.chunks)


class SstBuilder:
    """Builds one SST. Append sorted rows, take chunks, finish; after an error, throw it away."""

    def __init__(self, options: SstOptions = DEFAULTS, *, kind: SstType = SstType.COMPACTED) -> None:
        self._wal = kind is SstType.WAL
        self._kind = kind
        self._codec = options.codec
        self._min_filter_keys = options.min_filter_keys
        block_size = WAL_BLOCK_SIZE if self._wal else options.block_size
        self._blocks = BlockBuilder(block_size, by_key=not self._wal, seal=options.codec is Codec.NONE)
        self._filters = [] if self._wal else [(policy, BloomBuilder(policy)) for policy in options.filters]
        self._first_entry: bytes | None = None
        self._key_bytes = self._value_bytes = 0
        self._chunks: list[Chunk] = []
        self._size = 0
        self._lengths: list[I64] = []
        self._counts: list[U16] = []
        self._separators: list[Bytes] = []
        self._first_seqs: list[U64] = []

    @property
    def size(self) -> int:
        """The bytes of all blocks finished so far."""
        return self._size

    @property
    def rows(self) -> int:
        """The rows appended so far."""
        return self._blocks.rows

    def append(self, rows: Rows) -> None:
        """Add rows that sort after all rows before: by key, and versions of a key by falling seq."""
        if len(rows) and self._first_entry is None:
            self._first_entry = int(rows.seq[0]).to_bytes(8, "big") if self._wal else rows.keys[0]
        for piece in _pieces(rows):
            self._add(self._blocks.append(piece))
            self._key_bytes += piece.keys.nbytes
            self._value_bytes += piece.values.nbytes
            if self._filters:
                hashes = hash_items(piece.keys)
                for _, bloom in self._filters:
                    bloom.append(piece.keys, hashes)

    def take(self) -> list[Chunk]:
        """The bytes finished since the last call, in order: a part of an upload, perhaps."""
        chunks, self._chunks = self._chunks, []
        return chunks

    def finish(self) -> BuiltSst:
        """Close the last block and write what comes after the blocks."""
        if not self.rows:
            raise InvalidError("an SST has at least one row; do not write one for nothing")
        self._add(self._blocks.finish())
        stats = self._stats()
        filter_offset = self._size
        filter_len = self._section(self._filter_block()) if self._filters and self.rows >= self._min_filter_keys else 0
        index_offset = self._size
        index_len = self._section(encode_index(self._index()))
        stats_offset = 0 if self._wal else self._size
        stats_len = 0 if self._wal else self._section(encode_stats(stats))
        info = SstInfo(
            first_entry=self._first_entry,
            last_entry=None if self._wal else self._blocks.last_key,
            index_offset=index_offset,
            index_len=index_len,
            filter_offset=filter_offset,
            filter_len=filter_len,
            codec=self._codec,
            sst_type=self._kind,
            stats_offset=stats_offset,
            stats_len=stats_len,
            filter_format=FilterFormat.COMPOSITE,
        )
        info_offset = self._size
        self._emit(checksum.sealed(encode_info(info)) + info_offset.to_bytes(8, "big") + VERSION.to_bytes(2, "big"))
        return BuiltSst(info, VERSION, self._size, stats, self.take())

    def _add(self, built: BuiltBlocks) -> None:
        self._separators.append(built.separators)
        self._first_seqs.append(built.first_seqs)
        if not len(built.ends):
            return
        self._counts.append(built.counts)
        if self._codec is Codec.NONE:
            self._lengths.append(np.diff(built.ends, prepend=0))
            self._emit(built.data.data)
            return
        starts = np.concatenate([np.zeros(1, np.int64), built.ends[:-1]])
        packed, ends = compress_many(self._codec, built.data, starts, built.ends - checksum.SIZE)
        checksum.seal(packed, ends)
        self._lengths.append(np.diff(ends, prepend=0))
        self._emit(packed.data)

    def _section(self, raw: bytes) -> int:
        sealed = checksum.sealed(compress(self._codec, raw))
        self._emit(sealed)
        return len(sealed)

    def _emit(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)

    def _filter_block(self) -> bytes:
        return encode_filters((policy.name, bloom.build().encode()) for policy, bloom in self._filters)

    def _index(self) -> BlockIndex:
        lengths = np.concatenate(self._lengths)
        offsets = (np.cumsum(lengths) - lengths).astype(np.uint64)
        if not self._wal:
            return BlockIndex(offsets, _concatenated(self._separators))
        seqs = np.concatenate(self._first_seqs)
        keys = np.frombuffer(seqs.astype(">u8").tobytes(), np.uint8)
        return BlockIndex(offsets, Bytes(keys, np.arange(len(seqs) + 1, dtype=np.int64) * 8))

    def _stats(self) -> SstStats:
        counts = np.concatenate(self._counts, axis=1)
        puts, deletes, merges = counts.sum(axis=1, dtype=np.int64).tolist()
        return SstStats(puts, deletes, merges, self._key_bytes, self._value_bytes, BlockStats(*counts))


def build_sst(rows: Rows, options: SstOptions = DEFAULTS) -> BuiltSst:
    """The SST of these sorted rows."""
    builder = SstBuilder(options)
    builder.append(rows)
    return builder.finish()


def _pieces(rows: Rows) -> Iterator[Rows]:
    keys, values = rows.keys.offsets, rows.values.offsets

    def weight(row: int) -> int:
        return int(keys[row]) + int(values[row]) + 36 * row

    start, n = 0, len(rows)
    while start < n:
        stop = bisect.bisect_right(range(n + 1), weight(start) + PIECE, lo=start, key=weight) - 1
        stop = max(stop, start + 1)
        yield rows.slice(start, stop)
        start = stop


def _concatenated(columns: list[Bytes]) -> Bytes:
    sizes = np.cumsum([0] + [column.nbytes for column in columns])
    offsets = [column.offsets[1:] + size for column, size in zip(columns, sizes.tolist(), strict=False)]
    data = np.concatenate([column.data for column in columns])
    return Bytes(data, np.concatenate([np.zeros(1, np.int64), *offsets]))
