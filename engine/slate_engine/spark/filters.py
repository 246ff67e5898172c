"""Filters on the key, from Spark's terms to ranges of stored keys.

What cannot be told from the key alone is left to Spark. A format whose order is not that of its bytes, or whose bytes may
fail to decode, narrows what is read, and Spark looks again at what comes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from slate_engine.format.key_range import ALL, Bound, KeyRange
from slate_engine.spark.decoding import INTEGERS

Ranges = tuple[KeyRange, ...]
"""Disjoint, in ascending order."""

EVERYTHING: Ranges = (ALL,)
NOTHING: Ranges = ()

_PACKING = {"int32": ">i", "int64": ">q", "uint32": ">I", "uint64": ">Q"}


@dataclass(frozen=True)
class Pushed:
    """What a read has to look at, and which filters Spark must look at again."""

    ranges: Ranges
    left: list[Filter]


def push(filters: Iterable[Filter], format: str, *, nulls: bool) -> Pushed:
    """Narrow to the keys that all ``filters`` allow; ``format`` is that of the key column. Where bad keys become
    ``nulls``, a range may hold some, which only Spark's own filter drops."""
    ranges, left = EVERYTHING, []
    exact = format in ("binary", "utf8") and not nulls
    for each in filters:
        allowed = allowed_by(each, format)
        if allowed is not None:
            ranges = intersect(ranges, allowed)
        if allowed is None or not exact:
            left.append(each)
    return Pushed(ranges, left)


def allowed_by(filter: Filter, format: str) -> Ranges | None:
    """The keys that one filter allows; None if it is not about the key, or nothing can be told."""
    if getattr(filter, "attribute", None) != ("key",):
        return None
    match filter:
        case IsNotNull():
            return EVERYTHING
        case EqualTo(_, value) | EqualNullSafe(_, value):
            # A key that is null is one that does not decode, and those may be anywhere.
            return None if value is None else _points([value], format)
        case In(_, values):
            return _points(values, format)
        case GreaterThan(_, value):
            return _above(value, format, inclusive=False)
        case GreaterThanOrEqual(_, value):
            return _above(value, format, inclusive=True)
        case LessThan(_, value):
            return _below(value, format, inclusive=False)
        case LessThanOrEqual(_, value):
            return _below(value, format, inclusive=True)
        case StringStartsWith(_, value) if format == "utf8":
            return (KeyRange.of_prefix(value.encode()),)
    return None


def intersect(a: Ranges, b: Ranges) -> Ranges:
    """What both hold. Both are in order, so this takes one walk through them."""
    found: list[KeyRange] = []
    i = j = 0
    while i < len(a) and j < len(b):
        both = a[i].intersect(b[j])
        if both is not None:
            found.append(both)
        if _ends_first(a[i], b[j]):
            i += 1
        else:
            j += 1
    return tuple(found)


def is_point(wanted: KeyRange) -> bool:
    """Whether it holds one key and no other."""
    return wanted.start.bounded and wanted.start == wanted.end


def _ends_first(a: KeyRange, b: KeyRange) -> bool:
    if not a.end.bounded or not b.end.bounded:
        return a.end.bounded
    if a.end.key == b.end.key:
        return a.end != Bound.included(a.end.key)
    return a.end.key < b.end.key


def _points(values: Sequence[Any], format: str) -> Ranges | None:
    keys = [_stored(value, format) for value in values if value is not None]
    if any(key is None for key in keys):
        return None
    return tuple(KeyRange.closed(key, key) for key in sorted({key for key in keys if key is not None}))


def _above(value: Any, format: str, *, inclusive: bool) -> Ranges | None:
    key = _stored(value, format)
    if key is None:
        return None
    start = Bound.included(key) if inclusive else Bound.excluded(key)
    if not format.startswith("int"):
        return (KeyRange(start),)
    # The sign bit comes first, so all negative numbers stand behind the others.
    middle = bytes([0x80]) + bytes(len(key) - 1)
    if value >= 0:
        return (KeyRange(start, Bound.excluded(middle)),)
    return (KeyRange.half_open(None, middle), KeyRange(start))


def _below(value: Any, format: str, *, inclusive: bool) -> Ranges | None:
    key = _stored(value, format)
    if key is None:
        return None
    end = Bound.included(key) if inclusive else Bound.excluded(key)
    if not format.startswith("int"):
        return (KeyRange(end=end),)
    middle = bytes([0x80]) + bytes(len(key) - 1)
    if value >= 0:
        return (KeyRange(end=end), KeyRange.half_open(middle, None))
    return (KeyRange(Bound.included(middle), end),)


def _stored(value: Any, format: str) -> bytes | None:
    """The key that decodes to ``value``; None if there is none, or it is not known."""
    if format == "binary" and isinstance(value, bytes | bytearray):
        return bytes(value)
    if format == "utf8" and isinstance(value, str):
        return value.encode()
    if format in INTEGERS:
        try:
            return struct.pack(_PACKING[format], int(value))
        except (struct.error, TypeError, ValueError):
            return None
    return None
