"""What Redis has no word for."""

from __future__ import annotations

from slate_engine.admin.lifetimes import parse_lifetime
from slate_engine.errors import InvalidError
from slate_engine.server.resp.command import Call, command, syntax_error
from slate_engine.server.resp.replies import OK, CommandError, Reply

GROUP = "slate"
LONGEST_NAME = 1024


@command("SLATE.FLUSH", -1, "write nomulti", "Have everything stored: SLATE.FLUSH [WAL|MEMTABLE]", group=GROUP)
async def flush(call: Call) -> Reply:
    service = call.session.service
    match [word.upper() for word in call.args]:
        case [] | [b"WAL"]:
            memtable = False
        case [b"MEMTABLE"]:
            memtable = True
        case _:
            raise syntax_error()
    assert service.flush is not None, "the command table refuses writes to a reader"
    await service.flush(memtable)
    return OK


@command("SLATE.CHECKPOINT", -1, "write nomulti", "Keep this state: [NAME name] [LIFETIME 7days]", group=GROUP)
async def checkpoint(call: Call) -> Reply:
    name, lifetime_ms, rest = None, None, iter(call.args)
    for word in rest:
        value = next(rest, None)
        if value is None:
            raise syntax_error()
        match word.upper():
            case b"NAME":
                name = value.decode(errors="backslashreplace")
                if len(name) > LONGEST_NAME:
                    raise CommandError(f"ERR the name of a checkpoint has at most {LONGEST_NAME} characters")
            case b"LIFETIME":
                lifetime_ms = _lifetime(value)
            case _:
                raise syntax_error()
    service = call.session.service
    assert service.checkpoint is not None, "the command table refuses writes to a reader"
    id, manifest_id = await service.checkpoint(name, lifetime_ms)
    return {b"id": id, b"manifest_id": manifest_id}


def _lifetime(text: bytes) -> int:
    try:
        return parse_lifetime(text.decode(errors="backslashreplace"))
    except InvalidError as error:
        raise CommandError(f"ERR {error.message}") from None


@command("SLATE.STATUS", 1, "readonly fast", "How the database is", group=GROUP)
async def status(call: Call) -> Reply:
    return {name.encode(): value for name, value in call.session.service.status().items()}
