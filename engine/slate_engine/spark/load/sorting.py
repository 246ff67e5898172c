"""The rows of a partition in the order of their keys, within a limit of memory.

Rows gather until they come to the limit; then they are sorted and go to a file on the executor's local disk. At the end the
files are merged a chunk of keys at a time; they are mapped into memory, and nothing is kept of their rows but a key now and
then. A partition that fits is never written anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from slate_engine.errors import InvalidError
from slate_engine.format.arrow import record_batch
from slate_engine.format.columns import EMPTY, I64, Bytes, Rows
from slate_engine.format.key_range import ALL, KeyRange
from slate_engine.lsm.compaction.ranges import divided
from slate_engine.lsm.cuts import cut_keys
from slate_engine.lsm.order import (
    concat,
    first_of_key,
    is_strictly_ascending,
    key_order,
    lower_bound,
    take,
    take_bytes,
)
from slate_engine.lsm.visible import merge_sources

CHUNK = 8 << 20
CHUNKS = 16
"""So many of them are reckoned to be in memory during the merge: joined, in order, as blocks, on their way to the store, and
again for the one that comes next. With less memory they are smaller."""
COPIES = 3
"""How often rows are in memory while they are sorted: as they came, in one piece, and in order."""
ANCHOR_BYTES = 16 << 10
"""After about so many bytes of a file a key is noted, to cut the merge into chunks. Between two of them nothing can be cut,
and that is so in every file at once."""
SPILLED = ("key", "value", "create_ts", "expire_ts")


@dataclass(frozen=True)
class _Spilled:
    """A sorted file: its rows, of which nothing is read before it is asked for; every so many a key, and the bytes from
    there to the next."""

    rows: pa.RecordBatch
    keys: Bytes
    anchors: Bytes
    sizes: I64

    def within(self, wanted: KeyRange) -> pa.RecordBatch:
        first = lower_bound(self.keys, wanted.start.key) if wanted.start.bounded else 0
        last = lower_bound(self.keys, wanted.end.key) if wanted.end.bounded else len(self.keys)
        return self.rows.slice(first, last - first)


class Sorter:
    """Takes rows in any order, and gives them back in that of their keys, one row a key."""

    def __init__(
        self, memory_bytes: int, folder: Path, reread: Callable[[pa.RecordBatch], Rows], *, any_of_duplicates: bool
    ) -> None:
        self._limit = memory_bytes // COPIES
        self._chunk = max(1, min(CHUNK, memory_bytes // CHUNKS))
        self._folder = folder
        self._reread = reread
        self._any = any_of_duplicates
        self._held: list[Rows] = []
        self._held_bytes = 0
        self._spilled: list[_Spilled] = []

    def add(self, rows: Rows) -> None:
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= self._limit:
            self._spill()

    def chunks(self) -> Iterator[Rows]:
        """Everything that was added, in pieces of some megabytes."""
        if not self._spilled:
            yield from self._in_memory()
            return
        if self._held:
            self._spill()
        anchors, sizes = [each.anchors for each in self._spilled], [each.sizes for each in self._spilled]
        for keys in divided(ALL, cut_keys(anchors, sizes, [self._chunk])):
            chunk = self._merged(keys)
            if len(chunk):
                yield self._unique(chunk)

    def _merged(self, keys: KeyRange) -> Rows:
        parts = (each.within(keys) for each in self._spilled)
        rows, order = merge_sources([self._reread(part) for part in parts if part.num_rows] or [EMPTY])
        return take(rows, order)

    def _in_memory(self) -> Iterator[Rows]:
        if not self._held:
            return
        rows, order = self._sorted()
        each = max(1, self._chunk * len(rows) // max(rows.nbytes, 1))
        if self._any:
            order = _last_of_key(rows.keys, order)
        for start in range(0, len(order), each):
            # One row more at the front shows whether the chunk begins with the key that the last one ended with.
            part = take(rows, order[max(start - 1, 0) : start + each])
            self._check(part)
            yield part.slice(min(start, 1), len(part))

    def _sorted(self) -> tuple[Rows, I64]:
        rows = concat(self._held)
        self._held, self._held_bytes = [], 0
        if is_strictly_ascending(rows.keys):
            return rows, np.arange(len(rows))
        return rows, key_order(rows.keys, np.arange(len(rows) + 1))

    def _spill(self) -> None:
        path = self._folder / f"{len(self._spilled)}.arrow"
        rows = take(*self._sorted())
        batch = record_batch(rows, SPILLED)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        places = np.arange(0, len(rows), max(1, ANCHOR_BYTES * len(rows) // max(rows.nbytes, 1)))
        mapped = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        self._spilled.append(
            _Spilled(mapped, _mapped_keys(mapped), take_bytes(rows.keys, places), _sizes(rows, places))
        )

    def _unique(self, rows: Rows) -> Rows:
        if self._any and not is_strictly_ascending(rows.keys):
            return take(rows, _last_of_key(rows.keys, np.arange(len(rows))))
        self._check(rows)
        return rows

    def _check(self, rows: Rows) -> None:
        if is_strictly_ascending(rows.keys):
            return
        first = first_of_key(rows.keys, np.arange(len(rows)))
        raise InvalidError(
            f"two rows have the key {rows.keys[int(np.argmin(first))]!r}. A load is one commit, which has one row a key: "
            'drop duplicates before it, or let any one of them stay with option("duplicates", "any")'
        )


def _last_of_key(keys: Bytes, order: I64) -> I64:
    """Of equal keys only the place of the last."""
    last: I64 = order[np.append(first_of_key(keys, order)[1:], 1) == 1]
    return last


def _mapped_keys(batch: pa.RecordBatch) -> Bytes:
    _, offsets, data = batch.column("key").buffers()
    return Bytes(np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int64)[: batch.num_rows + 1])


def _sizes(rows: Rows, places: I64) -> I64:
    """The bytes from each place to the next."""
    edges = np.append(places, len(rows))
    sizes: I64 = np.diff(rows.keys.offsets[edges] + rows.values.offsets[edges])
    return sizes
