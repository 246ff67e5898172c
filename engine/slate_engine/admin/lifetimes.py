"""Spans of time as people write them: ``7days 30min 10s``, ``90s``, ``1h30m``.

The grammar is that of Rust's ``humantime``, which SlateDB's own command takes: whole numbers, each with a unit, added up;
spaces wherever one likes. A month has 30.44 days and a year 365.25, as there.
"""

from __future__ import annotations

import re

from slate_engine.errors import InvalidError

_UNITS_NS = {
    "nanos nsec ns": 1,
    "usec us µs": 1_000,
    "millis msec ms": 1_000_000,
    "seconds second secs sec s": 1_000_000_000,
    "minutes minute mins min m": 60_000_000_000,
    "hours hour hrs hr h": 3_600_000_000_000,
    "days day d": 86_400_000_000_000,
    "weeks week wks wk w": 7 * 86_400_000_000_000,
    "months month M": 2_630_016_000_000_000,
    "years year yrs yr y": 31_557_600_000_000_000,
}
_UNITS = {unit: size for units, size in _UNITS_NS.items() for unit in units.split()}
_TERM = re.compile(r"\s*([0-9][0-9\s]*)([A-Za-zµ]+)\s*")
_LONGEST_MS = 2**63 - 1
"""What is longer would expire after the last second that a manifest can hold."""


class NotASpan(InvalidError):
    """What was written is no span of time."""


def parse_lifetime(text: str) -> int:
    """The span in milliseconds, which has to be some time."""
    found = parse_span(text)
    if not found:
        raise _not_a_span(text, "it is no time at all")
    return found


def parse_span(text: str) -> int:
    """The span in milliseconds; none at all will do."""
    total, at = 0, 0
    while at < len(text):
        term = _TERM.match(text, at)
        if term is None:
            raise _not_a_span(text, "a whole number and a unit have to alternate")
        if term[2] not in _UNITS:
            raise _not_a_span(text, f"{term[2]!r} is no unit")
        total += int("".join(term[1].split())) * _UNITS[term[2]]
        at = term.end()
    if not text.strip():
        raise _not_a_span(text, "it is empty")
    if total // 1_000_000 > _LONGEST_MS:
        raise _not_a_span(text, "it is too long")
    return total // 1_000_000


def _not_a_span(text: str, why: str) -> NotASpan:
    return NotASpan(
        f'{text!r} is not a span of time: {why}; write it like "7days 30min 10s" (y, months, weeks, days, h, min, s, ms)'
    )


def show_span(seconds: float) -> str:
    """A span with its two largest parts, as :func:`parse_lifetime` takes it."""
    left = round(seconds)
    parts: list[str] = []
    for name, size in (("years", 31_557_600), ("days", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{name if count > 1 or len(name) < 4 else name.rstrip('s')}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts) or "0s"
