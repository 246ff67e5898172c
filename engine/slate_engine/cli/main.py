"""The command ``slate``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from slate_engine.cli import (
    checkpoints,
    cloning,
    collecting,
    compaction,
    compactor,
    data,
    destroying,
    explaining,
    manifests,
    serving,
    status,
    transfer,
    verifying,
)
from slate_engine.cli.failures import EXIT_CODES
from slate_engine.cli.help import Verbs
from slate_engine.cli.session import Session, read_env_file

app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode=None,  # drawing boxes around the help would take twice as long as all the rest
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": 110, "help_option_names": ["--help", "-h"]},
    help="""Look into, work on and care for SlateDB databases in object storage.

    A database is named by its store and its path in it, before the verb or in the environment:

    \b
      slate --store s3://bucket --path orders status
      export SLATE_STORE=s3://bucket SLATE_PATH=orders; slate status

    Credentials come from the environment, as for each service's own tools (AWS_ACCESS_KEY_ID, GOOGLE_SERVICE_ACCOUNT,
    AZURE_STORAGE_ACCOUNT_KEY, …), or from --env-file. Keys and values are given and shown as text, or as 0x with
    hexadecimal digits where they are no printable text. `slate VERB --help` shows examples.""",
    epilog="\b\nExit codes:\n" + "\n".join(f"  {code:<4}{meaning}" for code, meaning in EXIT_CODES.items()),
)


def show_version(wanted: bool) -> None:
    """Print the version, if that is what is wanted, and end."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"slate {version('slatekeeper')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    store: Annotated[
        str,
        typer.Option(
            envvar="SLATE_STORE", metavar="URL", help="file:///folder, s3://bucket/prefix, gs://bucket, az://container."
        ),
    ] = "",
    path: Annotated[
        str, typer.Option(envvar="SLATE_PATH", metavar="PATH", help="The database's path in the store.")
    ] = "",
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", metavar="NAME=VALUE", help="A store option; may be repeated.")
    ] = None,
    wal_store: Annotated[
        str, typer.Option(envvar="SLATE_WAL_STORE", metavar="URL", help="Where the log is, if not in the same store.")
    ] = "",
    env_file: Annotated[
        Path | None,
        typer.Option(
            envvar="SLATE_ENV_FILE",
            metavar="FILE",
            help="Read environment variables (NAME=value lines) from this file first.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    merge_operator: Annotated[
        str,
        typer.Option(
            envvar="SLATE_MERGE_OPERATOR",
            metavar="MODULE:NAME",
            help="The Python object that folds merge operands, for databases that have some.",
        ),
    ] = "",
    output: Annotated[
        str,
        typer.Option(
            envvar="SLATE_OUTPUT",
            metavar="table|json",
            help="table for people, json for scripts.",
            autocompletion=lambda: ["table", "json"],
        ),
    ] = "table",
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=show_version)
    ] = False,
) -> None:
    if env_file is not None:
        read_env_file(env_file)
        store, path = store or os.environ.get("SLATE_STORE", ""), path or os.environ.get("SLATE_PATH", "")
    if output not in ("table", "json"):
        raise typer.BadParameter("choose table or json", param_hint="--output")
    pairs = [text.partition("=") for text in option or []]
    if bad := [name for name, equals, _ in pairs if not equals]:
        raise typer.BadParameter(f"{bad[0]} is not name=value", param_hint="--option")
    context.obj = Session(
        store, path, {name: value for name, _, value in pairs}, wal_store, merge_operator, json=output == "json"
    )


for part in (
    data,
    transfer,
    status,
    manifests,
    checkpoints,
    cloning,
    destroying,
    explaining,
    collecting,
    compaction,
    compactor,
    verifying,
    serving,
):
    part.register(app)


def main() -> None:
    app()
