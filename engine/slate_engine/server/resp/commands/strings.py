"""Values: reading, writing, and changing them in place."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from slate_engine.lsm.snapshot import UNREAD
from slate_engine.server.keyspace import DEFAULT_TTL, STRETCH, Entry, Expiry, ReadUnit
from slate_engine.server.resp.command import (
    LATER,
    Call,
    Later,
    command,
    integer,
    syntax_error,
    wrong_arguments,
)
from slate_engine.server.resp.commands.deadlines import deadline
from slate_engine.server.resp.commands.decimals import added, decimal
from slate_engine.server.resp.replies import OK, CommandError, Reply

MOST_BUILT = 4
"""So many times the largest request may come of commands that build on values in one transaction: all of it is held."""

GROUP = "string"


def value_of(entry: Entry | None) -> bytes | None:
    return None if entry is None else entry.value


def peek(unit: ReadUnit, request: list[bytes]) -> Reply | Later:
    found = unit.peek(request[1])
    return LATER if found is UNREAD else value_of(found)


@command("GET", 2, "readonly fast", "The value of a key", keys=(1, 1, 1), group=GROUP, at_once=peek)
async def get(call: Call) -> Reply:
    return value_of(await call.unit.get(call.args[0]))


@command("MGET", -2, "readonly fast", "The values of several keys", keys=(1, -1, 1), group=GROUP)
async def mget(call: Call) -> Reply:
    found: list[Reply] = []
    budget = call.budget()
    async for entry in call.unit.each(call.args):
        budget.spend(0 if entry is None else len(entry.value))
        found.append(value_of(entry))
    return found


@dataclass
class _SetOptions:
    expires: Expiry | None = None
    keep_ttl: bool = False
    only_new: bool = False
    only_old: bool = False
    get: bool = False


def _set_options(call: Call) -> _SetOptions:
    found, rest = _SetOptions(), iter(call.args[2:])
    timed = False
    for word in rest:
        match word.upper():
            case b"NX" if not found.only_old:
                found.only_new = True
            case b"XX" if not found.only_new:
                found.only_old = True
            case b"GET":
                found.get = True
            case b"KEEPTTL" if not timed:
                found.keep_ttl = True
            case b"EX" | b"PX" | b"EXAT" | b"PXAT" as kind if not timed and not found.keep_ttl:
                amount = next(rest, None)
                if amount is None:
                    raise syntax_error()
                found.expires, timed = deadline(kind, amount, call.now_ms, "set"), True
            case _:
                raise syntax_error()
    return found


@command("SET", -3, "write denyoom", "Set the value of a key", keys=(1, 1, 1), group=GROUP)
async def set_(call: Call) -> Reply:
    key, value = call.args[:2]
    if len(call.args) == 2:
        await call.unit.put(key, value)
        return OK
    options = _set_options(call)
    expires: Expiry = DEFAULT_TTL if options.expires is None else options.expires
    if not (options.only_new or options.only_old or options.get or options.keep_ttl):
        await call.unit.put(key, value, expires)
        return OK
    old = await call.unit.get(key)
    refused = (options.only_new and old is not None) or (options.only_old and old is None)
    if not refused:
        if options.keep_ttl and old is not None:
            expires = old.expires_ms
        await call.unit.put(key, value, expires)
    if options.get:
        return value_of(old)
    return None if refused else OK


@command("SETNX", 3, "write denyoom fast", "Set the value of a key that has none", keys=(1, 1, 1), group=GROUP)
async def setnx(call: Call) -> Reply:
    key, value = call.args
    if await call.unit.get(key) is not None:
        return 0
    await call.unit.put(key, value)
    return 1


@command("SETEX", 4, "write denyoom", "Set a value that lives for so many seconds", keys=(1, 1, 1), group=GROUP)
async def setex(call: Call) -> Reply:
    key, seconds, value = call.args
    await call.unit.put(key, value, deadline(b"EX", seconds, call.now_ms, "setex"))
    return OK


@command("PSETEX", 4, "write denyoom", "Set a value that lives for so many milliseconds", keys=(1, 1, 1), group=GROUP)
async def psetex(call: Call) -> Reply:
    key, milliseconds, value = call.args
    await call.unit.put(key, value, deadline(b"PX", milliseconds, call.now_ms, "psetex"))
    return OK


@command("GETSET", 3, "write denyoom fast", "Set a value and return the one before", keys=(1, 1, 1), group=GROUP)
async def getset(call: Call) -> Reply:
    key, value = call.args
    old = await call.unit.get(key)
    await call.unit.put(key, value)
    return value_of(old)


@command("GETDEL", 2, "write fast", "Delete a key and return the value it had", keys=(1, 1, 1), group=GROUP)
async def getdel(call: Call) -> Reply:
    old = await call.unit.get(call.args[0])
    if old is not None:
        await call.unit.delete(call.args[0])
    return value_of(old)


@command("GETEX", -2, "write fast", "The value of a key, and how long it lives from now", keys=(1, 1, 1), group=GROUP)
async def getex(call: Call) -> Reply:
    key, options = call.args[0], call.args[1:]
    expires: int | None = None
    match [word.upper() for word in options[:1]]:
        case []:
            pass
        case [b"PERSIST"] if len(options) == 1:
            pass
        case [b"EX" | b"PX" | b"EXAT" | b"PXAT" as kind] if len(options) == 2:
            expires = deadline(kind, options[1], call.now_ms, "getex")
        case _:
            raise syntax_error()
    old = await call.unit.get(key)
    if old is not None and options and old.expires_ms != expires:
        await call.unit.put(key, old.value, expires)
    return value_of(old)


@command("MSET", -3, "write denyoom", "Set the values of several keys at once", keys=(1, -1, 2), group=GROUP)
async def mset(call: Call) -> Reply:
    await _put_all(call, _pairs(call.args, "mset"))
    return OK


@command("MSETNX", -3, "write denyoom", "Set several values if none of the keys has one", keys=(1, -1, 2), group=GROUP)
async def msetnx(call: Call) -> Reply:
    pairs = _pairs(call.args, "msetnx")
    async for entry in call.unit.each([key for key, _ in pairs]):
        if entry is not None:
            return 0
    await _put_all(call, pairs)
    return 1


async def _put_all(call: Call, pairs: list[tuple[bytes, bytes]]) -> None:
    for number, (key, value) in enumerate(pairs, 1):
        await call.unit.put(key, value)
        if number % STRETCH == 0:
            await call.unit.pause()


def _pairs(args: list[bytes], name: str) -> list[tuple[bytes, bytes]]:
    if len(args) % 2:
        raise wrong_arguments(name)
    return list(zip(args[::2], args[1::2], strict=True))


@command("APPEND", 3, "write denyoom fast", "Add to the end of a value", keys=(1, 1, 1), group=GROUP)
async def append(call: Call) -> Reply:
    key, more = call.args
    old = await call.unit.get(key)
    before = value_of(old) or b""
    _check_length(call, len(before) + len(more))
    value = before + more
    await call.unit.put(key, value, DEFAULT_TTL if old is None else old.expires_ms)
    return len(value)


@command("STRLEN", 2, "readonly fast", "The length of a value", keys=(1, 1, 1), group=GROUP)
async def strlen(call: Call) -> Reply:
    return len(value_of(await call.unit.get(call.args[0])) or b"")


@command("GETRANGE", 4, "readonly", "A part of a value", keys=(1, 1, 1), group=GROUP)
async def getrange(call: Call) -> Reply:
    first, last = integer(call.args[1]), integer(call.args[2])
    value = value_of(await call.unit.get(call.args[0])) or b""
    start = max(first + len(value), 0) if first < 0 else first
    stop = last + len(value) if last < 0 else last
    return value[start : stop + 1] if stop >= 0 else b""


@command("SETRANGE", 4, "write denyoom", "Overwrite a part of a value", keys=(1, 1, 1), group=GROUP)
async def setrange(call: Call) -> Reply:
    key, at, part = call.args[0], integer(call.args[1]), call.args[2]
    if at < 0:
        raise CommandError("ERR offset is out of range")
    old = await call.unit.get(key)
    before = value_of(old) or b""
    if not part:
        return len(before)
    _check_length(call, max(at + len(part), len(before)))
    value = before[:at].ljust(at, b"\0") + part + before[at + len(part) :]
    await call.unit.put(key, value, DEFAULT_TTL if old is None else old.expires_ms)
    return len(value)


def _check_length(call: Call, length: int) -> None:
    """A few bytes of a request may ask for a value of any length."""
    most = call.session.service.limits.request.bytes
    if length > most:
        raise CommandError("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
    if call.unit.written_bytes + length > MOST_BUILT * most:
        raise CommandError("ERR the values that this transaction writes are too large; do it in several")


# --- numbers -----------------------------------------------------------------------------------------------------


@command("INCR", 2, "write denyoom fast", "Add one to a number", keys=(1, 1, 1), group=GROUP)
async def incr(call: Call) -> Reply:
    return await _add(call, 1)


@command("DECR", 2, "write denyoom fast", "Take one from a number", keys=(1, 1, 1), group=GROUP)
async def decr(call: Call) -> Reply:
    return await _add(call, -1)


@command("INCRBY", 3, "write denyoom fast", "Add to a number", keys=(1, 1, 1), group=GROUP)
async def incrby(call: Call) -> Reply:
    return await _add(call, integer(call.args[1]))


@command("DECRBY", 3, "write denyoom fast", "Take from a number", keys=(1, 1, 1), group=GROUP)
async def decrby(call: Call) -> Reply:
    amount = integer(call.args[1])
    if amount == -(2**63):
        raise CommandError("ERR decrement would overflow")
    return await _add(call, -amount)


async def _add(call: Call, amount: int) -> int:
    key = call.args[0]
    old = await call.unit.get(key)
    value = (0 if old is None else integer(old.value)) + amount
    if not -(2**63) <= value < 2**63:
        raise CommandError("ERR increment or decrement would overflow")
    await call.unit.put(key, b"%d" % value, DEFAULT_TTL if old is None else old.expires_ms)
    return value


@command("INCRBYFLOAT", 3, "write denyoom fast", "Add to a floating-point number", keys=(1, 1, 1), group=GROUP)
async def incrbyfloat(call: Call) -> Reply:
    key, amount = call.args[0], decimal(call.args[1])
    old = await call.unit.get(key)
    value = added(Decimal(0) if old is None else decimal(old.value), amount)
    if value is None:
        raise CommandError("ERR increment would produce NaN or Infinity")
    await call.unit.put(key, value, DEFAULT_TTL if old is None else old.expires_ms)
    return value
