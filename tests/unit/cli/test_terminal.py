"""What a user sees at a terminal of a hundred columns: tables that fit, progress beside the output, values cut."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slate_engine.cli.main import app
from tests.unit.cli.conftest import Slate, done

WIDTH = 100
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
Screen = Callable[..., tuple[str, str]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Runs a verb at a terminal; what it wrote to its output and to its errors, colours and all."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def run(*words: str, path: str = "db") -> tuple[str, str]:
        output, errors = Terminal(), Terminal()
        with monkeypatch.context() as here:
            here.setattr(sys, "stdout", output)
            here.setattr(sys, "stderr", errors)
            app(["--store", f"file://{tmp_path}/store", "--path", path, *words], standalone_mode=False)
        return output.getvalue(), errors.getvalue()

    return run


@pytest.fixture
def busy(filled: Slate) -> Slate:
    """A database with checkpoints, a clone, a long name and a long value."""
    done(
        filled(
            "create-checkpoint", "-n", "before the migration of all customers to the new pricing model", "-l", "7days"
        )
    )
    done(filled("create-checkpoint", "-l", "30days"))
    done(filled("put", "--takeover", "long", "value " * 100))
    done(filled("create-clone", "--from", "db", path="clone"))
    return filled


@pytest.mark.parametrize(
    "words",
    ["status", "explain", "list-checkpoints", "list-databases", "list-manifests", "gc --dry-run --min-age 0s", "scan"],
)
def test_no_line_is_wider_than_the_terminal(busy: Slate, screen: Screen, words: str) -> None:
    output, _ = screen(*words.split())
    assert "\x1b[1m" in output, "headings are bold"
    plain = ESCAPES.sub("", output)
    assert max(len(line) for line in plain.splitlines()) <= WIDTH
    for id in re.findall(r"[0-9a-f]{8}-[0-9a-f]{4}\S*", plain) if words == "list-checkpoints" else []:
        assert len(id) == 36, "an id is there to be copied, and is never broken"


def test_progress_goes_to_the_errors_of_a_terminal_and_nowhere_else(busy: Slate, screen: Screen) -> None:
    output, errors = screen("verify")
    assert "verifying" in errors
    assert "verifying" not in output
    elsewhere = done(busy("verify"))
    assert "verifying" not in elsewhere.output
    assert "\x1b" not in elsewhere.output


def test_a_value_is_cut_at_a_terminal_only(busy: Slate, screen: Screen) -> None:
    assert "… (600 B)" in screen("scan", "--prefix", "long")[0]
    assert "value " * 99 in busy("scan", "--prefix", "long").stdout
