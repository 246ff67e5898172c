"""Rows as columns: the shape in which the whole engine moves data.

A :class:`Bytes` column is one contiguous buffer and the offsets of its items; :class:`Rows` is a batch of row versions. A
row becomes a Python object only at the edge of a row API.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

U8: TypeAlias = npt.NDArray[np.uint8]
U64: TypeAlias = npt.NDArray[np.uint64]
I64: TypeAlias = npt.NDArray[np.int64]

TOMBSTONE = 0x01
HAS_EXPIRE = 0x02
HAS_CREATE = 0x04
MERGE = 0x08
"""The flag bits of a row, as they stand on disk."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """A column of byte strings: item ``i`` is ``data[offsets[i]:offsets[i+1]]``."""

    data: U8
    offsets: I64

    @staticmethod
    def of(items: Iterable[bytes]) -> Bytes:
        listed = list(items)
        offsets = np.zeros(len(listed) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, listed), np.int64, len(listed)), out=offsets[1:])
        return Bytes(np.frombuffer(b"".join(listed), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> bytes:
        if i < 0:
            i += len(self)
        return self.data[self.offsets[i] : self.offsets[i + 1]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        raw = self.data.data
        for start, end in itertools.pairwise(self.offsets.tolist()):
            yield bytes(raw[start:end])

    @property
    def lengths(self) -> I64:
        return np.diff(self.offsets)

    @property
    def nbytes(self) -> int:
        return int(self.offsets[-1] - self.offsets[0])

    def slice(self, start: int, stop: int) -> Bytes:
        """Items ``[start, stop)``; shares the buffer."""
        return Bytes(self.data, self.offsets[start : stop + 1])


@dataclass(frozen=True, slots=True)
class Rows:
    """Row versions in columns. ``create_ts`` and ``expire_ts`` count only where the flags say so, and are 0 elsewhere;
    a tombstone's value is empty."""

    keys: Bytes
    values: Bytes
    seq: U64
    flags: U8
    create_ts: I64
    expire_ts: I64

    def __len__(self) -> int:
        return len(self.seq)

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes + 25 * len(self)

    def slice(self, start: int, stop: int) -> Rows:
        """Rows ``[start, stop)``; shares every buffer."""
        part = slice(start, stop)
        return Rows(
            self.keys.slice(start, stop),
            self.values.slice(start, stop),
            self.seq[part],
            self.flags[part],
            self.create_ts[part],
            self.expire_ts[part],
        )

    @staticmethod
    def of(rows: Sequence[tuple[bytes, bytes, int, int, int, int]]) -> Rows:
        """Build from ``(key, value, seq, flags, create_ts, expire_ts)`` tuples: for small inputs and tests."""
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * 6
        return Rows(
            Bytes.of(columns[0]),
            Bytes.of(columns[1]),
            np.array(columns[2], np.uint64),
            np.array(columns[3], np.uint8),
            np.array(columns[4], np.int64),
            np.array(columns[5], np.int64),
        )

    def tuples(self) -> Iterator[tuple[bytes, bytes, int, int, int, int]]:
        """The inverse of :meth:`of`."""
        return zip(
            self.keys,
            self.values,
            self.seq.tolist(),
            self.flags.tolist(),
            self.create_ts.tolist(),
            self.expire_ts.tolist(),
            strict=True,
        )


EMPTY = Rows.of([])
