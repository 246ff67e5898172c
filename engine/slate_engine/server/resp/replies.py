"""From what a command answers to the bytes that a client reads, in version 2 or 3 of the protocol.

A command answers with Python values. Where version 2 has no word for one, it gets what Redis gives it: a map becomes a list,
a truth value a number, a floating-point number a string.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from slate_engine.errors import Error


class CommandError(Error):
    """A command cannot be carried out. The first word of its message is the code that clients look at."""


@dataclass(frozen=True)
class Simple:
    """A word of the protocol, not of a user's data."""

    text: str


class Verbatim(str):
    """Text for people, which version 3 tells apart from data."""


class NullArray:
    """The absence of a list: EXEC of a transaction that has lost."""


NULL_ARRAY = NullArray()
OK = Simple("OK")
PONG = Simple("PONG")
QUEUED = Simple("QUEUED")

Reply = (
    None
    | bool
    | int
    | float
    | str
    | bytes
    | Simple
    | NullArray
    | CommandError
    | Sequence["Reply"]
    | frozenset["Reply"]
    | Mapping[bytes, "Reply"]
)

_WORDS = {word: f"+{word.text}\r\n".encode() for word in (OK, PONG, QUEUED)}
_NUMBERS = [b":%d\r\n" % number for number in range(1024)]


def encode(reply: Reply, version: int) -> bytes:
    """``reply`` in version 2 or 3."""
    if type(reply) is bytes:
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    if reply is None:
        return b"_\r\n" if version == 3 else b"$-1\r\n"
    if type(reply) is int:
        return _NUMBERS[reply] if 0 <= reply < 1024 else b":%d\r\n" % reply
    if isinstance(reply, Simple):
        return _WORDS.get(reply) or f"+{reply.text}\r\n".encode()
    return _encode_rarer(reply, version)


STRETCH = 512
"""A list that is longer is encoded piece by piece, so that others have their turn meanwhile."""


def is_long(reply: Reply) -> bool:
    if type(reply) is not list:
        return False
    return len(reply) > STRETCH or any(type(part) is list and len(part) > STRETCH for part in reply)


def pieces(reply: Reply, version: int) -> Iterator[bytes]:
    """What :func:`encode` gives, a few hundred parts at a time."""
    if not is_long(reply):
        yield encode(reply, version)
        return
    assert type(reply) is list
    gathered = [b"*%d\r\n" % len(reply)]
    for part in reply:
        if is_long(part):
            yield b"".join(gathered)
            gathered.clear()
            yield from pieces(part, version)
        else:
            gathered.append(encode(part, version))
            if len(gathered) > STRETCH:
                yield b"".join(gathered)
                gathered.clear()
    yield b"".join(gathered)


def _encode_rarer(reply: Reply, version: int) -> bytes:
    match reply:
        case bool():
            return (b"#t\r\n" if reply else b"#f\r\n") if version == 3 else b":%d\r\n" % reply
        case Verbatim() if version == 3:
            text = reply.encode()
            return b"=%d\r\ntxt:%b\r\n" % (len(text) + 4, text)
        case str():
            return encode(reply.encode(), version)
        case float():
            text = number_text(reply)
            return b",%b\r\n" % text if version == 3 else encode(text, version)
        case CommandError():
            return error_line(reply.message)
        case NullArray():
            return b"_\r\n" if version == 3 else b"*-1\r\n"
        case Mapping():
            head = b"%%%d\r\n" % len(reply) if version == 3 else b"*%d\r\n" % (2 * len(reply))
            return head + b"".join(encode(part, version) for item in reply.items() for part in item)
        case frozenset():
            head = (b"~%d\r\n" if version == 3 else b"*%d\r\n") % len(reply)
            return head + b"".join(sorted(encode(part, version) for part in reply))
        case Sequence():
            return b"*%d\r\n" % len(reply) + b"".join(encode(part, version) for part in reply)
    raise TypeError(f"no reply: {reply!r}")


def error_line(message: str) -> bytes:
    """An error is one line: what would end it is taken out of the message."""
    return b"-%b\r\n" % message.replace("\r", " ").replace("\n", " ").encode(errors="backslashreplace")


def number_text(value: float) -> bytes:
    """A floating-point number as Redis writes it: the shortest that reads the same, without an exponent where that is
    readable, and no fraction if there is none."""
    if value == int(value) and abs(value) < 1e17:
        return b"%d" % int(value)
    text = repr(value)
    return (f"{value:.17f}".rstrip("0").rstrip(".") if "e" in text and abs(value) < 1e17 else text).encode()
