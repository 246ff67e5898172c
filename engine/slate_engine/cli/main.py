"""The command ``slate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slate_engine.cli import data, looking
from slate_engine.cli.session import Session, read_env_file

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,  # drawing boxes around the help would take twice as long as all the rest
    pretty_exceptions_enable=False,
    help="""Look into and work on SlateDB databases in object storage.

    A database is named by its store and its path in it:

        slate --store s3://bucket --path orders explain

    Credentials come from the environment, as for each service's own tools (AWS_ACCESS_KEY_ID, GOOGLE_SERVICE_ACCOUNT,
    AZURE_STORAGE_ACCOUNT_KEY, …). Keys and values are given and shown as text, or as 0x with hexadecimal digits.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 corrupt data.""",
)


@app.callback()
def options(
    context: typer.Context,
    store: Annotated[
        str, typer.Option(envvar="SLATE_STORE", help="file:///folder, s3://bucket/prefix, gs://bucket, az://container")
    ] = "",
    path: Annotated[str, typer.Option(envvar="SLATE_PATH", help="The database's path in the store.")] = "",
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="A store option, name=value; may be repeated.")
    ] = None,
    env_file: Annotated[
        Path | None, typer.Option(help="Read environment variables from this file first.", exists=True, dir_okay=False)
    ] = None,
    output: Annotated[str, typer.Option(help="table for people, json for scripts.")] = "table",
) -> None:
    if output not in ("table", "json"):
        raise typer.BadParameter("choose table or json", param_hint="--output")
    if env_file is not None:
        read_env_file(env_file)
    pairs = [text.partition("=") for text in option or []]
    if bad := [name for name, equals, _ in pairs if not equals]:
        raise typer.BadParameter(f"{bad[0]} is not name=value", param_hint="--option")
    context.obj = Session(store, path, {name: value for name, _, value in pairs}, json=output == "json")


data.register(app)
looking.register(app)


def main() -> None:
    app()
