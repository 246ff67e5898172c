"""Ranges of keys."""

from __future__ import annotations

from dataclasses import dataclass

from slate_engine.api.shapes import Record
from slate_engine.errors import InvalidError


@dataclass(kw_only=True)
class KeyRange(Record):
    """The keys from ``start`` to ``end``; an absent bound is open, and its ``inclusive`` flag means nothing.

    In ``scan_prefix`` the bounds are what follows the prefix.
    """

    start: bytes | None
    start_inclusive: bool
    end: bytes | None
    end_inclusive: bool

    def check(self) -> None:
        """Refuse a range that no key can be in. The wheel does so when a scan starts, not when the range is made."""
        for bound in (self.start, self.end):
            if bound is not None and not isinstance(bound, bytes | bytearray | memoryview):
                raise TypeError(f"a bound of a KeyRange must be bytes-like or None, not {type(bound).__name__!r}")
        if self.start is None or self.end is None:
            return
        if bytes(self.start) > bytes(self.end):
            raise InvalidError("range start must not be greater than range end")
        if bytes(self.start) == bytes(self.end) and not (self.start_inclusive and self.end_inclusive):
            raise InvalidError("range must be non-empty")
