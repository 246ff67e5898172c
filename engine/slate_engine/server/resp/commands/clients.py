"""CLIENT: what a client says of itself, and who else is there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from slate_engine.server.keyspace import STRETCH
from slate_engine.server.resp.command import (
    Call,
    command,
    help_reply,
    integer,
    syntax_error,
    text,
    unknown_subcommand,
    wrong_arguments,
)
from slate_engine.server.resp.commands.connection import checked_name
from slate_engine.server.resp.replies import OK, CommandError, Reply, Verbatim
from slate_engine.server.resp.session import Session

HELP = [
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "LIST",
    "    Return information about client connections.",
    "SETINFO <option> <value>",
    "    Set client meta attr. Options are: LIB-NAME, LIB-VER.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "SLATE DURABILITY [remote|memory]",
    "    When writes of this connection are answered: when the object store has them (remote), or when they are seen",
    "    (memory: they are lost if the writer dies before the next flush).",
]

Subcommand = Callable[[Call, list[bytes]], Awaitable[Reply]]


@command("CLIENT", -2, "fast", "What clients say of themselves, and who is there", group="connection")
async def client(call: Call) -> Reply:
    name, rest = call.args[0].upper(), call.args[1:]
    found = _SUBCOMMANDS.get(name)
    if found is None:
        raise unknown_subcommand("CLIENT", call.args[0])
    fewest, most, run = found
    if not fewest <= len(rest) <= most:
        raise wrong_arguments(f"client|{name.decode().lower()}")
    return await run(call, rest)


async def _id(call: Call, rest: list[bytes]) -> Reply:
    return call.session.id


async def _getname(call: Call, rest: list[bytes]) -> Reply:
    return call.session.name or None


async def _setname(call: Call, rest: list[bytes]) -> Reply:
    call.session.name = checked_name(rest[0], "Client names")
    return OK


async def _setinfo(call: Call, rest: list[bytes]) -> Reply:
    attribute = rest[0].lower()
    if attribute not in (b"lib-name", b"lib-ver"):
        raise CommandError(f"ERR Unrecognized option '{text(rest[0])}'")
    call.session.library[attribute] = checked_name(rest[1], attribute.decode())
    return OK


async def _info(call: Call, rest: list[bytes]) -> Reply:
    return Verbatim(_line(call.session))


async def _list(call: Call, rest: list[bytes]) -> Reply:
    sessions = call.session.service.sessions
    match [word.upper() for word in rest[:1]]:
        case []:
            shown = list(sessions.values())
        case [b"ID"] if len(rest) > 1:
            shown = [sessions[id] for word in rest[1:] if (id := integer(word)) in sessions]
        case [b"TYPE"] if len(rest) == 2:
            shown = list(sessions.values()) if rest[1].lower() == b"normal" else []
        case _:
            raise syntax_error()
    lines, budget = [], call.budget()
    for number, session in enumerate(shown, 1):
        lines.append(_line(session))
        budget.spend(len(lines[-1]))
        if number % STRETCH == 0:
            await call.unit.pause()
    return Verbatim("".join(lines))


def _line(session: Session) -> str:
    now = session.service.keyspace.runtime.monotonic()
    library = session.library
    fields = {
        "id": session.id,
        "addr": session.address,
        "name": session.name.decode(),
        "age": int(now - session.opened),
        "idle": int(now - (session.last_active or session.opened)),
        "flags": "x" if session.queue is not None else "N",
        "db": 0,
        "multi": -1 if session.queue is None else len(session.queue),
        "watch": 0 if session.watch is None else len(session.watch.keys),
        "cmd": session.last_command.lower() or "NULL",
        "user": "default",
        "resp": session.version,
        "lib-name": library.get(b"lib-name", b"").decode(),
        "lib-ver": library.get(b"lib-ver", b"").decode(),
        "durability": "remote" if session.durable else "memory",
    }
    return " ".join(f"{name}={value}" for name, value in fields.items()) + "\n"


async def _slate(call: Call, rest: list[bytes]) -> Reply:
    if rest[0].upper() != b"DURABILITY":
        raise syntax_error()
    if len(rest) == 1:
        return b"remote" if call.session.durable else b"memory"
    level = rest[1].lower()
    if level not in (b"remote", b"memory"):
        raise CommandError("ERR DURABILITY is remote or memory")
    call.session.durable = level == b"remote"
    return OK


async def _accept(call: Call, rest: list[bytes]) -> Reply:
    """Wishes that come true by themselves here: nothing is evicted, and reading does not change what is kept."""
    if rest[0].upper() not in (b"ON", b"OFF"):
        raise syntax_error()
    return OK


async def _help(call: Call, rest: list[bytes]) -> Reply:
    return help_reply("CLIENT", HELP)


_SUBCOMMANDS: dict[bytes, tuple[int, int, Subcommand]] = {
    b"ID": (0, 0, _id),
    b"GETNAME": (0, 0, _getname),
    b"SETNAME": (1, 1, _setname),
    b"SETINFO": (2, 2, _setinfo),
    b"INFO": (0, 0, _info),
    b"LIST": (0, 1 << 20, _list),
    b"NO-EVICT": (1, 1, _accept),
    b"NO-TOUCH": (1, 1, _accept),
    b"SLATE": (1, 2, _slate),
    b"HELP": (0, 0, _help),
}
