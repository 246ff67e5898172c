"""Sets of stored keys as ranges: how they are made from values of the key column, and what two sets share.

The order of stored keys is that of their bytes. Signed integers are stored in two's complement, so the bytes of negative
numbers come after those of the others, and one comparison may be two ranges.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from slate_engine.format.key_range import ALL, Bound, KeyRange

Ranges = tuple[KeyRange, ...]
"""Disjoint, in ascending order."""

EVERYTHING: Ranges = (ALL,)

PACKING = {"int32": ">i", "int64": ">q", "uint32": ">I", "uint64": ">Q"}
"""The formats of keys that are integers."""


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


def stored(value: Any, format: str) -> bytes | None:
    """The key that decodes to ``value``; None if there is none, or it is not known."""
    if format == "binary" and isinstance(value, bytes | bytearray):
        return bytes(value)
    if format == "utf8" and isinstance(value, str):
        return value.encode()
    if format in PACKING:
        try:
            return struct.pack(PACKING[format], int(value))
        except (struct.error, TypeError, ValueError):
            return None
    return None


def points(keys: Iterable[bytes]) -> Ranges:
    return tuple(KeyRange.closed(key, key) for key in sorted(set(keys)))


def above(key: bytes, format: str, *, inclusive: bool) -> Ranges:
    """The keys whose values are greater than that of ``key``."""
    start = Bound.included(key) if inclusive else Bound.excluded(key)
    if not _is_signed(format):
        return (KeyRange(start),)
    middle = _first_negative(key)
    if key < middle:
        return (KeyRange(start, Bound.excluded(middle)),)
    return (KeyRange.half_open(None, middle), KeyRange(start))


def below(key: bytes, format: str, *, inclusive: bool) -> Ranges:
    """The keys whose values are less than that of ``key``."""
    end = Bound.included(key) if inclusive else Bound.excluded(key)
    if not _is_signed(format):
        return (KeyRange(end=end),)
    middle = _first_negative(key)
    if key < middle:
        return (KeyRange(end=end), KeyRange.half_open(middle, None))
    return (KeyRange(Bound.included(middle), end),)


def _is_signed(format: str) -> bool:
    return format in ("int32", "int64")


def _first_negative(key: bytes) -> bytes:
    """The least number of this width has the sign bit alone."""
    return bytes([0x80]) + bytes(len(key) - 1)


def _ends_first(a: KeyRange, b: KeyRange) -> bool:
    if not a.end.bounded or not b.end.bounded:
        return a.end.bounded
    if a.end.key == b.end.key:
        return a.end != Bound.included(a.end.key)
    return a.end.key < b.end.key
