"""Keys, whatever their values."""

from __future__ import annotations

from slate_engine.server.keyspace import STRETCH
from slate_engine.server.resp.command import Call, command, syntax_error
from slate_engine.server.resp.replies import OK, CommandError, Reply, Simple

GROUP = "generic"


@command("DEL", -2, "write", "Delete keys", keys=(1, -1, 1), group=GROUP)
@command("UNLINK", -2, "write fast", "Delete keys", keys=(1, -1, 1), group=GROUP)
async def delete(call: Call) -> Reply:
    deleted = 0
    for number, key in enumerate(call.args, 1):
        if await call.unit.get(key) is not None:
            await call.unit.delete(key)
            deleted += 1
        if number % STRETCH == 0:
            await call.unit.pause()
    return deleted


@command("EXISTS", -2, "readonly fast", "How many of these keys exist", keys=(1, -1, 1), group=GROUP)
@command("TOUCH", -2, "readonly fast", "How many of these keys exist", keys=(1, -1, 1), group=GROUP)
async def exists(call: Call) -> Reply:
    return sum([entry is not None async for entry in call.unit.each(call.args)])


@command("TYPE", 2, "readonly fast", "What kind of value a key has", keys=(1, 1, 1), group=GROUP)
async def type_(call: Call) -> Reply:
    return Simple("none" if await call.unit.get(call.args[0]) is None else "string")


@command("FLUSHDB", -1, "write", "Delete all keys, where the server allows it", group="server")
@command("FLUSHALL", -1, "write", "Delete all keys, where the server allows it", group="server")
async def flush(call: Call) -> Reply:
    """Every key gets a tombstone of its own, so this takes as long as reading them; it is for tests and small databases."""
    if [word.upper() for word in call.args] not in ([], [b"SYNC"], [b"ASYNC"]):
        raise syntax_error()
    if not call.session.service.limits.allow_flush:
        raise CommandError(
            "ERR deleting all keys is not allowed here: destroy the database instead, or set resp.allow_flush at the server"
        )
    async for entry in call.unit.entries(b"", None):
        await call.unit.delete(entry.key)
    return OK
