"""Filters on the key that Spark pushes down, from its terms to ranges of stored keys.

Only a Spark that keeps them per scan may push them: see :func:`slate_engine.spark.versions.pushes`. What cannot be told
from the key alone is left to Spark. A format whose order is not that of its bytes, or whose bytes may fail to decode,
narrows what is read, and Spark looks again at what comes.
"""

from __future__ import annotations

from collections.abc import Iterable
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

from slate_engine.format.key_range import KeyRange
from slate_engine.spark.ranges import EVERYTHING, Ranges, above, below, intersect, points, stored


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
            return None if value is None else _one_of([value], format)
        case In(_, values):
            return _one_of([value for value in values if value is not None], format)
        case StringStartsWith(_, value) if format == "utf8":
            return (KeyRange.of_prefix(value.encode()),)
        case GreaterThan(_, value) | GreaterThanOrEqual(_, value) | LessThan(_, value) | LessThanOrEqual(_, value):
            key = stored(value, format)
            if key is None:
                return None
            side = above if isinstance(filter, GreaterThan | GreaterThanOrEqual) else below
            return side(key, format, inclusive=isinstance(filter, GreaterThanOrEqual | LessThanOrEqual))
    return None


def _one_of(values: Iterable[Any], format: str) -> Ranges | None:
    keys = [stored(value, format) for value in values]
    known = [key for key in keys if key is not None]
    return points(known) if len(known) == len(keys) else None
