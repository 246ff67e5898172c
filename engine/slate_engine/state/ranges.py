"""Ranges of keys in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slate_engine.format.columns import I64, U64
from slate_engine.format.flatbuf.spans import Spans
from slate_engine.format.key_range import UNBOUNDED, Bound, BoundType, KeyRange


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Rows of :class:`KeyRange`. A key is absent exactly where its bound is unbounded."""

    start_type: U64
    start: Spans
    end_type: U64
    end: Spans

    @staticmethod
    def of(ranges: Iterable[KeyRange]) -> Ranges:
        listed = list(ranges)
        starts, ends = [each.start for each in listed], [each.end for each in listed]
        return Ranges(*_columns(starts), *_columns(ends))

    @staticmethod
    def concat(parts: Sequence[Ranges]) -> Ranges:
        if len(parts) == 1:
            return parts[0]
        return Ranges(
            np.concatenate([part.start_type for part in parts]),
            Spans.concat([part.start for part in parts]),
            np.concatenate([part.end_type for part in parts]),
            Spans.concat([part.end for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.start_type)

    def __getitem__(self, i: int) -> KeyRange:
        return KeyRange(_bound(self.start_type[i], self.start[i]), _bound(self.end_type[i], self.end[i]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ranges):
            return NotImplemented
        return (
            np.array_equal(self.start_type, other.start_type)
            and np.array_equal(self.end_type, other.end_type)
            and self.start == other.start
            and self.end == other.end
        )

    __hash__ = None  # type: ignore[assignment]

    def take(self, rows: I64) -> Ranges:
        return Ranges(self.start_type[rows], self.start.take(rows), self.end_type[rows], self.end.take(rows))

    def with_unbounded(self) -> Ranges:
        """The same and, as the last one, the range of all keys: an index of -1 finds it."""
        kind = np.uint64(BoundType.UNBOUNDED)
        return Ranges(
            np.append(self.start_type, kind),
            self.start.with_absent(),
            np.append(self.end_type, kind),
            self.end.with_absent(),
        )

    @property
    def is_empty(self) -> npt.NDArray[np.bool_]:
        """Whether each holds no key at all."""
        order = self.start.compare(self.end)
        closed = (self.start_type == BoundType.INCLUDED) & (self.end_type == BoundType.INCLUDED)
        empty: npt.NDArray[np.bool_] = (order > 0) | ((order == 0) & ~closed)
        return empty & self.start.present & self.end.present


def _columns(bounds: list[Bound]) -> tuple[U64, Spans]:
    return (
        np.array([bound.type for bound in bounds], np.uint64),
        Spans.of(bound.key if bound.bounded else None for bound in bounds),
    )


def _bound(kind: np.uint64, key: bytes | None) -> Bound:
    return UNBOUNDED if key is None else Bound(BoundType(int(kind)), key)


NO_RANGES = Ranges.of([])
