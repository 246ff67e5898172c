"""The reference of ``kubectl slate``, made from the code:
``python -m slate_operator.plugin.reference > docs/reference/kubectl-slate.md``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

HEAD = """\
# The command `kubectl slate`

<!-- Made from the code by `make docs`; a test fails when it is stale. -->

`kubectl slate VERB …` works on databases as they are seen by Kubernetes; [`slate`](cli.md) works on their bytes. It asks
`kubectl`, so it sees what you may see, and every flag of kubectl that chooses a cluster, a namespace or a user may stand
anywhere: `-n`, `--context`, `--kubeconfig`, `--as`, `--request-timeout` …

`-o json` is for scripts: names stay, and may be joined by new ones. Exit codes: 0 done, 1 it cannot be done as things are, 2
wrong usage, 3 there is no such object, 127 there is no kubectl; `connect` ends with the code of redis-cli.
"""


def reference() -> str:
    """The whole page."""
    import typer

    from slate_operator.plugin.main import app

    group: Any = typer.main.get_command(app)
    parts = [HEAD]
    for name, command in group.commands.items():
        parts += _verb(name, command)
    return "\n".join(parts).rstrip() + "\n"


def _verb(name: str, command: Any) -> Iterator[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    words = " ".join(each.metavar if each.required else f"[{each.metavar}]" for each in arguments)
    yield f"## `kubectl slate {name} {words}`\n".replace(" `\n", "`\n")
    for paragraph in inspect.cleandoc(command.help).split("\n\n"):
        if paragraph.startswith("\b"):
            lines = (line.strip() for line in paragraph.removeprefix("\b\n").split("\n"))
            yield "\n".join(["```console", *(f"$ {line}" for line in lines), "```"]) + "\n"
        else:
            yield paragraph + "\n"
    rows = [(f"`{each.metavar}`", each.help) for each in arguments]
    for each in command.params:
        if each.param_type_name == "option" and "--help" not in each.opts:
            value = "" if each.is_flag else f" `{each.metavar}`"
            default = f" Default: `{each.default}`." if not each.is_flag and each.default else ""
            rows.append((", ".join(f"`{opt}`" for opt in each.opts) + value, f"{each.help}{default}"))
    yield "\n".join(["| | |", "|---|---|", *(f"| {_cell(left)} | {_cell(right)} |" for left, right in rows)]) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(reference())
