"""The command in this process: a fixture that runs a verb and gives back what it printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from slate_engine.cli.main import app

Slate = Callable[..., Result]
COMMAND = typer.main.get_command(app)


@pytest.fixture(autouse=True)
def built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building the command anew for each run would take longer than most verbs."""
    monkeypatch.setattr("typer.testing._get_command", lambda app: COMMAND)


@pytest.fixture(autouse=True)
def deleting_does_not_wait(no_linger: None) -> None:
    """No process uses what these tests delete."""


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STORE", "PATH", "WAL_STORE", "ENV_FILE", "MERGE_OPERATOR", "OUTPUT"):
        monkeypatch.delenv(f"SLATE_{name}", raising=False)


@pytest.fixture
def slate(tmp_path: Path) -> Slate:
    """``slate("get", "key")`` on the database ``db`` of a store in a temporary folder, or on another ``path``."""

    def run(*words: str, path: str = "db", input: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, ["--store", f"file://{tmp_path}/store", "--path", path, *words], input=input)

    return run


@pytest.fixture
def filled(slate: Slate, tmp_path: Path) -> Slate:
    """The same, with 2,501 rows in it."""
    lines = [json.dumps({"key": f"k{i:04d}", "value": f"v{i}"}) for i in range(2500)]
    (tmp_path / "rows.jsonl").write_text("\n".join([*lines, '{"key": "0xff00", "value": "0x0102"}']))
    done(slate("import", str(tmp_path / "rows.jsonl")))
    return slate


def done(result: Result) -> Result:
    """The result of a verb that has to succeed."""
    assert result.exit_code == 0, result.output
    return result


def facts(result: Result) -> Any:
    """What a verb that has to succeed printed as JSON."""
    return json.loads(done(result).stdout)


def lines(result: Result) -> list[Any]:
    """The same for verbs that print one JSON object a line."""
    return [json.loads(line) for line in done(result).stdout.splitlines()]
