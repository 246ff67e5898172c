"""What every verb has in hand: kubectl, the time, a terminal, and the form of the answer."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slate_operator.clock import SystemClock
from slate_operator.plugin.kubectl import Kubectl

if TYPE_CHECKING:
    from rich.console import Console

Output = Annotated[
    str, typer.Option("--output", "-o", metavar="tree|json", help="tree (or table) for people, json for scripts.")
]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look into all namespaces.")]
Database = Annotated[str, typer.Argument(metavar="DATABASE", help="The SlateDatabase's name.")]
Timeout = Annotated[int, typer.Option(metavar="SECONDS", min=0, help="How long to wait; 0 does not wait.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Make nothing, but print what would be made, for instance for Git.")
]


UNBROKEN = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    kubectl: Kubectl
    clock: SystemClock = field(default_factory=SystemClock)

    @property
    def console(self) -> Console:
        """Lines are as wide as the terminal; elsewhere they are never broken, for somebody searches in them."""
        from rich.console import Console

        return Console(highlight=False, width=None if sys.stdout.isatty() else UNBROKEN)

    def json(self, facts: Any) -> None:
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))

    def note(self, text: str) -> None:
        """What is told on the way, beside the answer."""
        typer.echo(text, err=True)


def session(context: typer.Context) -> Session:
    found = context.obj
    assert isinstance(found, Session)
    return found


def wants_json(output: str) -> bool:
    if output not in ("tree", "table", "json"):
        raise typer.BadParameter("choose tree or json", param_hint="--output")
    return output == "json"
