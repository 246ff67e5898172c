"""Rows to data blocks of version 2, block for block as SlateDB cuts them.

The rule: an empty block takes any row; otherwise a row goes in if the block, with its restart offsets and their count, then
has at most ``block_size`` bytes. Rows come in any number of calls. Between two calls the block under construction is kept
as the bytes it has so far, so the blocks are the same however the rows were parcelled out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slate_engine.errors import InvalidError
from slate_engine.format import checksum
from slate_engine.format.block_encode import (
    BYTES,
    MERGES,
    PUTS,
    RESTARTS,
    ROWS,
    TOTAL,
    U16,
    append_rows,
    close_block,
    gather_prefixes,
)
from slate_engine.format.block_v2 import RESTART_INTERVAL
from slate_engine.format.columns import I64, U8, U64, Bytes, Rows
from slate_engine.format.fault import OK, REFUSALS
from slate_engine.format.memory import octets, readonly

MAX_BLOCK_SIZE = 1 << 16
"""Restart offsets are 16 bits wide. A row starts before the block is full, so up to this size every offset fits."""

_MIN_ENTRY = 12
_U32 = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class BuiltBlocks:
    """What one call gave: blocks that are finished, and the separators and first seqs of those that were begun."""

    data: U8
    """The finished blocks, each with its checksum or the room for it."""
    ends: I64
    counts: U16
    """Puts, deletes and merges (three rows) of each finished block."""
    separators: Bytes
    first_seqs: U64


def _check(rows: Rows) -> None:
    """What the kernel relies on, beside the order of offsets, which it checks itself: columns of one length, items within
    their buffers, and lengths that fit a varint of 32 bits."""
    columns = (rows.keys, rows.values, rows.flags, rows.create_ts, rows.expire_ts)
    if any(len(column) != len(rows) for column in columns):
        raise InvalidError("the columns of a batch of rows differ in length")
    for column in (rows.keys, rows.values):
        if int(column.offsets[0]) < 0 or int(column.offsets[-1]) > len(column.data):
            raise InvalidError("the offsets of a column reach beyond its bytes")
        if column.nbytes > _U32 and int(column.lengths.max()) > _U32:
            raise InvalidError("a row has a key or a value of 4 GiB or more; store it in parts")


class BlockBuilder:
    """Takes rows, gives blocks. With ``by_key`` rows are sorted by key and falling seq, without by rising seq (a WAL). With
    ``seal`` the blocks get their checksums at once, otherwise whoever compresses them does it. Of no use after a refusal."""

    def __init__(self, block_size: int, *, by_key: bool, seal: bool) -> None:
        if not 1 <= block_size <= MAX_BLOCK_SIZE:
            raise InvalidError(f"block size {block_size}; it can be 1 to {MAX_BLOCK_SIZE} bytes")
        self._block_size = block_size
        self._by_key = by_key
        self._seal = seal
        self._state = np.zeros(7, np.int64)
        self._restarts = np.zeros(block_size // (_MIN_ENTRY * RESTART_INTERVAL) + 2, np.int64)
        self._open = np.empty(0, np.uint8)
        self._last_key = b""
        self._last_seq = np.uint64(0)

    @property
    def rows(self) -> int:
        return int(self._state[TOTAL])

    @property
    def last_key(self) -> bytes:
        return self._last_key

    def append(self, rows: Rows) -> BuiltBlocks:
        _check(rows)
        n = len(rows)
        keys, key_offsets = octets(rows.keys.data), readonly(rows.keys.offsets)
        # A row takes at most three varints of a byte, the fixed fields and a block of its own; long lengths, more varint.
        key_bytes, value_bytes = rows.keys.nbytes, rows.values.nbytes
        room = len(self._open) + 2 * int(self._state[RESTARTS]) + 8
        room += key_bytes + value_bytes + (2 * key_bytes + value_bytes) // 128 + 36 * n
        out = np.empty(room, np.uint8)
        out[: len(self._open)] = self._open
        ends, first_rows, separators = (np.empty(n, np.int64) for _ in range(3))
        counts = np.empty((3, n), np.uint16)
        refusal, row, finished, begun = append_rows(
            keys,
            key_offsets,
            octets(rows.values.data),
            readonly(rows.values.offsets),
            readonly(rows.seq),
            readonly(rows.flags),
            readonly(rows.create_ts),
            readonly(rows.expire_ts),
            octets(self._last_key),
            self._last_seq,
            self._by_key,
            self._block_size,
            self._seal,
            self._state,
            self._restarts,
            out,
            ends,
            counts,
            first_rows,
            separators,
        )
        if refusal != OK:
            raise InvalidError(f"row {self.rows} (key {rows.keys[row][:64]!r}) {REFUSALS[refusal]}")
        if n:
            self._last_key, self._last_seq = rows.keys[-1], rows.seq[-1]
        done = int(ends[finished - 1]) if finished else 0
        self._open = out[done : done + int(self._state[BYTES])].copy()
        first_rows, lengths = first_rows[:begun], separators[:begun]
        offsets = np.zeros(begun + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        prefixes = np.empty(int(offsets[-1]), np.uint8)
        gather_prefixes(keys, key_offsets, readonly(first_rows), readonly(lengths), prefixes)
        return BuiltBlocks(
            out[:done], ends[:finished], counts[:, :finished], Bytes(prefixes, offsets), rows.seq[first_rows]
        )

    def finish(self) -> BuiltBlocks:
        """The last block, if one is open."""
        state = self._state
        out = np.empty(len(self._open) + 2 * int(state[RESTARTS]) + 2 + checksum.SIZE, np.uint8)
        out[: len(self._open)] = self._open
        ends = np.empty(0, np.int64)
        if state[ROWS]:
            ends = np.array([close_block(out, 0, len(self._open), self._restarts, int(state[RESTARTS]), self._seal)])
        counts = state[PUTS : MERGES + 1].astype(np.uint16).reshape(3, 1)[:, : len(ends)]
        return BuiltBlocks(out, ends, counts, Bytes.of([]), np.empty(0, np.uint64))
