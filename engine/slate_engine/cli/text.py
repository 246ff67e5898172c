"""Keys, values, sizes, times and money as people write and read them.

A key or value is shown as text where it is printable UTF-8, and else as ``0x`` with hexadecimal digits. Both forms are
taken wherever a key or value is asked for, so what one command prints another one understands.
"""

from __future__ import annotations

from datetime import UTC, datetime

from slate_engine.cli.failures import Misused


def parse_bytes(text: str) -> bytes:
    """The bytes that ``text`` stands for."""
    if not text.startswith("0x"):
        # An argument of the command that is not UTF-8 reaches us with surrogates, which give its bytes back.
        return text.encode(errors="surrogateescape")
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise Misused(
            f"{text!r} begins with 0x, so an even number of hexadecimal digits has to follow; a text that begins so is "
            f"written 0x{text.encode(errors='surrogateescape').hex()}"
        ) from None


def show_bytes(data: bytes, width: int | None = None) -> str:
    """``data`` as :func:`parse_bytes` takes it, cut to about ``width`` characters."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if not (text.isprintable() and (text or not data)) or text.startswith("0x"):
        text = "0x" + data.hex()
    if width is not None and len(text) > width:
        return f"{text[: max(width - 12, 4)]}… ({show_size(len(data))})"
    return text


def show_size(n: float) -> str:
    """A number of bytes with three figures or so."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "B" or n >= 100 else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TiB"


def show_dollars(dollars: float) -> str:
    """An amount for people: cents where there are any, and no row of zeros."""
    if dollars >= 0.01:
        return f"${dollars:,.2f}"
    return "less than $0.01" if dollars > 0 else "$0.00"


def show_time(seconds: float) -> str:
    """A unix time in UTC, for people."""
    return _utc(seconds, "%Y-%m-%d %H:%M:%S")


def show_instant(seconds: float | None) -> str | None:
    """A unix time in UTC for programs: RFC 3339."""
    return None if seconds is None else _utc(seconds, "%Y-%m-%dT%H:%M:%SZ")


def _utc(seconds: float, form: str) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime(form)
    except (OverflowError, ValueError, OSError):
        return f"second {seconds:.0f}"


def plural(count: int, noun: str) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
