"""``connect``: a way from this machine to the Redis port of a database, with redis-cli at its end."""

from __future__ import annotations

import base64
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from slate_operator.api.database import SlateDatabase
from slate_operator.names import Port
from slate_operator.plugin.flags import Flags
from slate_operator.plugin.kubectl import Failed, Kubectl, kind
from slate_operator.plugin.session import Database, session

_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


@dataclass(frozen=True, slots=True)
class Door:
    """How a database is spoken to: the Secret with its passwords, and the one with the authority of its certificate."""

    service: str
    secret: str
    key: str
    authority: str | None

    @classmethod
    def of(cls, database: SlateDatabase, *, readers: bool) -> Door:
        name, auth = database.metadata.name, database.spec.writer.auth
        if not readers and database.spec.writer.mode != "Server":
            raise Failed(
                f"the writer of {name} has the mode {database.spec.writer.mode} and speaks its own protocol; --readers "
                "connects to the readers"
            )
        if readers and not database.spec.readers.replicas:
            raise Failed(f"{name} has no readers; add some with: kubectl scale sdb/{name} --replicas=1")
        return cls(
            service=f"{name}-readers" if readers else name,
            secret=auth.secret_ref.name if auth.secret_ref else f"{name}-auth",
            key=auth.secret_ref.key if auth.secret_ref else "password",
            authority=f"{name}-tls" if auth.tls else None,
        )


def connect(
    context: typer.Context,
    name: Database,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORDS", help="After `--`, for redis-cli: a command, or options of its own."),
    ] = None,
    readers: Annotated[bool, typer.Option("--readers", help="Connect to the readers instead of the writer.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="On this machine; 0 for a free one.")] = 0,
    forward_only: Annotated[
        bool, typer.Option("--forward-only", help="Open the way and keep it open, for a client of your own.")
    ] = False,
) -> None:
    """Connect to a database with redis-cli, through a port of this machine.

    The password and the certificate authority are read from the database's Secrets, and shown to nobody.

    \b
      kubectl slate connect orders
      kubectl slate connect orders -- SET order:1 "3 items"
      kubectl slate connect orders --readers -- GET order:1
      kubectl slate connect orders --forward-only --port 6380
    """
    here = session(context)
    found = here.kubectl.find(kind(SlateDatabase.definition.plural), name)
    if found is None:
        raise Failed(f"there is no SlateDatabase {name} in this namespace; look into others with -n NAMESPACE", 3)
    door = Door.of(SlateDatabase.of(found, extra="ignore"), readers=readers)
    client = shutil.which("redis-cli")
    with tempfile.TemporaryDirectory(prefix="kubectl-slate-") as folder:
        authority = Path(folder) / "ca.crt" if door.authority else None
        if door.authority and authority:
            authority.write_bytes(secret(here.kubectl, door.authority, "ca.crt"))
        with forwarded(here.kubectl, door.service, port) as way:
            if client and not forward_only:
                password = secret(here.kubectl, door.secret, door.key).decode().split("\n")[0].strip()
                code = subprocess.run(
                    client_words(client, way.port, authority, words or []),
                    env={**os.environ, "REDISCLI_AUTH": password},  # on the command line everybody could read it
                    check=False,
                ).returncode
                raise typer.Exit(code)
            here.note(instructions(door, way.port, authority, here.kubectl.flags, here_is_client=client is not None))
            with suppress(KeyboardInterrupt):
                way.process.wait()
                raise Failed(f"the way to service/{door.service} has ended: its pod is gone, perhaps; try again")


def client_words(client: str, port: int, authority: Path | None, words: list[str]) -> list[str]:
    """The command line of redis-cli. It checks the certificate against the database's own authority."""
    tls = ["--tls", "--cacert", str(authority)] if authority else []
    return [client, "-h", "127.0.0.1", "-p", str(port), *tls, *words]


def instructions(door: Door, port: int, authority: Path | None, flags: Flags, *, here_is_client: bool) -> str:
    """What to run in another terminal."""
    command = shlex.join(client_words("redis-cli", port, authority, []))
    jsonpath = "{.data." + door.key.replace(".", "\\.") + "}"
    read = shlex.join(["kubectl", "get", "secret", door.secret, *flags.words, "-o", f"jsonpath={jsonpath}"])
    password = f"{read} | base64 -d | head -n 1"
    missing = (
        "" if here_is_client else "redis-cli is not on the search path (PATH): install it, or use any Redis client. "
    )
    return (
        f"{missing}The database is at 127.0.0.1:{port} until Ctrl-C. In another terminal:\n"
        f'  REDISCLI_AUTH="$({password})" {command}'
    )


def secret(kubectl: Kubectl, name: str, key: str) -> bytes:
    """One value of a Secret."""
    found = kubectl.find("secret", name)
    if found is None:
        raise Failed(f"there is no Secret {name} yet; the operator makes it, see `kubectl slate why`")
    try:
        return base64.b64decode(found["data"][key])
    except KeyError:
        raise Failed(f"the Secret {name} has no key {key}") from None


@dataclass(frozen=True, slots=True)
class Way:
    """A port of this machine that leads to a Service as long as the process runs."""

    port: int
    process: subprocess.Popen[str]


@contextmanager
def forwarded(kubectl: Kubectl, service: str, port: int) -> Iterator[Way]:
    """A way to the Service, as long as the block lasts."""
    process = kubectl.start("port-forward", f"service/{service}", f"{port or ''}:{Port.RESP}", "--address=127.0.0.1")
    try:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            if found := _FORWARDING.search(line):
                # It says a word about every connection, and would stop when nobody listens.
                threading.Thread(target=process.stdout.read, daemon=True).start()
                yield Way(int(found[1]), process)
                return
            said.append(line.strip())
        raise Failed(f"no way to service/{service}: {' '.join(said) or 'kubectl port-forward ended without a word'}")
    finally:
        process.terminate()
        process.wait()
