"""What every verb shares: which database, how to print, how to ask, how to end."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from slate_engine.cli.failures import DEFECT, STOPPED, Misused, Unconfirmed, exit_code
from slate_engine.errors import Error

if TYPE_CHECKING:
    from rich.console import Console

    from slate_engine.lsm.reading import DatabaseFiles
    from slate_engine.lsm.visible import MergeOperator
    from slate_engine.runtime import Runtime
    from slate_engine.store.protocol import ObjectStore

UNWRAPPED = 1_000_000
"""As wide as a line of output that is not for a terminal may be: data is never broken there."""


@dataclass
class Session:
    """The options before the verb, and what was opened for them."""

    store: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # there may be secrets among them
    wal_store: str = ""
    merge_operator: str = ""
    json: bool = False
    _runtime: Runtime | None = None
    _opened: list[ObjectStore] = field(default_factory=list)

    # --- the database --------------------------------------------------------------------------------------------

    @property
    def runtime(self) -> Runtime:
        from slate_engine.runtime import SystemRuntime

        self._runtime = self._runtime or SystemRuntime()
        return self._runtime

    def open(self, url: str = "") -> ObjectStore:
        """The store that the user named, or another one with the same options."""
        from slate_engine.store.open import open_store

        if not (url or self.store):
            raise Misused("which store? Give --store file:///folder (or s3://bucket, …), or set SLATE_STORE")
        opened = open_store(url or self.store, self.options, runtime=self.runtime)
        self._opened.append(opened)
        return opened

    def files(self, path: str | None = None, store: ObjectStore | None = None) -> DatabaseFiles:
        """The database that the user named, or another one."""
        from slate_engine.lsm.reading import DatabaseFiles

        wal_store = self.open(self.wal_store) if self.wal_store else None
        return DatabaseFiles(
            store or self.open(),
            self.path if path is None else path,
            self.runtime,
            operator=_merge_operator(self.merge_operator) if self.merge_operator else None,
            wal_store=wal_store,
        )

    @property
    def name(self) -> str:
        """The database, for people."""
        return f"{self.path.strip('/') or 'the root'} in {self.store}"

    # --- output --------------------------------------------------------------------------------------------------

    @property
    def console(self) -> Console:
        from rich.console import Console

        width = None if sys.stdout.isatty() else UNWRAPPED
        return Console(highlight=False, markup=False, emoji=False, width=width)

    def print(self, facts: Any, human: Callable[[Any], object]) -> None:
        """Print ``facts`` as a line of JSON, or what ``human`` makes of them."""
        if self.json:
            self.write(json.dumps(facts, ensure_ascii=False))
        else:
            self.show(human(facts))

    def show(self, thing: object) -> None:
        """Print a text, which is left as it is, or a table."""
        if isinstance(thing, str):
            self.write(thing)
            return
        console = self.console
        if console.is_terminal:
            console.print(thing)
            return
        # A table pads its last column; whoever reads this with a program does not want that.
        with console.capture() as captured:
            console.print(thing)
        self.write("\n".join(line.rstrip() for line in captured.get().splitlines()))

    def write(self, text: str) -> None:
        """Some whole lines, at once: whoever follows a verb that goes on for ever sees them."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Tell the user something that is not the result."""
        typer.secho(text, err=True, fg="yellow")

    def confirm(self, question: str, *, yes: bool, type_this: str = "") -> None:
        """Go on only if the user agrees, or has said ``--yes``; for what is worst, by typing a word."""
        if yes:
            return
        if not at_a_terminal():
            raise Unconfirmed("this needs a yes, and there is no terminal to ask at; give --yes if it is meant")
        typer.echo(question, err=True)
        # The event loop takes a first Ctrl-C as a wish to stop soon; the question would stand until it is answered.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            if type_this:
                typed = typer.prompt(f"Type {type_this!r} to go on", default="", show_default=False, err=True)
                agreed = typed == type_this
            else:
                agreed = typer.confirm("Go on?", err=True)
        except typer.Abort:
            typer.echo(err=True)
            agreed = False
        finally:
            signal.signal(signal.SIGINT, before)
        if not agreed:
            raise Unconfirmed("nothing was done")

    # --- carrying out --------------------------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, int | None]) -> None:
        """Carry out a verb. Errors of the engine end it with one line and an exit code, not with a trace."""
        import asyncio  # `slate --help` does without it, and is a good part faster

        show_warnings()
        try:
            code = asyncio.run(self._to_the_end(work))
            sys.stdout.flush()
        except Error as error:
            typer.secho(f"slate: {self._message(error)}", err=True, fg="red")
            raise typer.Exit(exit_code(error)) from None
        except BrokenPipeError:
            # The reader of our output (head, less) has seen enough.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            self.note("slate: stopped; what was committed stays")
            raise typer.Exit(STOPPED) from None
        except (typer.Exit, typer.BadParameter):
            raise
        except Exception as defect:
            if os.environ.get("SLATE_TRACE"):
                raise
            what = " ".join(f"{type(defect).__name__}: {defect}".split())
            typer.secho(f"slate: a defect: {what}; SLATE_TRACE=1 shows where, please report it", err=True, fg="red")
            raise typer.Exit(DEFECT) from None
        if code:
            raise typer.Exit(code)

    async def _to_the_end(self, work: Coroutine[Any, Any, int | None]) -> int | None:
        try:
            return await work
        finally:
            for store in self._opened:
                await store.close()

    def _is_about_us(self, error: Error) -> bool:
        """Not about another database, such as the one to clone."""
        return "there is no database" not in error.message or "no manifest under" in error.message

    def _message(self, error: Error) -> str:
        from slate_engine.state.commit import NothingStored
        from slate_engine.store.protocol import NotFound, StoreUnavailable

        if isinstance(error, NothingStored) and self._is_about_us(error):
            path = self.path.strip("/")
            where = f"at {path!r}" if path else "at the root (no --path was given)"
            return f"there is no database {where} in {self.store}; `slate list-databases` shows those that there are"
        message = " ".join(error.message.split())
        if type(error) is NotFound:
            return f"{message}, and the database needs it: try again if it is being changed, or see `slate verify`"
        if isinstance(error, StoreUnavailable):
            return f"{message}; check the store's url, its endpoint and the network, or try again later"
        if "merge operator missing" in message:
            return f"{message}: --merge-operator module:name names it"
        return message


def show_warnings() -> None:
    """What the engine warns of goes to standard error as the command speaks, unless a verb sets up a log of its own."""
    import logging

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(logging.Formatter("slate: %(message)s"))


def at_a_terminal() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty()


def _merge_operator(name: str) -> MergeOperator:
    """The object ``module:name``, or an instance of it if it is a class."""
    from importlib import import_module

    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise Misused(
            f"--merge-operator {name!r} cannot be imported: {error}; write module:name, with the module on PYTHONPATH"
        ) from None
    operator: MergeOperator = found() if isinstance(found, type) else found
    if not callable(getattr(operator, "merge", None)):
        raise Misused(f"--merge-operator {name!r} has no method merge(key, existing_value, operand)")
    return operator


def read_env_file(path: Path) -> None:
    """Set the variables of a ``NAME=value`` file, unless the environment has them already."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        stripped = line.strip().removeprefix("export ")
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.partition("=")
        if not equals:
            # Not the line itself: it may be half of a secret.
            raise typer.BadParameter(f"line {number} of {path} is not NAME=value")
        os.environ.setdefault(name.strip(), value.strip().strip("'\""))
