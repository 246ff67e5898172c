"""``slate serve``: the processes of a database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slate_engine.cli.help import SERVICES
from slate_engine.cli.session import Session
from slate_engine.errors import Error

if TYPE_CHECKING:
    from slate_engine.server.config import Config

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", exists=True, dir_okay=False, help="A YAML or JSON file with the configuration."),
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="One value of the configuration, as resp.port=6380; may be repeated.")
]
ShowConfig = Annotated[bool, typer.Option("--show-config", help="Print the configuration, secrets masked, and end.")]

serve = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Run a service of a database.

    The configuration comes from --config, then from variables such as SLATE_RESP__PORT, then from --set; the later wins.
    `--show-config` prints what it comes to. Without a password (resp.password_file) and a token (http.token_file) only
    this machine is served. SIGTERM ends a service in order.

    \b
    Exit codes: 0 ended in order, 1 failed, 5 the store could not be reached, 6 fenced by a newer process.""",
)


def register(app: typer.Typer) -> None:
    app.add_typer(serve, name="serve", rich_help_panel=SERVICES)


@serve.command()
def writer(context: typer.Context, config: ConfigFile = None, set: Set = None, show_config: ShowConfig = False) -> None:
    """Serve the database for reading and writing, by the Redis protocol.

    A write is answered when the object store has it. Whoever wrote the database before is fenced off.

    \b
    Example:
      slate --store s3://bucket --path orders serve writer
      redis-cli set greeting hello
    """
    from slate_engine.server.roles.writer import WriterRole

    _serve(context.obj, config, set, show_config, WriterRole)


@serve.command()
def reader(context: typer.Context, config: ConfigFile = None, set: Set = None, show_config: ShowConfig = False) -> None:
    """Serve the database for reading, by the Redis protocol, behind the writer by about reader.poll_seconds.

    \b
    Example:
      slate --store s3://bucket --path orders serve reader --set resp.port=6380
    """
    from slate_engine.server.roles.reader import ReaderRole

    _serve(context.obj, config, set, show_config, ReaderRole)


@serve.command()
def compactor(
    context: typer.Context, config: ConfigFile = None, set: Set = None, show_config: ShowConfig = False
) -> None:
    """Merge what the writer has flushed, so that reads stay fast and space stays small.

    Refused while a compactor that is not ours was at work a moment ago: the one inside a SlateDB writer would close that
    writer. Open the database there with compactor_options null, or force it with --set compactor.force=true.

    \b
    Example:
      slate --store s3://bucket --path orders serve compactor
    """
    from slate_engine.server.roles.compactor import CompactorRole

    _serve(context.obj, config, set, show_config, CompactorRole)


@serve.command()
def gc(context: typer.Context, config: ConfigFile = None, set: Set = None, show_config: ShowConfig = False) -> None:
    """Collect garbage, and answer the admin API: checkpoints, clones, destroy, restore, explain.

    The API is described by /openapi.json at the HTTP port.

    \b
    Example:
      slate --store s3://bucket --path orders serve gc --set http.token_file=/run/secrets/token
      curl -H "Authorization: Bearer $TOKEN" localhost:8080/v1/checkpoints
    """
    from slate_engine.server.roles.gc import GcRole

    _serve(context.obj, config, set, show_config, GcRole)


def _serve(session: Session, file: Path | None, assigned: list[str] | None, show: bool, role: Any) -> None:
    from slate_engine.server import logs, process
    from slate_engine.server.config import shown
    from slate_engine.store.scrubbing import scrubbed

    try:
        config = _config(session, file, assigned or [])
        if show:
            typer.echo(shown(config), nl=False)
            return
        logs.set_up(config.log)
        code = process.serve(config, role)
    except Error as error:
        typer.secho(f"slate: {scrubbed(error.message)}", err=True, fg="red")
        raise typer.Exit(1) from None
    raise typer.Exit(code)


def _config(session: Session, file: Path | None, assigned: list[str]) -> Config:
    from slate_engine.errors import InvalidError
    from slate_engine.server.config import assignments, load

    flags: dict[str, Any] = assignments(assigned)
    store = flags.setdefault("store", {})
    for name, value in (("url", session.store), ("wal_url", session.wal_store), ("options", dict(session.options))):
        if value:
            store.setdefault(name, value)
    if session.path:
        flags.setdefault("path", session.path)
    config = load(file, os.environ, flags)
    if not config.store.url:
        raise InvalidError("which store? Give --store file:///folder (or s3://bucket, …), SLATE_STORE, or store.url")
    return config
