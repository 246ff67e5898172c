"""Ranges of keys: any mix of open, closed and unbounded ends, ordered as bytes are."""

from __future__ import annotations

from dataclasses import dataclass

from slate_engine.format.flatbuf.layout import BoundType

__all__ = ["ALL", "UNBOUNDED", "Bound", "BoundType", "KeyRange"]


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range. ``key`` is empty, and means nothing, where the end is unbounded."""

    type: BoundType
    key: bytes = b""

    @staticmethod
    def included(key: bytes) -> Bound:
        return Bound(BoundType.INCLUDED, key)

    @staticmethod
    def excluded(key: bytes) -> Bound:
        return Bound(BoundType.EXCLUDED, key)

    @property
    def bounded(self) -> bool:
        return self.type is not BoundType.UNBOUNDED


UNBOUNDED = Bound(BoundType.UNBOUNDED)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """All keys between two bounds."""

    start: Bound = UNBOUNDED
    end: Bound = UNBOUNDED

    @staticmethod
    def half_open(start: bytes | None, end: bytes | None) -> KeyRange:
        """``[start, end)``, where None is no bound."""
        return KeyRange(
            UNBOUNDED if start is None else Bound.included(start), UNBOUNDED if end is None else Bound.excluded(end)
        )

    @staticmethod
    def closed(start: bytes, end: bytes) -> KeyRange:
        """``[start, end]``."""
        return KeyRange(Bound.included(start), Bound.included(end))

    @staticmethod
    def of_prefix(prefix: bytes) -> KeyRange:
        """All keys that begin with ``prefix``."""
        stem = prefix.rstrip(b"\xff")
        return KeyRange.half_open(prefix, stem[:-1] + bytes([stem[-1] + 1]) if stem else None)

    @property
    def is_empty(self) -> bool:
        if not (self.start.bounded and self.end.bounded):
            return False
        if self.start.key == self.end.key:
            return BoundType.EXCLUDED in (self.start.type, self.end.type)
        return self.start.key > self.end.key

    def __contains__(self, key: bytes) -> bool:
        return self._starts_at_or_before(key) and self._ends_at_or_after(key)

    def intersect(self, other: KeyRange) -> KeyRange | None:
        """What both have in common, or None if that is nothing."""
        both = KeyRange(_later_start(self.start, other.start), _earlier_end(self.end, other.end))
        return None if both.is_empty else both

    def overlaps(self, other: KeyRange) -> bool:
        return self.intersect(other) is not None

    def _starts_at_or_before(self, key: bytes) -> bool:
        match self.start.type:
            case BoundType.INCLUDED:
                return self.start.key <= key
            case BoundType.EXCLUDED:
                return self.start.key < key
            case _:
                return True

    def _ends_at_or_after(self, key: bytes) -> bool:
        match self.end.type:
            case BoundType.INCLUDED:
                return key <= self.end.key
            case BoundType.EXCLUDED:
                return key < self.end.key
            case _:
                return True


ALL = KeyRange()


def _later_start(a: Bound, b: Bound) -> Bound:
    if not a.bounded or not b.bounded:
        return b if not a.bounded else a
    if a.key == b.key:
        return a if a.type is BoundType.EXCLUDED else b
    return max(a, b, key=lambda bound: bound.key)


def _earlier_end(a: Bound, b: Bound) -> Bound:
    if not a.bounded or not b.bounded:
        return b if not a.bounded else a
    if a.key == b.key:
        return a if a.type is BoundType.EXCLUDED else b
    return min(a, b, key=lambda bound: bound.key)
