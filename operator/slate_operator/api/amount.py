"""Numbers of bytes for people: in a status, and on a terminal."""

from __future__ import annotations

_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


def size_of(text: str) -> int:
    """The bytes of an amount such as ``10Gi``."""
    unit = _UNITS.get(text[-2:], 1)
    return int(text[:-2] if unit > 1 else text) * unit


def size(n: float) -> str:
    """A number of bytes with three figures or so."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "B" or n >= 100 else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TiB"
