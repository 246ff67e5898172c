"""``logs``: what all pods of a database say, line by line as it comes, each with the role of who said it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import typer

from slate_operator.names import LABEL_DATABASE, LABEL_ROLE, Role
from slate_operator.plugin.kubectl import Failed, Kubectl
from slate_operator.plugin.pod import Pod
from slate_operator.plugin.session import Database, session

LOOK_EVERY_SECONDS = 2.0
"""How soon a pod that was started meanwhile is heard."""

_COLOURS = {Role.WRITER: "green", Role.READER: "cyan", Role.COMPACTOR: "magenta", Role.GC: "yellow"}
_LEVELS = {"warning": "yellow", "error": "red", "critical": "red"}


def logs(
    context: typer.Context,
    name: Database,
    role: Annotated[str, typer.Option(metavar="ROLE", help=f"Only pods of this role: {', '.join(Role.ALL)}.")] = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on, also with pods that are started later.")
    ] = False,
    tail: Annotated[int, typer.Option(min=-1, metavar="LINES", help="Of each pod; -1 for all.")] = 20,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Of the containers that ran before, for instance before a crash.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Lines as they were written, without a prefix.")] = False,
) -> None:
    """Show what the pods of a database say, each line with its role.

    \b
      kubectl slate logs orders
      kubectl slate logs orders -f --role writer
      kubectl slate logs orders --previous --role compactor
    """
    here = session(context)
    if role and role not in Role.ALL:
        raise typer.BadParameter(f"choose one of {', '.join(Role.ALL)}", param_hint="--role")
    selector = f"{LABEL_DATABASE}={name}" + (f",{LABEL_ROLE}={role}" if role else "")

    def pods() -> list[Pod]:
        return sorted(
            map(Pod.of, here.kubectl.items("pods", "--selector", selector)), key=lambda pod: (pod.role, pod.name)
        )

    if not (found := pods()):
        raise Failed(f"there are no pods of {name}; see `kubectl slate why {name}`", 3)
    options = [f"--tail={tail}", *(["--previous"] if previous else [])]
    show = (lambda pod, line: typer.echo(line)) if raw else _show
    if not follow:
        for pod in found:
            _once(here.kubectl, pod, options, show)
        return
    listeners = Listeners(here.kubectl, options, show)
    try:
        while True:
            listeners.hear(found)
            threading.Event().wait(LOOK_EVERY_SECONDS)
            found = pods()
    except KeyboardInterrupt:
        return
    finally:
        listeners.end()


def pretty(line: str) -> tuple[str, str]:
    """A line of our processes, which write JSON, for people; and its level. Others stay as they are."""
    try:
        said = json.loads(line)
        at, level, message = str(said.pop("time")), str(said.pop("level")), str(said.pop("message"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return line, ""
    said.pop("logger", None)
    trace = said.pop("trace", None)
    rest = "".join(f" {key}={value}" for key, value in said.items())
    return f"{at} {level:7} {message}{rest}" + (f"\n{trace}" if trace else ""), level


Show = Callable[[Pod, str], None]


@dataclass
class Listeners:
    """One kubectl for each pod that is there. Lines of several pods never mix within a line."""

    kubectl: Kubectl
    options: list[str]
    show: Show
    _heard: dict[tuple[str, int], subprocess.Popen[str]] = field(default_factory=dict)
    _speaking: threading.Lock = field(default_factory=threading.Lock)

    def hear(self, pods: list[Pod]) -> None:
        """Listen to those that nobody listens to yet, and again to those whose container has begun anew."""
        for pod in pods:
            if pod.phase == "Pending" or (pod.name, pod.restarts) in self._heard:
                continue
            again = any(name == pod.name for name, _ in self._heard)
            words = ["--tail=-1"] if again else self.options
            process = self.kubectl.start("logs", pod.name, "--all-containers", "--follow", *words)
            self._heard[pod.name, pod.restarts] = process
            threading.Thread(target=self._listen, args=(pod, process), daemon=True).start()

    def end(self) -> None:
        for process in self._heard.values():
            process.terminate()
        for process in self._heard.values():
            process.wait()

    def _listen(self, pod: Pod, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self._speaking:
                self.show(pod, line.rstrip("\n"))


def _once(kubectl: Kubectl, pod: Pod, options: list[str], show: Show) -> None:
    try:
        text = kubectl.run("logs", pod.name, "--all-containers", *options)
    except Failed as failure:  # one that has not begun yet says nothing, and the others still do
        typer.echo(f"{pod.name}: {failure}", err=True)
        return
    for line in text.splitlines():
        show(pod, line)


def _show(pod: Pod, line: str) -> None:
    text, level = pretty(line)
    prefix = f"{pod.role}/{pod.short}"
    if sys.stdout.isatty():
        prefix = typer.style(prefix, fg=_COLOURS.get(pod.role))
        text = typer.style(text, fg=_LEVELS[level]) if level in _LEVELS else text
    typer.echo(f"{prefix} {text}")
