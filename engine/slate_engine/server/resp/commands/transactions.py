"""MULTI and WATCH. EXEC is carried out in :mod:`slate_engine.server.resp.execution`, which can run other commands."""

from __future__ import annotations

from slate_engine.server.resp.command import Call, command
from slate_engine.server.resp.replies import OK, CommandError, Reply

GROUP = "transactions"

MOST_WATCHED = 10_000
"""Keys of one client. They are held until its EXEC, which looks at all of them in one go."""


@command("MULTI", 1, "unqueued fast", "Gather commands to be carried out at once", group=GROUP)
async def multi(call: Call) -> Reply:
    if call.session.queue is not None:
        raise CommandError("ERR MULTI calls can not be nested")
    call.session.queue = []
    return OK


@command("DISCARD", 1, "unqueued fast", "Forget the commands since MULTI", group=GROUP)
async def discard(call: Call) -> Reply:
    if call.session.queue is None:
        raise CommandError("ERR DISCARD without MULTI")
    await call.session.leave_transaction()
    return OK


@command("WATCH", -2, "unqueued fast", "Let EXEC fail if these keys are written before", keys=(1, -1, 1), group=GROUP)
async def watch(call: Call) -> Reply:
    session = call.session
    if session.queue is not None:
        raise CommandError("ERR WATCH inside MULTI is not allowed")
    if not session.service.read_only:
        if session.watch is None:
            session.watch = await session.service.keyspace.watch()
        watched = session.watch.keys
        if len(watched) + len(call.args) > MOST_WATCHED:
            raise CommandError(f"ERR a client watches at most {MOST_WATCHED} keys")
        if sum(map(len, watched)) + sum(map(len, call.args)) > session.service.limits.request.bytes:
            raise CommandError(
                f"ERR the keys that a client watches have at most {session.service.limits.request.bytes} bytes"
            )
        await session.watch.add(call.args)
    return OK


@command("UNWATCH", 1, "fast", "Forget the watched keys", group=GROUP)
async def unwatch(call: Call) -> Reply:
    await call.session.forget_watch()
    return OK


@command("EXEC", 1, "unqueued", "Carry out the commands since MULTI at once", group=GROUP)
async def exec_(call: Call) -> Reply:
    raise AssertionError("EXEC is carried out where commands are, and not as one of them")
