"""Durations as settings write them: ``"100ms"``, ``"1h"``, ``"1s+500ms"``, ``"1m30"``, ``"2*3s"``.

A duration is a sum of terms (the ``+`` may be left out) or a product of them, counted in seconds. A term is a whole number
and a unit; a number without a unit, at the end or before an operator, means seconds.
"""

from __future__ import annotations

import re

_NANOSECONDS = {
    "ns nsec nanosecond": 1,
    "us usec usecond microsecond µs µsec µsecond": 1_000,
    "ms msec millisecond": 1_000_000,
    "s sec second": 1_000_000_000,
    "m min minute": 60_000_000_000,
    "h hr hour": 3_600_000_000_000,
    "d day": 86_400_000_000_000,
    "w week": 7 * 86_400_000_000_000,
    "mon month": 30 * 86_400_000_000_000,
    "y year": 365 * 86_400_000_000_000,
}
_UNITS = {unit: size for units, size in _NANOSECONDS.items() for unit in units.split()}
_SECOND = _UNITS["s"]
_LONGEST = 2**64 - 1
"""In nanoseconds: some 584 years, which is as far as the original counts."""

_TERM = re.compile(r"[ \t\r\n]*([+*]?)[ \t\r\n]*([0-9]+)([A-Za-zµ]+|(?=[ \t\r\n]*(?:[+*]|\Z)))")


def parse_duration(text: str) -> int:
    """The duration in milliseconds, cut off to whole ones. Raises ``ValueError``."""
    terms: list[int] = []
    operators: set[str] = set()
    rest = text.rstrip(" \t\r\n")
    at = 0
    while at < len(rest):
        term = _TERM.match(rest, at)
        if term is None or (not terms and term[1]) or term[3].lower() not in (*_UNITS, ""):
            raise ValueError(f"{text!r} is not a duration; write whole numbers with units, like '250ms' or '1s+500ms'")
        if terms:
            operators.add(term[1] or "+")
        terms.append(int(term[2]) * _UNITS[term[3].lower() or "s"])
        at = term.end()
    if not terms:
        raise ValueError("a duration cannot be empty; write a whole number with a unit, like '250ms'")
    if len(operators) > 1:
        raise ValueError(f"{text!r} mixes + and *; a duration is either a sum or a product")
    total = sum(terms) if operators != {"*"} else _product(terms)
    if max(total, *terms) > _LONGEST:
        raise ValueError(f"{text!r} is too long; the longest duration is 584 years")
    return total // _UNITS["ms"]


def _product(terms: list[int]) -> int:
    """Multiplied as seconds, from the second term on and cut off at each step, as the original does."""
    factor = _SECOND
    for term in terms[1:]:
        factor = factor * term // _SECOND
        if factor > _LONGEST:
            return factor  # too long already, whatever it would be multiplied with
    return terms[0] * factor // _SECOND


def format_duration(milliseconds: int) -> str:
    """The duration as the original writes it."""
    seconds, millis = divmod(milliseconds, 1000)
    if seconds and millis:
        return f"{seconds}s+{millis:03}ms"
    return f"{millis:03}ms" if millis else f"{seconds}s"
