"""The command reference, made from the code: ``python -m slate_engine.cli.reference > docs/reference/cli.md``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from slate_engine.cli.failures import EXIT_CODES
from slate_engine.cli.help import Verbs

HEAD = """\
# The command `slate`

<!-- Made from the code by `make docs`; a test fails when it is stale. -->

`slate [OPTIONS] VERB …`: the options that name the database stand before the verb, or in the environment.

{options}

## Output

Tables are for people, and may change. `--output json` is for scripts: one JSON object or array, or one object a line where
there may be many (`scan`, `gc`); [json.md](json.md) shows each. Names stay and may be joined by new ones. Sizes are bytes
(`…_bytes`), instants are RFC 3339 in UTC (`…_at`), times of rows are milliseconds of the unix epoch as they are stored
(`create_ts`, `expire_ts`). Results go to standard output, and progress, notes and errors to standard error. At a terminal,
progress of long work is shown and long values are cut; elsewhere there are no colours, and no value is cut or broken.

## Keys and values

A key or value that is printable UTF-8 is written as it is. All others are written `0x` with hexadecimal digits, and so are
texts that begin with `0x` themselves: `0x00ff` is two bytes, `0x3078` is the text "0x". What one verb prints, every verb
takes. `get --raw` and `put --file` move the very bytes.

## Spans of time

As in SlateDB's own command: whole numbers with units, added up, such as `7days 30min 10s` or `1h30m`. The units are ns, us,
ms, s, min, h, days, weeks, months (30.44 days) and years (365.25 days), and their longer and shorter forms.

## Exit codes

| code | |
|---|---|
{codes}

## Shell completion

`slate --install-completion` sets it up for the shell that runs it; `slate --show-completion` prints it.
"""


def reference() -> str:
    """The whole page."""
    import typer

    from slate_engine.cli.main import app

    group: Any = typer.main.get_command(app)
    assert isinstance(group, Verbs)
    context = group.make_context("slate", [], resilient_parsing=True)
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    parts = [HEAD.format(options=_options(group), codes=codes)]
    for section, verbs in group.sections(context):
        parts.append(f"## {section}\n")
        for name, command in verbs:
            parts += _verb(f"slate {name}", command)
    return "\n".join(parts).rstrip() + "\n"


def _verb(name: str, command: Any) -> Iterator[str]:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    nested = getattr(command, "commands", {})
    usage = " ".join([name, "[OPTIONS]", *(_argument(each) for each in arguments), *(["VERB"] if nested else [])])
    yield f"### `{usage}`\n"
    yield from _prose(command.help)
    rows = [f"| `{_argument(each).strip('[]')}` | {_cell(each.help)} |" for each in arguments if each.help]
    options = _options(command)
    if rows and not options:
        options = "| option | |\n|---|---|"
    if options:
        head, rule, *others = options.split("\n")
        yield "\n".join([head, rule, *rows, *others]) + "\n"
    for nested_name, inner in nested.items():
        yield from _verb(f"{name} {nested_name}", inner)


def _argument(parameter: Any) -> str:
    text = str(parameter.metavar or parameter.name).strip("[]").upper() if not parameter.metavar else parameter.metavar
    return text if parameter.required or text.startswith("[") else f"[{text}]"


def _prose(help: str | None) -> Iterator[str]:
    """Paragraphs as they are; what must not be wrapped, the examples, as code."""
    for paragraph in inspect.cleandoc(help or "").split("\n\n"):
        if not paragraph.startswith("\b"):
            yield paragraph + "\n"
            continue
        lines = paragraph.removeprefix("\b\n").split("\n")
        code = [line.strip() for line in lines if line.startswith("  ")]
        yield from (line + "\n" for line in lines if not line.startswith("  ") and not line.startswith("Example"))
        if code:
            yield "\n".join(["```sh", *code, "```"]) + "\n"


def _options(command: Any) -> str:
    rows = []
    for parameter in command.params:
        if parameter.param_type_name != "option" or parameter.hidden or "--help" in parameter.opts:
            continue
        names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
        value = "" if parameter.is_flag else f" `{_cell(parameter.metavar or parameter.name.upper())}`"
        rows.append(f"| {names}{value} | {_cell(parameter.help)}{_variable(parameter)}{_default(parameter)} |")
    return "\n".join(["| option | |", "|---|---|", *rows]) if rows else ""


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _variable(parameter: Any) -> str:
    return f" Variable: `{parameter.envvar}`." if parameter.envvar else ""


def _default(parameter: Any) -> str:
    if parameter.required:
        return " Required."
    shown = not parameter.is_flag and parameter.default not in (None, "", [], ())
    return f" Default: `{parameter.default}`." if shown else ""


if __name__ == "__main__":
    sys.stdout.write(reference())
