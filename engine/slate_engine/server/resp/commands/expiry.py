"""How long keys live."""

from __future__ import annotations

from slate_engine.server.keyspace import Entry
from slate_engine.server.resp.command import Call, command
from slate_engine.server.resp.commands.deadlines import changed_deadline
from slate_engine.server.resp.replies import CommandError, Reply

GROUP = "generic"
MISSING = -2
ENDLESS = -1


@command("EXPIRE", -3, "write fast", "Let a key end after so many seconds", keys=(1, 1, 1), group=GROUP)
async def expire(call: Call) -> Reply:
    return await _expire(call, "expire", seconds=True, base_ms=call.now_ms)


@command("PEXPIRE", -3, "write fast", "Let a key end after so many milliseconds", keys=(1, 1, 1), group=GROUP)
async def pexpire(call: Call) -> Reply:
    return await _expire(call, "pexpire", seconds=False, base_ms=call.now_ms)


@command("EXPIREAT", -3, "write fast", "Let a key end at a time, in seconds", keys=(1, 1, 1), group=GROUP)
async def expireat(call: Call) -> Reply:
    return await _expire(call, "expireat", seconds=True, base_ms=0)


@command("PEXPIREAT", -3, "write fast", "Let a key end at a time, in milliseconds", keys=(1, 1, 1), group=GROUP)
async def pexpireat(call: Call) -> Reply:
    return await _expire(call, "pexpireat", seconds=False, base_ms=0)


async def _expire(call: Call, name: str, *, seconds: bool, base_ms: int) -> int:
    at = changed_deadline(call.args[1], seconds=seconds, base_ms=base_ms, command=name)
    condition = _condition(call.args[2:])
    key = call.args[0]
    old = await call.unit.get(key)
    if old is None or not _allowed(condition, old, at):
        return 0
    if at <= call.now_ms:
        await call.unit.delete(key)
    else:
        await call.unit.put(key, old.value, at)
    return 1


def _condition(words: list[bytes]) -> set[bytes]:
    found = {word.upper() for word in words}
    for word in words:
        if word.upper() not in (b"NX", b"XX", b"GT", b"LT"):
            raise CommandError(f"ERR Unsupported option {word.decode(errors='backslashreplace')}")
    if b"NX" in found and len(found) > 1:
        raise CommandError("ERR NX and XX, GT or LT options at the same time are not compatible")
    if {b"GT", b"LT"} <= found:
        raise CommandError("ERR GT and LT options at the same time are not compatible")
    return found


def _allowed(condition: set[bytes], old: Entry, at: int) -> bool:
    """A key without an end lives longer than any other."""
    present = old.expires_ms
    if b"NX" in condition and present is not None:
        return False
    if b"XX" in condition and present is None:
        return False
    if b"GT" in condition and (present is None or at <= present):
        return False
    return not (b"LT" in condition and present is not None and at >= present)


@command("PERSIST", 2, "write fast", "Let a key live for ever", keys=(1, 1, 1), group=GROUP)
async def persist(call: Call) -> Reply:
    old = await call.unit.get(call.args[0])
    if old is None or old.expires_ms is None:
        return 0
    await call.unit.put(call.args[0], old.value, None)
    return 1


@command("TTL", 2, "readonly fast", "How many seconds a key has left", keys=(1, 1, 1), group=GROUP)
async def ttl(call: Call) -> Reply:
    return _seconds(await _left(call, call.now_ms))


@command("PTTL", 2, "readonly fast", "How many milliseconds a key has left", keys=(1, 1, 1), group=GROUP)
async def pttl(call: Call) -> Reply:
    return await _left(call, call.now_ms)


@command("EXPIRETIME", 2, "readonly fast", "When a key ends, in seconds", keys=(1, 1, 1), group=GROUP)
async def expiretime(call: Call) -> Reply:
    return _seconds(await _left(call, 0))


@command("PEXPIRETIME", 2, "readonly fast", "When a key ends, in milliseconds", keys=(1, 1, 1), group=GROUP)
async def pexpiretime(call: Call) -> Reply:
    return await _left(call, 0)


async def _left(call: Call, since_ms: int) -> int:
    entry = await call.unit.get(call.args[0])
    if entry is None:
        return MISSING
    return ENDLESS if entry.expires_ms is None else max(entry.expires_ms - since_ms, 0)


def _seconds(milliseconds: int) -> int:
    """Rounded, a length as well as a time, as Redis does."""
    return milliseconds if milliseconds < 0 else (milliseconds + 500) // 1000
