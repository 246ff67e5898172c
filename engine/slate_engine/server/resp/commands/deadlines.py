"""Times at which a value ends, as clients write them."""

from __future__ import annotations

from slate_engine.server.resp.command import integer
from slate_engine.server.resp.replies import CommandError

EARLIEST_MS, LATEST_MS = -(2**63), 2**63 - 1


def deadline(kind: bytes, amount: bytes, now_ms: int, command: str) -> int:
    """When a value that is being set ends: EX and PX count from now, EXAT and PXAT from 1970; EX and EXAT are in seconds."""
    value = integer(amount)
    if value <= 0:
        raise _invalid(command)
    return _milliseconds(value, kind.startswith(b"EX"), 0 if kind.endswith(b"AT") else now_ms, command)


def changed_deadline(amount: bytes, *, seconds: bool, base_ms: int, command: str) -> int:
    """The same for a key that is there: a time in the past is allowed, and ends the key."""
    return _milliseconds(integer(amount), seconds, base_ms, command)


def _milliseconds(value: int, seconds: bool, base_ms: int, command: str) -> int:
    length = value * (1000 if seconds else 1)
    # The number itself has to fit. With the present time added, a number far out of range would seem to be long ago, and
    # delete the key.
    if not EARLIEST_MS <= length <= LATEST_MS - base_ms:
        raise _invalid(command)
    return length + base_ms


def _invalid(command: str) -> CommandError:
    return CommandError(f"ERR invalid expire time in '{command}' command")
