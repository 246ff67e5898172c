"""From the bytes of a client to its commands.

This is not hiredis, which parses the answers of a server that one trusts: a header of thirteen bytes makes it set up a list
of two milliards of entries, whose clearing away stops the process for seconds, and nothing bounds the size of a request.
Here a request is bounded in its number of arguments and its bytes before anything is set up for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from slate_engine.errors import Error

LONGEST_INLINE = 64 << 10
"""Of a line that is a request by itself, and of the headers of the others."""


class ProtocolError(Error):
    """What came is not the Redis protocol, or more than is allowed. Nothing after it can be understood."""

    reason = "protocol"
    """How the metric of refusals counts it."""


class HttpRequest(ProtocolError):
    """The client speaks HTTP. Its lines would pass for typed commands, so a web page that a user visits could make the
    user's browser send commands to a port that only this machine reaches."""

    reason = "http"

    def __init__(self) -> None:
        super().__init__(
            "Protocol error: this is an HTTP request, and this port speaks the Redis protocol; use a Redis client, or "
            "the port of the HTTP API"
        )


@dataclass(frozen=True)
class Limits:
    """What one request may come to. A stranger has smaller ones."""

    arguments: int = 1 << 20
    bytes: int = 64 << 20


STRANGERS = Limits(arguments=10, bytes=16 << 10)
"""What is asked before the password was given is short: AUTH, HELLO, PING."""

_HOST = b"HOST:"
"""The header that is in every HTTP request. A space may follow, and need not."""

_LONGEST_HEADER = 32
_COUNTS = {b"*%d\r" % count: count for count in range(1, 64)}
_SIZES = {b"$%d" % size: size for size in range(1024)}
"""The headers that nearly all requests have: to look a number up takes a third of the time that it takes to read it."""


class RequestParser:
    """Gathers bytes until a request is whole. A request is the list of its arguments, the command's name first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._buffer: bytes | bytearray = b""
        self._arguments: list[bytes] = []
        self._missing = 0
        self._size = 0
        self._awaited = 0
        """So many bytes must be there before it is worth looking again: a large argument comes in a thousand pieces."""
        self.paused = False
        """Whether the last call stopped, for others to have their turn, before all was looked at that is there."""

    def feed(self, data: bytes) -> None:
        # Nearly always whole requests come, and nothing is before them: then they are read where they are.
        if not self._buffer:
            self._buffer = data
            return
        if type(self._buffer) is bytes:
            self._buffer = bytearray(self._buffer)
        self._buffer += data

    @property
    def buffered(self) -> int:
        return len(self._buffer) + self._size

    def requests(self, most: int) -> list[list[bytes]]:
        """The requests that are whole by now, at most so many; what remains waits for the next call. So does a fault in it:
        what was asked before is carried out first, and may have been the password, after which more is allowed."""
        found: list[list[bytes]] = []
        if len(self._buffer) < self._awaited:
            return found
        data, at, begun, typed = bytes(self._buffer), 0, 0, 0
        self._awaited, self.paused = 0, False
        try:
            while at < len(data) and len(found) < most:
                begun = at
                if not self._missing:
                    end = data.find(b"\n", at, at + LONGEST_INLINE)
                    if end < 0:
                        self._check_inline(len(data) - at)
                        break
                    line, at = data[at:end], end + 1
                    count = _COUNTS.get(line)
                    if count is None:
                        if line[:1] == b"*":
                            count = _count(line)
                        else:
                            count = 0
                            if words := self._inline(line):
                                found.append(words)
                    if count > self.limits.arguments:
                        raise ProtocolError("Protocol error: invalid multibulk length")
                    if count <= 0:
                        typed += at - begun
                        if typed >= LONGEST_INLINE:
                            self.paused = True
                            break
                        continue
                    self._missing = count
                at = self._take_arguments(data, at)
                if self._missing:
                    break
                found.append(self._arguments)
                self._arguments, self._size = [], 0
        except ProtocolError:
            if not found:
                raise
            at = begun
            self._arguments, self._missing, self._size, self._awaited = [], 0, 0, 0
        self._buffer = data[at:]
        self._awaited = max(self._awaited - at, 0)
        return found

    def _inline(self, line: bytes) -> list[bytes]:
        self._check_inline(len(line))
        words = split_inline(line.rstrip(b"\r"))
        if words and ((first := words[0].upper()) == b"POST" or first.startswith(_HOST)):
            raise HttpRequest
        if len(words) > self.limits.arguments:
            raise ProtocolError("Protocol error: too many words in an inline request")
        return words

    def _check_inline(self, size: int) -> None:
        if size >= min(LONGEST_INLINE, self.limits.bytes):
            raise ProtocolError("Protocol error: too big inline request")

    def _take_arguments(self, data: bytes, at: int) -> int:
        """Take those arguments of the present request that are whole; where the next one begins."""
        arguments, missing, taken, limit = self._arguments, self._missing, self._size, self.limits.bytes
        while missing:
            end = data.find(b"\r\n", at, at + _LONGEST_HEADER)
            if end < 0:
                if len(data) - at >= _LONGEST_HEADER:
                    raise ProtocolError("Protocol error: too big bulk count string")
                break
            header = data[at:end]
            size = _SIZES.get(header)
            if size is None:
                size = _size(header)
            if size + taken > limit:
                raise ProtocolError(f"Protocol error: invalid bulk length, a request has at most {limit} bytes")
            start = end + 2
            stop = start + size
            if data[stop : stop + 2] != b"\r\n":
                if stop + 2 <= len(data):
                    raise ProtocolError("Protocol error: an argument is longer or shorter than its header says")
                self._awaited = stop + 2
                break
            arguments.append(data[start:stop])
            taken += size
            missing -= 1
            at = stop + 2
        self._missing, self._size = missing, taken
        return at


def _count(line: bytes) -> int:
    """The number of arguments in the first line of a request, up to its newline."""
    digits = line[1:-1]
    if line[-1:] != b"\r" or len(digits) > 12 or not digits.removeprefix(b"-").isdigit():
        raise ProtocolError("Protocol error: invalid multibulk length")
    return int(digits)


def _size(header: bytes) -> int:
    """The number of bytes in the header of an argument."""
    if header[:1] != b"$":
        raise ProtocolError(f"Protocol error: expected '$', got {header[:1]!r}")
    digits = header[1:]
    if not digits.isdigit() or len(digits) > 12:
        raise ProtocolError("Protocol error: invalid bulk length")
    return int(digits)


_ESCAPES = {ord("n"): b"\n", ord("r"): b"\r", ord("t"): b"\t", ord("b"): b"\b", ord("a"): b"\a"}


def split_inline(line: bytes) -> list[bytes]:
    """The words of a request that somebody typed, with quotes and escapes as Redis has them."""
    if b'"' not in line and b"'" not in line:
        return line.split()
    words: list[bytes] = []
    at, end = 0, len(line)
    while True:
        while at < end and line[at : at + 1].isspace():
            at += 1
        if at == end:
            return words
        word, at = _word(line, at)
        words.append(word)


def _word(line: bytes, at: int) -> tuple[bytes, int]:
    word = bytearray()
    end = len(line)
    while at < end and not line[at : at + 1].isspace():
        quote = line[at]
        if quote not in b"\"'":
            word.append(quote)
            at += 1
            continue
        at += 1
        while at < end and line[at] != quote:
            piece, at = _quoted(line, at, quote)
            word += piece
        if at == end or (at + 1 < end and not line[at + 1 : at + 2].isspace()):
            raise ProtocolError("Protocol error: unbalanced quotes in request")
        return bytes(word), at + 1
    return bytes(word), at


def _quoted(line: bytes, at: int, quote: int) -> tuple[bytes, int]:
    """One character between quotes, and where the next begins."""
    if line[at] != 0x5C or at + 1 >= len(line):
        return line[at : at + 1], at + 1
    following = line[at + 1]
    if quote == 0x27:
        return (b"'", at + 2) if following == 0x27 else (b"\\", at + 1)
    if following == ord("x") and len(digits := line[at + 2 : at + 4]) == 2:
        try:
            return bytes([int(digits, 16)]), at + 4
        except ValueError:
            pass
    return _ESCAPES.get(following, bytes([following])), at + 2
