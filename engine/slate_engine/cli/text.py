"""Keys, values, sizes and times as people write and read them.

A key or value is shown as text where it is printable UTF-8, and else as ``0x`` with hexadecimal digits. Both forms are
taken wherever a key or value is asked for, so what one command prints another one understands.
"""

from __future__ import annotations

from datetime import UTC, datetime

from slate_engine.errors import InvalidError


def parse_bytes(text: str) -> bytes:
    """The bytes that ``text`` stands for."""
    if not text.startswith("0x"):
        return text.encode()
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise InvalidError(f"{text!r} begins with 0x, so an even number of hexadecimal digits has to follow") from None


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


def show_time(seconds: float) -> str:
    """A unix time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
