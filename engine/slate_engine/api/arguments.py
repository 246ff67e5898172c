"""Checks of arguments: the wheel's error classes, and messages that name the argument.

Where the wheel hands a value to Rust it raises ``TypeError`` for a wrong type and ``ValueError`` for a number that does not
fit; what the database itself refuses is ``Error.Invalid``.
"""

from __future__ import annotations

import operator

from slate_engine.errors import InvalidError

LENGTH_MAX = 2**32 - 1
"""A key or value may be this long: its length is a u32 on disk."""


def octets(value: object, what: str) -> bytes:
    """``value`` as bytes. What is not ``bytes`` already is copied, because its owner may change it later."""
    if type(value) is bytes:
        return value
    try:
        return memoryview(value).tobytes()  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what} must be bytes-like, not {type(value).__name__!r}; encode text first") from None


def key(value: object) -> bytes:
    """A key that may be written."""
    found = octets(value, "a key")
    if not found:
        raise InvalidError("key cannot be empty")
    if len(found) > LENGTH_MAX:
        raise InvalidError(f"key size must be <= {LENGTH_MAX} bytes, found {len(found)}")
    return found


def value(value: object, what: str = "a value") -> bytes:
    """A value (or merge operand) that may be written."""
    found = octets(value, what)
    if len(found) > LENGTH_MAX:
        raise InvalidError(f"value size must be <= {LENGTH_MAX} bytes, found {len(found)}")
    return found


def text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be str, not {type(value).__name__!r}")
    return value


def unsigned(value: object, what: str, bits: int = 64) -> int:
    """A whole number of at most ``bits`` bits, not negative."""
    return _whole(value, what, 0, 2**bits - 1)


def signed(value: object, what: str, bits: int = 64) -> int:
    """A whole number of at most ``bits`` bits, sign included."""
    return _whole(value, what, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def real(value: object, what: str) -> float:
    """Any number that is not complex; text that looks like one is not."""
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise TypeError(f"{what} must be a real number, not {type(value).__name__!r}")
    return float(value)


def _whole(value: object, what: str, low: int, high: int) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what} must be a whole number, not {type(value).__name__!r}") from None
    if not low <= number <= high:
        raise ValueError(f"{what} must be from {low} to {high}, not {number}")
    return number
