"""A column of byte strings that lie anywhere in one buffer, some of them perhaps absent.

Where :class:`slate_engine.format.columns.Bytes` needs its items side by side, spans may point into the very file that they
were read from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slate_engine.format.columns import I64, U8, Bytes
from slate_engine.format.kernel import kernel


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Item ``i`` is ``data[start[i] : start[i] + length[i]]``, or absent where its length is negative."""

    data: U8
    start: I64
    length: I64

    @staticmethod
    def of(items: Iterable[bytes | None]) -> Spans:
        listed = list(items)
        length = np.fromiter((-1 if item is None else len(item) for item in listed), np.int64, len(listed))
        return Spans(readonly(b"".join(item for item in listed if item)), _starts(length), length)

    @staticmethod
    def of_column(column: Bytes) -> Spans:
        return Spans(readonly(column.data), column.offsets[:-1].copy(), column.lengths)

    @staticmethod
    def concat(parts: Sequence[Spans]) -> Spans:
        """All items of ``parts``. Parts of one buffer keep it; otherwise the bytes in use are copied together."""
        if len(parts) == 1:
            return parts[0]
        length = np.concatenate([part.length for part in parts])
        if all(part.data is parts[0].data for part in parts):
            return Spans(parts[0].data, np.concatenate([part.start for part in parts]), length)
        return Spans(readonly(np.concatenate([part.packed().data for part in parts])), _starts(length), length)

    @staticmethod
    def where(condition: npt.NDArray[np.bool_], then: Spans, otherwise: Spans) -> Spans:
        """Row by row, the item of one or the other."""
        rows = np.arange(len(then))
        return Spans.concat([then, otherwise]).take(np.where(condition, rows, rows + len(then)))

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, i: int) -> bytes | None:
        length = int(self.length[i])
        if length < 0:
            return None
        start = int(self.start[i])
        return self.data[start : start + length].tobytes()

    def __iter__(self) -> Iterator[bytes | None]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Spans({list(self)})" if len(self) < 4 else f"<{len(self)} spans>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spans):
            return NotImplemented
        return (
            len(self) == len(other)
            and np.array_equal(self.length < 0, other.length < 0)
            and not self.compare(other).any()
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        return self.length >= 0

    def compare(self, other: Spans) -> I64:
        """Row by row: -1, 0 or 1 as this item is less than, equal to or greater than the other. An absent item counts as
        an empty one."""
        out = np.empty(len(self), np.int64)
        _compare(self.data, self.start, self.length, other.data, other.start, other.length, out)
        return out

    def take(self, rows: I64 | slice) -> Spans:
        return Spans(self.data, self.start[rows], self.length[rows])

    def with_absent(self) -> Spans:
        """The same and one absent item more."""
        return Spans(self.data, np.append(self.start, 0), np.append(self.length, -1))

    def packed(self) -> Bytes:
        """The items side by side in a buffer of their own; an absent one becomes an empty one."""
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(np.maximum(self.length, 0), out=offsets[1:])
        data = np.empty(int(offsets[-1]), np.uint8)
        _pack(self.data, self.start, offsets, data)
        return Bytes(data, offsets)


def readonly(data: bytes | bytearray | memoryview | U8) -> U8:
    """The same bytes as an array that cannot be written to: kernels are compiled for exactly this type."""
    view = data.view() if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    view.flags.writeable = False
    return view


def _starts(length: I64) -> I64:
    present = np.maximum(length, 0)
    return np.cumsum(present) - present


@kernel
def _pack(data: U8, start: I64, offsets: I64, out: U8) -> None:
    for i in range(len(start)):
        size = offsets[i + 1] - offsets[i]
        if size < 64:
            for k in range(size):
                out[offsets[i] + k] = data[start[i] + k]
        else:
            out[offsets[i] : offsets[i + 1]] = data[start[i] : start[i] + size]


@kernel
def _word(data: U8, at: np.uintp) -> np.uint64:
    """Eight bytes as a number, in one load: the index is unsigned, so that it needs no check for a negative one."""
    word = np.uint64(0)
    for k in range(8):
        word |= np.uint64(data[at + np.uintp(k)]) << np.uint64(8 * k)
    return word


@kernel
def _compare(a: U8, a_start: I64, a_length: I64, b: U8, b_start: I64, b_length: I64, out: I64) -> None:
    for i in range(len(out)):
        order = max(a_length[i], 0) - max(b_length[i], 0)
        left, right = np.uintp(a_start[i]), np.uintp(b_start[i])
        common = min(a_length[i], b_length[i])
        k = 0
        # Eight bytes at a time as long as they are equal.
        while k + 8 <= common and _word(a, left + np.uintp(k)) == _word(b, right + np.uintp(k)):
            k += 8
        while k < common:
            x, y = a[left + np.uintp(k)], b[right + np.uintp(k)]
            if x != y:
                order = np.int64(x) - np.int64(y)
                break
            k += 1
        out[i] = 1 if order > 0 else -1 if order < 0 else 0
