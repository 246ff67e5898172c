"""The connection itself."""

from __future__ import annotations

from slate_engine.server.resp.command import Call, command, integer, syntax_error, wrong_arguments
from slate_engine.server.resp.replies import OK, PONG, CommandError, Reply, Simple
from slate_engine.server.resp.session import Session
from slate_engine.server.resp.version import REDIS_VERSION

GROUP = "connection"
LONGEST_NAME = 1024


@command("PING", -1, "fast", "Whether the server is there", group=GROUP)
async def ping(call: Call) -> Reply:
    if len(call.args) > 1:
        raise wrong_arguments("ping")
    return call.args[0] if call.args else PONG


@command("ECHO", 2, "fast", "Say the same", group=GROUP)
async def echo(call: Call) -> Reply:
    return call.args[0]


@command("SELECT", 2, "fast", "Choose a database: there is one, number 0", group=GROUP)
async def select(call: Call) -> Reply:
    if integer(call.args[0]) != 0:
        raise CommandError("ERR DB index is out of range")
    return OK


@command("QUIT", -1, "noauth unqueued fast", "Close the connection", group=GROUP)
async def quit_(call: Call) -> Reply:
    call.session.leaving = True
    return OK


@command("RESET", 1, "noauth unqueued fast", "As if the connection were new", group=GROUP)
async def reset(call: Call) -> Reply:
    await call.session.reset()
    return Simple("RESET")


@command("AUTH", -2, "noauth fast", "Give the password", group=GROUP)
async def auth(call: Call) -> Reply:
    if len(call.args) > 2:
        raise syntax_error()
    gate = call.session.service.gate
    if not gate.shut and len(call.args) == 1:
        raise CommandError(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
            "configuration is correct?"
        )
    user, password = call.args if len(call.args) == 2 else (b"default", call.args[0])
    _authenticate(call.session, user, password)
    return OK


def _authenticate(session: Session, user: bytes, password: bytes) -> None:
    gate = session.service.gate
    if user != b"default" or (gate.shut and not gate.admits(password)):
        session.service.numbers.refused("password")
        raise CommandError("WRONGPASS invalid username-password pair or user is disabled.")
    session.authenticated = True


@command("HELLO", -1, "noauth fast", "Choose the version of the protocol", group=GROUP)
async def hello(call: Call) -> Reply:
    session, words = call.session, list(call.args)
    version = session.version
    if words:
        version = _protocol(words.pop(0))
    name: bytes | None = None
    credentials: tuple[bytes, bytes] | None = None
    while words:
        match words.pop(0).upper():
            case b"AUTH" if len(words) >= 2:
                credentials = words.pop(0), words.pop(0)
            case b"SETNAME" if words:
                name = checked_name(words.pop(0), "Client names")
            case _:
                raise CommandError("ERR Syntax error in HELLO option")
    if credentials is not None:
        _authenticate(session, *credentials)
    if not session.authenticated:
        raise CommandError(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> "
            "<pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
        )
    session.version = version
    if name is not None:
        session.name = name
    return {
        b"server": b"redis",
        b"version": REDIS_VERSION.encode(),
        b"proto": version,
        b"id": session.id,
        b"mode": b"standalone",
        b"role": b"replica" if session.service.read_only else b"master",
        b"modules": [],
    }


def _protocol(word: bytes) -> int:
    if word not in (b"2", b"3"):
        if not word.isdigit():
            raise CommandError("ERR Protocol version is not an integer or out of range")
        raise CommandError("NOPROTO unsupported protocol version")
    return int(word)


def checked_name(name: bytes, what: str) -> bytes:
    """What a client says of itself: it is kept as long as the client is there, and shown to others."""
    if len(name) > LONGEST_NAME:
        raise CommandError(f"ERR {what} cannot have more than {LONGEST_NAME} bytes.")
    if any(byte < 0x21 or byte > 0x7E for byte in name):
        raise CommandError(f"ERR {what} cannot contain spaces, newlines or special characters.")
    return name
