"""The command explains itself: help, reference, completion."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from slate_engine.cli.failures import EXIT_CODES
from slate_engine.cli.help import SECTIONS
from slate_engine.cli.main import app
from slate_engine.cli.reference import reference

ROOT = Path(__file__).parents[3]
GROUP: Any = typer.main.get_command(app)
VERBS = [name for name, command in GROUP.commands.items() if not hasattr(command, "commands")]

ASKED_FOR = {
    *("create-checkpoint", "refresh-checkpoint", "delete-checkpoint", "list-checkpoints"),
    *("read-manifest", "list-manifests", "read-compactions", "status", "explain", "verify", "gc"),
    *("create-clone", "copy", "restore", "destroy", "undelete"),
    *("get", "put", "delete", "scan", "import", "export"),
}


def test_the_help_lists_every_verb_by_section_and_the_exit_codes() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert set(VERBS) >= ASKED_FOR
    for verb in VERBS:
        assert f"  {verb} " in shown
    for section in SECTIONS:
        assert f"{section}:" in shown
    for code, meaning in EXIT_CODES.items():
        assert f"{code:<4}{meaning}" in shown


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_each_verb_has_an_example(verb: str) -> None:
    shown = CliRunner().invoke(app, [verb, "--help"]).stdout
    assert "Example" in shown
    assert any(line.strip().startswith("slate --store") or "| slate --store" in line for line in shown.splitlines())


def test_the_reference_is_made_from_this_code() -> None:
    page = ROOT / "docs" / "reference" / "cli.md"
    assert page.read_text() == reference(), "it is stale: make docs"


def test_help_needs_nothing_of_the_engine() -> None:
    """What makes the help quick: no numerics, no event loop, no tables are imported for it."""
    heavy = (
        "numpy",
        "numba",
        "pyarrow",
        "asyncio",
        "rich.table",
        "rich.console",
        "slate_engine.lsm",
        "slate_engine.state",
    )
    program = (
        "import sys\nsys.argv = ['slate', '--help']\nfrom slate_engine.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"sys.stderr.write(' '.join(name for name in {heavy!r} if name in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("slate list-", {"list-databases", "list-manifests", "list-checkpoints"}),
        ("slate gc --only com", {"compacted", "compactions"}),
        ("slate --output ", {"table", "json"}),
    ],
)
def test_a_shell_can_complete(typed: str, offered: set[str]) -> None:
    asked = {"_SLATE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    result = CliRunner().invoke(app, [], prog_name="slate", env=asked)
    assert set(result.stdout.split()) == offered


def test_it_knows_its_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.startswith("slate 0.")
