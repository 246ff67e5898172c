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
from slate_engine.server.resp.budget import Budget, ReplyTooLarge
from slate_engine.server.resp.catalogue import TABLE, find
from slate_engine.server.resp.command import LATER, Call, Command, Later
from slate_engine.server.resp.replies import NULL_ARRAY, QUEUED, CommandError, Reply
from slate_engine.server.resp.session import Session
from slate_engine.store.scrubbing import scrubbed

log = logging.getLogger(__name__)


class Outcome(NamedTuple):
    """A reply, and what must be durable before it is given."""

    reply: Reply
    write: WriteHandle | None = None


def answer_at_once(session: Session, request: list[bytes]) -> Reply | Later:
    """The reply to a request for something that is in memory, which needs no task and waits for nobody. ``LATER`` to every
    other one: nothing has been done about it, and :func:`execute` says what is wrong with it, if something is."""
    wanted = TABLE.get(request[0])
    if wanted is None or wanted.at_once is None or session.queue is not None or not session.authenticated:
        return LATER
    if len(request) != wanted.arity:
        return LATER
    service = session.service
    started = service.keyspace.runtime.monotonic()
    try:
        reply = wanted.at_once(service.keyspace.reading, request)
    except Error:
        return LATER
    if reply is not LATER:
        _note(session, wanted.name, started, failed=False)
    return reply


async def execute(session: Session, request: list[bytes]) -> Outcome:
    """Carry out one request. What goes wrong is a reply, too."""
    runtime = session.service.keyspace.runtime
    started = runtime.monotonic()
    name, queueable = "unknown", True
    try:
        wanted = find(request)
        name, queueable = wanted.name, "unqueued" not in wanted.flags
        outcome = await _admitted(session, wanted, request[1:])
    except Error as error:
        # A MULTI or WATCH that is refused in a transaction was never to be a part of it.
        if session.queue is not None and queueable:
            session.spoiled = True
        outcome = Outcome(as_reply(error))
    _note(session, name, started, failed=isinstance(outcome.reply, CommandError))
    return outcome if session.durable else Outcome(outcome.reply)


def _note(session: Session, name: str, started: float, *, failed: bool) -> None:
    service = session.service
    session.last_active, session.last_command = started, name
    service.calls[name] += 1
    service.numbers.command(name, service.keyspace.runtime.monotonic() - started, failed)


async def _admitted(session: Session, wanted: Command, args: list[bytes]) -> Outcome:
    if not session.authenticated and "noauth" not in wanted.flags:
        raise CommandError("NOAUTH Authentication required.")
    if wanted.writes:
        session.service.refuse_write()
    if wanted.name == "EXEC":
        return await _exec(session)
    if session.queue is not None and "unqueued" not in wanted.flags:
        _enqueue(session, wanted, args)
        return Outcome(QUEUED)
    keyspace = session.service.keyspace
    if not wanted.writes:
        return Outcome(await wanted.run(Call(args, session, keyspace.reading)))
    done = await keyspace.write(lambda unit: wanted.run(Call(args, session, unit)))
    assert done is not None, "nothing is watched by a single command"
    return Outcome(*done)


def _enqueue(session: Session, wanted: Command, args: list[bytes]) -> None:
    assert session.queue is not None
    limits = session.service.limits
    if "nomulti" in wanted.flags:
        raise CommandError("ERR Command not allowed inside a transaction")
    if len(session.queue) >= limits.pipeline:
        raise CommandError(f"ERR a transaction has at most {limits.pipeline} commands")
    session.queued_bytes += sum(map(len, args))
    if session.queued_bytes > limits.request.bytes:
        raise CommandError(f"ERR the commands of a transaction have at most {limits.request.bytes} bytes")
    session.queue.append((wanted, args))


async def _exec(session: Session) -> Outcome:
    if session.queue is None:
        raise CommandError("ERR EXEC without MULTI")
    queue, spoiled, watch = session.queue, session.spoiled, session.watch
    session.queue, session.queued_bytes, session.spoiled = None, 0, False
    try:
        if spoiled:
            raise CommandError("EXECABORT Transaction discarded because of previous errors.")

        async def run_all(unit: Unit) -> list[Reply]:
            budget = Budget(session.service.limits.reply_bytes)
            return [await _answered(Call(args, session, unit, budget), wanted, budget) for wanted, args in queue]

        keyspace = session.service.keyspace
        if session.service.read_only:
            return Outcome(await run_all(await keyspace.reading.frozen()))
        done = await keyspace.write(run_all, watch=watch)
        return Outcome(NULL_ARRAY) if done is None else Outcome(*done)
    finally:
        await session.forget_watch()


async def _answered(call: Call, wanted: Command, budget: Budget) -> Reply:
    """A command that fails leaves the others of its transaction as they are: it has written nothing. One whose reply is too
    large may have, so it ends the transaction."""
    try:
        reply = await wanted.run(call)
        if type(reply) is bytes:
            budget.spend(len(reply))
        return reply
    except ReplyTooLarge:
        raise
    except CommandError as error:
        return error


def as_reply(error: Error) -> CommandError:
    """What a client is told of what went wrong."""
    if isinstance(error, CommandError):
        return error
    message = scrubbed(error.message)
    if isinstance(error, ClosedError):
        code = "FENCED" if error.reason is CloseReason.FENCED else "CLOSED"
        return CommandError(f"{code} {message}")
    if isinstance(error, UnavailableError):
        return CommandError(f"TRYAGAIN the object store does not answer: {message}")
    return CommandError(f"ERR {message}")
