"""Where a SCAN goes on.

Clients take a cursor for a number of 64 bits, and keys do not fit in one. So the keys are kept here, under numbers that are
given out in turn; the oldest are forgotten when there are too many, and the client is told so.
"""

from __future__ import annotations

from collections import OrderedDict

from slate_engine.server.resp.replies import CommandError

MOST = 100_000


class Cursors:
    """The open cursors of a server. One that was used stays good: a client may ask again."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._keys: OrderedDict[int, bytes] = OrderedDict()
        self._numbers: dict[bytes, int] = {}
        self._last = 0

    def continued(self, key: bytes) -> bytes:
        """A cursor that goes on at ``key``."""
        number = self._numbers.get(key)
        if number is None:
            self._last += 1
            number = self._numbers[key] = self._last
        self._keys[number] = key
        self._keys.move_to_end(number)
        if len(self._keys) > self._most:
            _, forgotten = self._keys.popitem(last=False)
            del self._numbers[forgotten]
        return b"%d" % number

    def position(self, cursor: bytes) -> bytes:
        if cursor == b"0":
            return b""
        key = self._keys.get(int(cursor)) if cursor.isdigit() and len(cursor) <= 20 else None
        if key is None:
            raise CommandError("ERR invalid cursor: this server does not know it any more; begin again at 0")
        return key
