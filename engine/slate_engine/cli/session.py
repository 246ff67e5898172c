"""What every command shares: which database, how to print, how to fail."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from slate_engine.errors import DataError, Error, InvalidError

if TYPE_CHECKING:
    from rich.console import Console

    from slate_engine.lsm.reading import DatabaseFiles

FAILED, NOT_FOUND, CORRUPT = 1, 3, 4
"""Exit codes beside 0 (done) and 2 (wrong usage)."""


@dataclass
class Session:
    """The options before the command's name."""

    store: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)
    json: bool = False

    def files(self, **settings: Any) -> DatabaseFiles:
        """The database that the user named."""
        from slate_engine.lsm.reading import DatabaseFiles
        from slate_engine.runtime import SystemRuntime
        from slate_engine.store.open import open_store

        if not self.store:
            raise InvalidError("which store? Give --store file:///folder (or s3://bucket, …), or set SLATE_STORE")
        runtime = SystemRuntime()
        return DatabaseFiles(open_store(self.store, self.options, runtime=runtime), self.path, runtime, **settings)

    @property
    def console(self) -> Console:
        from rich.console import Console

        return Console(highlight=False)

    @property
    def progress(self) -> Console:
        """Where progress is shown: never among the output."""
        from rich.console import Console

        return Console(stderr=True, highlight=False)

    def print(self, facts: Any, human: Callable[[Any], object]) -> None:
        """Print ``facts`` as JSON, or what ``human`` makes of them."""
        if self.json:
            sys.stdout.write(json.dumps(facts, ensure_ascii=False) + "\n")
        else:
            self.console.print(human(facts))


def run(work: Coroutine[Any, Any, int | None]) -> None:
    """Carry out a command. Errors of the engine end it with a message and an exit code, not with a trace."""
    import asyncio  # `slate --help` does without it, and is a good part faster

    try:
        code = asyncio.run(work)
    except DataError as error:
        _fail(error, CORRUPT)
    except Error as error:
        _fail(error, FAILED)
    except BrokenPipeError:
        # The reader of our output (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        typer.secho("stopped; what was committed stays", err=True, fg="yellow")
        raise typer.Exit(130) from None
    if code:
        raise typer.Exit(code)


def _fail(error: Error, code: int) -> None:
    typer.secho(f"slate: {error.message}", err=True, fg="red")
    raise typer.Exit(code) from None


def read_env_file(path: Path) -> None:
    """Set the variables of a ``NAME=value`` file, unless the environment has them already."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        stripped = line.strip().removeprefix("export ")
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.partition("=")
        if not equals:
            raise typer.BadParameter(f"line {number} of {path} is not NAME=value")
        os.environ.setdefault(name.strip(), value.strip().strip("'\""))
