"""What the server says of itself."""

from __future__ import annotations

import resource
from collections.abc import Mapping

from slate_engine.server.resp.command import (
    TABLE,
    Call,
    Command,
    command,
    help_reply,
    real,
    unknown_subcommand,
    wrong_arguments,
)
from slate_engine.server.resp.patterns import matcher
from slate_engine.server.resp.replies import NULL_ARRAY, OK, CommandError, Reply, Simple, Verbatim
from slate_engine.server.resp.service import RespService
from slate_engine.server.resp.version import REDIS_VERSION

GROUP = "server"

MOST_PATTERNS = 32
"""Each is made ready before it is used, in a time in which nobody else is served."""


@command("TIME", 1, "fast", "The server's time", group=GROUP)
async def time(call: Call) -> Reply:
    seconds, milliseconds = divmod(call.now_ms, 1000)
    return [b"%d" % seconds, b"%d" % (milliseconds * 1000)]


@command("DBSIZE", 1, "readonly fast", "About how many keys there are", group=GROUP)
async def dbsize(call: Call) -> Reply:
    return await call.session.service.keyspace.source.estimate_keys()


@command("DEBUG", -2, "admin", "DEBUG SLEEP: have this client wait", group=GROUP)
async def debug(call: Call) -> Reply:
    if call.args[0].upper() != b"SLEEP":
        raise unknown_subcommand("DEBUG", call.args[0])
    if len(call.args) != 2:
        raise wrong_arguments("debug|sleep")
    seconds = real(call.args[1])
    await call.session.service.keyspace.runtime.sleep(min(max(seconds, 0.0), 3600.0))
    return OK


# --- INFO --------------------------------------------------------------------------------------------------------


@command("INFO", -1, "readonly", "How the server is", group=GROUP)
async def info(call: Call) -> Reply:
    service = call.session.service
    sections = _sections(service, await service.keyspace.source.estimate_keys())
    wanted = {word.decode(errors="replace").lower() for word in call.args}
    if wanted and not wanted & {"all", "default", "everything"}:
        sections = {name: fields for name, fields in sections.items() if name.lower() in wanted}
    return Verbatim("\r\n".join(_section(name, fields) for name, fields in sections.items()))


def _section(name: str, fields: Mapping[str, Reply]) -> str:
    return f"# {name}\r\n" + "".join(f"{field}:{_plain(value)}\r\n" for field, value in fields.items())


def _plain(value: Reply) -> object:
    return value.decode(errors="replace") if isinstance(value, bytes) else "" if value is None else value


def _sections(service: RespService, keys: int) -> dict[str, Mapping[str, Reply]]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    up = int(service.keyspace.runtime.monotonic() - service.started)
    return {
        "Server": {
            "redis_version": REDIS_VERSION,
            "redis_mode": "standalone",
            "server_name": "slatekeeper",
            "arch_bits": 64,
            "uptime_in_seconds": up,
            "uptime_in_days": up // 86400,
        },
        "Clients": {
            "connected_clients": len(service.sessions),
            "maxclients": service.limits.clients,
        },
        "Memory": {"used_memory_peak": usage.ru_maxrss * 1024},
        "Persistence": {"loading": 0},
        "Stats": {
            "total_connections_received": service.connections_taken,
            "total_commands_processed": sum(service.calls.values()),
        },
        "Replication": {
            "role": "slave" if service.read_only else "master",
            **({"slave_read_only": 1, "master_link_status": "up"} if service.read_only else {"connected_slaves": 0}),
        },
        "CPU": {"used_cpu_sys": f"{usage.ru_stime:.6f}", "used_cpu_user": f"{usage.ru_utime:.6f}"},
        "Cluster": {"cluster_enabled": 0},
        "Slate": service.status(),
        "Keyspace": {"db0": f"keys={keys},expires=0,avg_ttl=0"},
    }


# --- COMMAND -----------------------------------------------------------------------------------------------------


@command("COMMAND", -1, "loading", "Which commands there are", group=GROUP)
async def command_(call: Call) -> Reply:
    if not call.args:
        return [_described(each) for each in TABLE.values()]
    rest = call.args[1:]
    match call.args[0].upper():
        case b"COUNT":
            return len(TABLE)
        case b"LIST":
            return [each.name.lower() for each in TABLE.values()]
        case b"INFO":
            named = [TABLE.get(name.upper()) for name in rest] if rest else list(TABLE.values())
            return [NULL_ARRAY if each is None else _described(each) for each in named]
        case b"DOCS":
            chosen = [each for name in rest if (each := TABLE.get(name.upper()))] if rest else list(TABLE.values())
            return {each.name.lower().encode(): _documented(each) for each in chosen}
        case b"GETKEYS":
            return list(_keys_of(rest))
        case b"HELP":
            return help_reply(
                "COMMAND", ["COUNT", "DOCS [<name> ...]", "GETKEYS <full-command>", "INFO [<name> ...]", "LIST"]
            )
    raise unknown_subcommand("COMMAND", call.args[0])


def _described(each: Command) -> Reply:
    flags = frozenset(Simple(flag) for flag in each.flags - {"noauth", "nomulti", "unqueued"})
    return [each.name.lower(), each.arity, flags, *each.keys, [], [], [], []]


def _documented(each: Command) -> Reply:
    return {b"summary": each.summary, b"group": each.group, b"arity": each.arity}


def _keys_of(request: list[bytes]) -> list[bytes]:
    found = TABLE.get(request[0].upper()) if request else None
    if found is None:
        raise CommandError("ERR Invalid command specified")
    found.check_arity(len(request))
    keys = found.keys_of(request)
    if not keys:
        raise CommandError("ERR The command has no key arguments")
    return keys


# --- CONFIG ------------------------------------------------------------------------------------------------------


@command("CONFIG", -2, "admin", "CONFIG GET: how the server is set up", group=GROUP)
async def config(call: Call) -> Reply:
    match call.args[0].upper():
        case b"GET":
            if len(call.args) < 2:
                raise wrong_arguments("config|get")
            if len(call.args) - 1 > MOST_PATTERNS:
                raise CommandError(f"ERR CONFIG GET takes at most {MOST_PATTERNS} patterns")
            fits = [matcher(word.lower()) for word in call.args[1:]]
            settings = {name.encode(): value for name, value in _settings(call.session.service).items()}
            return {name: value for name, value in settings.items() if any(fit(name) for fit in fits)}
        case b"RESETSTAT":
            call.session.service.calls.clear()
            return OK
        case b"SET":
            raise CommandError(
                "ERR CONFIG SET is not supported: change the configuration file or the flags of the server"
            )
        case b"HELP":
            return help_reply("CONFIG", ["GET <pattern>", "RESETSTAT"])
    raise unknown_subcommand("CONFIG", call.args[0])


def _settings(service: RespService) -> dict[str, Reply]:
    limits = service.limits
    return {
        "appendonly": "yes",
        "appendfsync": "always",
        "databases": "1",
        "maxclients": str(limits.clients),
        "maxmemory": "0",
        "maxmemory-policy": "noeviction",
        "proto-max-bulk-len": str(limits.request.bytes),
        "save": "",
        "timeout": str(int(limits.idle_seconds)),
    }
