"""Where a SCAN goes on.

Clients take a cursor for a number of 64 bits, and keys do not fit in one. So the keys are kept here, under numbers; the
oldest are forgotten when there are too many, and the client is told so.

The numbers are random. A client may bring a cursor to another server: to another reader behind the same Service, or to the
next writer. Numbers that every server counts from one would mean another key there, and the scan would skip keys without an
error.
"""

from __future__ import annotations

from collections import OrderedDict

from slate_engine.runtime import Runtime
from slate_engine.server.resp.replies import CommandError

MOST = 100_000
BITS = 53
"""Of a cursor. Clients in JavaScript take it for a float, which holds no larger whole numbers."""


class Cursors:
    """The open cursors of a server. One that was used stays good: a client may ask again."""

    def __init__(self, runtime: Runtime, most: int = MOST) -> None:
        self._runtime = runtime
        self._most = most
        self._keys: OrderedDict[int, bytes] = OrderedDict()
        self._numbers: dict[bytes, int] = {}

    def continued(self, key: bytes) -> bytes:
        """A cursor that goes on at ``key``."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._unused()
        self._keys[number] = key
        self._keys.move_to_end(number)
        if len(self._keys) > self._most:
            _, forgotten = self._keys.popitem(last=False)
            del self._numbers[forgotten]
        return b"%d" % number

    def _unused(self) -> int:
        while True:
            number = int.from_bytes(self._runtime.random_bytes(8), "big") >> (64 - BITS)
            if number and number not in self._keys:
                return number

    def position(self, cursor: bytes) -> bytes:
        if cursor == b"0":
            return b""
        key = self._keys.get(int(cursor)) if cursor.isdigit() and len(cursor) <= 20 else None
        if key is None:
            raise CommandError(
                "ERR invalid cursor: another server gave it, or this one has forgotten it; begin again at 0"
            )
        return key
