"""Going through keys, in their order."""

from __future__ import annotations

from slate_engine.server.resp.budget import HEADER
from slate_engine.server.resp.command import Call, command, integer, syntax_error
from slate_engine.server.resp.patterns import literal_prefix, matcher
from slate_engine.server.resp.replies import CommandError, Reply

MOST_KEYS = 1_000_000
MOST_PER_SCAN = 100_000
"""A SCAN looks at no more keys than this in one go, whatever COUNT says."""

RANGE_LIMIT = 1000


@command("SCAN", -2, "readonly", "Go through the keys, some at a time", group="generic")
async def scan(call: Call) -> Reply:
    pattern, count, wants_strings = _scan_options(call.args[1:])
    cursors = call.session.service.cursors
    start = cursors.position(call.args[0])
    prefix, fits = literal_prefix(pattern), matcher(pattern)
    found: list[Reply] = []
    looked_at, budget = 0, call.budget()
    async for entry in call.unit.entries(max(start, prefix), end_of(prefix)):
        if looked_at == count:
            return [cursors.continued(entry.key), found]
        looked_at += 1
        if wants_strings and fits(entry.key):
            budget.spend(len(entry.key))
            found.append(entry.key)
    return [b"0", found]


def _scan_options(words: list[bytes]) -> tuple[bytes, int, bool]:
    pattern, count, wants_strings = b"*", 10, True
    if len(words) % 2:
        raise syntax_error()
    for name, value in zip(words[::2], words[1::2], strict=True):
        match name.upper():
            case b"MATCH":
                pattern = value
            case b"COUNT":
                count = integer(value)
                if count < 1:
                    raise syntax_error()
            case b"TYPE":
                wants_strings = value.lower() == b"string"
            case _:
                raise syntax_error()
    return pattern, min(count, MOST_PER_SCAN), wants_strings


@command("KEYS", 2, "readonly", "All keys that match a pattern", group="generic")
async def keys(call: Call) -> Reply:
    pattern = call.args[0]
    prefix, fits = literal_prefix(pattern), matcher(pattern)
    found: list[Reply] = []
    budget = call.budget()
    async for entry in call.unit.entries(prefix, end_of(prefix)):
        if fits(entry.key):
            if len(found) == MOST_KEYS:
                raise CommandError(f"ERR more than {MOST_KEYS} keys match; go through them with SCAN or SLATE.RANGE")
            budget.spend(len(entry.key))
            found.append(entry.key)
    return found


@command("SLATE.RANGE", -3, "readonly", "Keys and values from start to end, in order", group="slate")
async def range_(call: Call) -> Reply:
    start, end = call.args[:2]
    limit, descending = _range_options(call.args[2:])
    found: list[Reply] = []
    if limit:
        budget = call.budget()
        async for entry in call.unit.entries(start, end or None, descending=descending):
            budget.spend(len(entry.key) + len(entry.value) + HEADER)
            found.append([entry.key, entry.value])
            if len(found) == limit:
                break
    return found


def _range_options(words: list[bytes]) -> tuple[int, bool]:
    limit, descending, rest = RANGE_LIMIT, False, iter(words)
    for word in rest:
        match word.upper():
            case b"LIMIT":
                limit = integer(next(rest, b""))
                if not 0 <= limit <= MOST_KEYS:
                    raise CommandError(f"ERR LIMIT must be from 0 to {MOST_KEYS}; go on from the last key for more")
            case b"REV":
                descending = True
            case _:
                raise syntax_error()
    return limit, descending


def end_of(prefix: bytes) -> bytes | None:
    """The first key behind all that begin with ``prefix``, if there is one."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
