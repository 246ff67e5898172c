"""Times, sizes and money as people read them."""

from __future__ import annotations

from slate_operator.clock import seconds_of

_SPANS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def span(seconds: float) -> str:
    """A length of time in its two largest units: ``6d4h``, ``3m``, ``12s``."""
    rest = max(round(seconds), 0)
    parts: list[str] = []
    for size, unit in _SPANS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return "".join(parts[:2]) or "0s"


def ago(stamp: str, now: float) -> str:
    """How long a moment is past; ``?`` if it is not known."""
    return span(now - seconds_of(stamp)) if stamp else "?"


def when(stamp: str, now: float) -> str:
    """A moment as seen from now: ``in 6d4h``, ``3m ago``."""
    if not stamp:
        return "?"
    ahead = seconds_of(stamp) - now
    return f"in {span(ahead)}" if ahead >= 0 else f"{span(-ahead)} ago"


def dollars(amount: float) -> str:
    """An amount: cents where there are any, and no row of zeros."""
    if amount >= 0.01:
        return f"${amount:,.2f}"
    return "less than $0.01" if amount > 0 else "$0.00"


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
