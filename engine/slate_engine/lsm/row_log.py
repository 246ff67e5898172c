"""Rows in the order of their commits, as columns that grow.

Key and value of a row stand one behind the other in one buffer, so that adding rows is one copy. Columns take a third of
what the same rows take as Python objects, and when they go, all of their memory goes back at once: objects of a memtable
would leave holes between those of everybody else, in which a process that writes for a day comes to hold far more than it
uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from slate_engine.format.columns import I64, U8, U64, Bytes, Rows
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import copy, readonly
from slate_engine.format.siphash import hash_spans
from slate_engine.lsm.key_index import KeyIndex
from slate_engine.lsm.order import take_bytes
from slate_engine.lsm.row import Row

Array = TypeVar("Array", bound=np.ndarray[Any, Any])

LARGE = 8 << 20
"""From so many bytes on, room is asked for generously: memory that nobody has touched is not taken from the machine, while
to move what is there would take twice as much for a moment."""

_FIRST_ROWS, _FIRST_BYTES = 64, 4096


class LogColumns(NamedTuple):
    """The first ``length`` rows of a log. Rows that come later leave these as they are, so any thread may read them."""

    length: int
    data: U8
    offsets: I64
    """Where each key begins, and each value: two for each row, and the end."""
    seq: U64
    flags: U8
    create_ts: I64
    expire_ts: I64

    def keys(self, places: I64) -> Bytes:
        return take_bytes(self._strings, 2 * places)

    def sizes(self, places: I64) -> I64:
        """The bytes of the key and the value of each of these rows."""
        return self.offsets[2 * places + 2] - self.offsets[2 * places]

    def take(self, places: I64) -> Rows:
        """The rows at these places, in this order, in buffers of their own."""
        return Rows(
            self.keys(places),
            take_bytes(self._strings, 2 * places + 1),
            self.seq[places],
            self.flags[places],
            self.create_ts[places],
            self.expire_ts[places],
        )

    @property
    def payload_bytes(self) -> int:
        return int(self.offsets[2 * self.length])

    @property
    def _strings(self) -> Bytes:
        """All keys and values, in turn."""
        return Bytes(self.data, self.offsets)


class RowLog:
    """Takes rows, and finds the versions of a key."""

    def __init__(self) -> None:
        self._index = KeyIndex()
        self.columns = LogColumns(
            0,
            np.empty(_FIRST_BYTES, np.uint8),
            np.zeros(2 * _FIRST_ROWS + 1, np.int64),
            np.empty(_FIRST_ROWS, np.uint64),
            np.empty(_FIRST_ROWS, np.uint8),
            np.empty(_FIRST_ROWS, np.int64),
            np.empty(_FIRST_ROWS, np.int64),
        )
        self._views = self._as_views()

    def __len__(self) -> int:
        return self.columns.length

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows that were committed after all rows before."""
        if not rows:
            return
        keys, values, *numbers = zip(*rows, strict=True)
        parts: list[bytes] = [b""] * (2 * len(rows))
        parts[::2], parts[1::2] = keys, values
        data, offsets = self._room(np.fromiter(map(len, parts), np.int64, len(parts)))
        data[offsets[0] : offsets[-1]] = np.frombuffer(b"".join(parts), np.uint8)
        self._enter(data, offsets, numbers)

    def extend(self, rows: Rows) -> None:
        """The same of rows that are columns already."""
        if not len(rows):
            return
        lengths = np.empty(2 * len(rows), np.int64)
        lengths[::2], lengths[1::2] = rows.keys.lengths, rows.values.lengths
        data, offsets = self._room(lengths)
        for column, starts in ((rows.keys, offsets[:-1:2]), (rows.values, offsets[1::2])):
            _spread(data, readonly(starts), readonly(column.data), readonly(column.offsets))
        self._enter(data, offsets, (rows.seq, rows.flags, rows.create_ts, rows.expire_ts))

    def _room(self, lengths: I64) -> tuple[U8, I64]:
        """Room for strings of these lengths behind those that are here: the buffer, and where in it each begins and ends."""
        now = self.columns
        first, more = 2 * now.length, len(lengths)
        whole = _grown(now.offsets, first + 1, first + more + 1)
        offsets = whole[first : first + more + 1]
        np.cumsum(lengths, out=offsets[1:])
        offsets[1:] += offsets[0]
        data = _grown(now.data, int(offsets[0]), int(offsets[-1]))
        self.columns = now._replace(data=data, offsets=whole)
        return data, offsets

    def _enter(self, data: U8, offsets: I64, numbers: Sequence[npt.ArrayLike]) -> None:
        """The strings are in their places; the rows' numbers follow, and then they are there."""
        now = self.columns
        count = now.length + len(offsets) // 2
        seq, flags, create_ts, expire_ts = numbers
        starts = offsets[:-1:2]
        self._index.enter(hash_spans(data, starts, offsets[1::2] - starts), now.length)
        self.columns = LogColumns(
            count,
            data,
            now.offsets,
            _extended(now.seq, now.length, count, seq),
            _extended(now.flags, now.length, count, flags),
            _extended(now.create_ts, now.length, count, create_ts),
            _extended(now.expire_ts, now.length, count, expire_ts),
        )
        self._views = self._as_views()

    def _as_views(self) -> tuple[memoryview, ...]:
        """The columns as Python's own arrays, out of which one number is read several times faster."""
        return tuple(column.data for column in self.columns[1:])

    def newest(self, key: bytes, max_seq: int) -> int:
        """The place of the newest version of ``key`` at or below ``max_seq``, or -1."""
        now = self.columns
        return self._index.newest(key, max_seq, now.data, now.offsets, now.seq) if now.length else -1

    def older(self, key: bytes, place: int) -> int:
        """The place of the version of ``key`` before the one at ``place``, or -1."""
        return self._index.older(key, place, self.columns.data, self.columns.offsets)

    def row(self, key: bytes, place: int) -> Row:
        """The row at ``place``, whose key is known."""
        data, offsets, seq, flags, create_ts, expire_ts = self._views
        value = bytes(data[offsets[2 * place + 1] : offsets[2 * place + 2]])
        return Row(key, value, seq[place], flags[place], create_ts[place], expire_ts[place])


@kernel
def _spread(target: U8, starts: I64, data: U8, offsets: I64) -> None:
    """Item ``i`` of a column goes to ``starts[i]``."""
    for i in range(len(starts)):
        copy(target, starts[i], data, offsets[i], offsets[i + 1] - offsets[i])


def _extended(array: Array, used: int, count: int, more: npt.ArrayLike) -> Array:
    array = _grown(array, used, count)
    array[used:count] = more
    return array


def _grown(array: Array, used: int, needed: int) -> Array:
    """The same with room for ``needed`` items, of which the first ``used`` are kept."""
    if needed <= len(array):
        return array
    larger: Array = np.empty(max(needed, len(array) * (16 if array.nbytes >= LARGE else 2)), array.dtype)  # type: ignore[assignment]
    larger[:used] = array[:used]
    return larger
