"""The patterns of KEYS and SCAN: ``*``, ``?``, ``[a-z]``, ``[^x]`` and a backslash before what stands for itself."""

from __future__ import annotations

import re
from collections.abc import Callable

from slate_engine.server.resp.replies import CommandError

_SPECIAL = b"*?[\\"

LONGEST = 1024
"""To make a pattern ready takes time for every byte of it, in which nobody else is served."""


def literal_prefix(pattern: bytes) -> bytes:
    """What every key that matches begins with: only keys from there have to be read."""
    for at, byte in enumerate(pattern):
        if byte in _SPECIAL:
            return pattern[:at]
    return pattern


def matcher(pattern: bytes) -> Callable[[bytes], bool]:
    """Whether a key matches. Stars next to each other are one, so no pattern takes more than linear time in each star."""
    if len(pattern) > LONGEST:
        raise CommandError(f"ERR a pattern has at most {LONGEST} bytes")
    compiled = re.compile(_expression(pattern), re.DOTALL)
    return lambda key: compiled.fullmatch(key) is not None


def _expression(pattern: bytes) -> bytes:
    parts: list[bytes] = []
    at, end = 0, len(pattern)
    while at < end:
        byte = pattern[at : at + 1]
        if byte == b"*":
            if not parts or parts[-1] != b".*":
                parts.append(b".*")
            at += 1
        elif byte == b"?":
            parts.append(b".")
            at += 1
        elif byte == b"[":
            part, at = _set(pattern, at + 1)
            parts.append(part)
        else:
            if byte == b"\\" and at + 1 < end:
                at += 1
            parts.append(re.escape(pattern[at : at + 1]))
            at += 1
    return _without_backtracking(parts)


def _without_backtracking(parts: list[bytes]) -> bytes:
    """A star takes the shortest stretch after which the part up to the next star fits, and keeps it: that is enough, as
    nothing later can be lost by it. So many stars take no more time than one, whatever key somebody chose."""
    stretches: list[list[bytes]] = [[]]
    for part in parts:
        if part == b".*":
            stretches.append([])
        else:
            stretches[-1].append(part)
    first, *rest = (b"".join(stretch) for stretch in stretches)
    if not rest:
        return first
    middle, last = rest[:-1], rest[-1]
    # Every part stands for one character, so there is one place where the last stretch can be: before the end.
    tail = b".{%d,}+(?<=%b)" % (len(stretches[-1]), last) if last else b".*"
    return first + b"".join(b"(?>.*?" + stretch + b")" for stretch in middle) + tail


def _set(pattern: bytes, at: int) -> tuple[bytes, int]:
    """The characters of ``[...]``; one that is not closed goes on to the end."""
    negated = pattern[at : at + 1] == b"^"
    at += negated
    members: set[int] = set()
    while at < len(pattern) and pattern[at] != 0x5D:
        if pattern[at] == 0x5C and at + 1 < len(pattern):
            at += 1
            members.add(pattern[at])
            at += 1
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            low, high = sorted((pattern[at], pattern[at + 2]))
            members.update(range(low, high + 1))
            at += 3
        else:
            members.add(pattern[at])
            at += 1
    if not members:
        return (b"." if negated else b"(?!)"), at + 1
    return b"[" + b"^" * negated + _ranges(members) + b"]", at + 1


def _ranges(members: set[int]) -> bytes:
    """The members as a set of an expression has them, neighbours as one range: as short as what they stand for."""
    written: list[bytes] = []
    for first in sorted(member for member in members if member - 1 not in members):
        last = first
        while last + 1 in members:
            last += 1
        written.append(b"\\x%02x" % first if first == last else b"\\x%02x-\\x%02x" % (first, last))
    return b"".join(written)
