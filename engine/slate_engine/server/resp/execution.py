"""Carries requests out, one client's in their order.

A request gives a reply, and with it the write that has to be durable before the reply is sent. The next request does not
wait for that: a pipeline of writes shares one object of the log.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from slate_engine.api.handle import WriteHandle
from slate_engine.errors import ClosedError, CloseReason, Error, UnavailableError
from slate_engine.server.keyspace import Unit
from slate_engine.server.resp.catalogue import find
from slate_engine.server.resp.command import Call, Command
from slate_engine.server.resp.replies import NULL_ARRAY, QUEUED, CommandError, Reply
from slate_engine.server.resp.session import Session

log = logging.getLogger(__name__)


class Outcome(NamedTuple):
    """A reply, and what must be durable before it is given."""

    reply: Reply
    write: WriteHandle | None = None


async def execute(session: Session, request: list[bytes]) -> Outcome:
    """Carry out one request. What goes wrong is a reply, too."""
    service, runtime = session.service, session.service.keyspace.runtime
    started = runtime.monotonic()
    name = "unknown"
    try:
        wanted = find(request)
        name = wanted.name
        outcome = await _admitted(session, wanted, request[1:])
    except Error as error:
        if session.queue is not None and name != "EXEC":
            session.spoiled = True
        outcome = Outcome(as_reply(error))
    session.last_active, session.last_command = started, name
    service.calls[name] += 1
    service.numbers.command(name, runtime.monotonic() - started, isinstance(outcome.reply, CommandError))
    return outcome if session.durable else Outcome(outcome.reply)


async def _admitted(session: Session, wanted: Command, args: list[bytes]) -> Outcome:
    if not session.authenticated and "noauth" not in wanted.flags:
        raise CommandError("NOAUTH Authentication required.")
    if wanted.writes:
        session.service.refuse_write()
    if wanted.name == "EXEC":
        return await _exec(session)
    if session.queue is not None and not wanted.flags & {"unqueued", "noauth"}:
        if len(session.queue) >= session.service.limits.pipeline:
            raise CommandError(f"ERR a transaction has at most {session.service.limits.pipeline} commands")
        session.queue.append((wanted, args))
        return Outcome(QUEUED)
    keyspace = session.service.keyspace
    if not wanted.writes:
        return Outcome(await wanted.run(Call(args, session, keyspace.reading())))
    done = await keyspace.write(lambda unit: wanted.run(Call(args, session, unit)))
    assert done is not None, "nothing is watched by a single command"
    return Outcome(*done)


async def _exec(session: Session) -> Outcome:
    if session.queue is None:
        raise CommandError("ERR EXEC without MULTI")
    queue, spoiled, watch = session.queue, session.spoiled, session.watch
    session.queue, session.spoiled = None, False
    try:
        if spoiled:
            raise CommandError("EXECABORT Transaction discarded because of previous errors.")

        async def run_all(unit: Unit) -> list[Reply]:
            return [await _answered(Call(args, session, unit), wanted) for wanted, args in queue]

        keyspace = session.service.keyspace
        if session.service.read_only:
            return Outcome(await run_all(keyspace.reading()))
        done = await keyspace.write(run_all, watch=watch)
        return Outcome(NULL_ARRAY) if done is None else Outcome(*done)
    finally:
        await session.forget_watch()


async def _answered(call: Call, wanted: Command) -> Reply:
    """A command that fails leaves the others of its transaction as they are: it has written nothing."""
    try:
        return await wanted.run(call)
    except CommandError as error:
        return error


def as_reply(error: Error) -> CommandError:
    """What a client is told of what went wrong."""
    if isinstance(error, CommandError):
        return error
    if isinstance(error, ClosedError):
        code = "FENCED" if error.reason is CloseReason.FENCED else "CLOSED"
        return CommandError(f"{code} {error.message}")
    if isinstance(error, UnavailableError):
        return CommandError(f"TRYAGAIN the object store does not answer: {error.message}")
    return CommandError(f"ERR {error.message}")
