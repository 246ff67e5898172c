"""Ctrl-C at any request of any verb: the database is sound afterwards, and the same command, given again, succeeds.

The signal is real, and comes from inside the store at the moment of a request; the command handles it as it would one from
the keyboard.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from slate_engine.store.files import FileStore
from tests.unit.cli.conftest import Slate, done

Interrupt = Callable[[int], None]

VERBS = {
    "put": (["put", "--takeover", "k", "new"], "db"),
    "export": (["export", "--overwrite", "out.jsonl"], "db"),
    "create-checkpoint": (["create-checkpoint", "--id", "5c7c1c6e-6a2e-4f0e-9a55-2f6d0a3b7c11"], "db"),
    "create-clone": (["create-clone", "--from", "db@then"], "clone"),
    "copy": (["copy", "copied"], "db"),
    "restore": (["restore", "then", "--yes"], "db"),
    "destroy": (["destroy", "--yes"], "db"),
    "undelete": (["undelete"], "gone"),
    "destroy --hard": (["destroy", "--hard", "--yes"], "doomed"),
    "gc": (["gc", "--min-age", "0s", "--grace", "0s", "--all"], ""),
    "compact": (["compact", "--force"], "db"),
}

ENDED = {"destroy --hard": 3, "copy": 1}
"""How a verb that is not repeatable says that there is nothing left to do."""


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """``interrupt(n)`` has the n-th request from now on sent together with a Ctrl-C; 0 is for none."""
    honest = FileStore._run
    left = 0

    async def run(store: FileStore, *given: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            signal.raise_signal(signal.SIGINT)
        return await honest(store, *given)

    monkeypatch.setattr(FileStore, "_run", run)

    def arm(n: int) -> None:
        nonlocal left
        left = n

    return arm


@pytest.fixture
def prepared(slate: Slate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Slate]:
    """Four databases as they were, before each attempt: one that lives, a destroyed one, one to be deleted, a neighbour."""
    monkeypatch.chdir(tmp_path)
    done(slate("import", "-", input='{"key": "k", "value": "old"}'))
    done(slate("import", "--takeover", "-", input='{"key": "other", "value": "row"}'))
    done(slate("create-checkpoint", "-n", "then"))
    done(slate("put", "--takeover", "k", "newer"))
    for path in ("gone", "doomed"):
        done(slate("copy", path))
    done(slate("destroy", "--yes", path="gone"))
    (tmp_path / "store").rename(tmp_path / "as-it-was")

    def again() -> Slate:
        shutil.rmtree(tmp_path / "store", ignore_errors=True)
        shutil.copytree(tmp_path / "as-it-was", tmp_path / "store")
        return slate

    return again


def check_sound(slate: Slate) -> None:
    """Every database that is there can be verified, and the rows of the one that lives are there."""
    assert "sound" in done(slate("verify")).stdout
    assert slate("get", "other", "-c", "then").stdout == "row\n"


def attempt(name: str, slate: Slate) -> Result:
    words, path = VERBS[name]
    return slate(*words, path=path)


def interrupted_everywhere(name: str, prepared: Callable[[], Slate], interrupt: Interrupt, step: int) -> int:
    """Interrupt the verb at each ``step``-th request until it gets through; at how many requests that was."""
    for n in range(1, 1000, step):
        slate = prepared()
        interrupt(n)
        first = attempt(name, slate)
        interrupt(0)
        assert first.exit_code in (0, 130), (n, first.output)
        assert "defect" not in first.output, n
        check_sound(slate)
        if first.exit_code == 0:
            return n
        second = attempt(name, slate)
        if second.exit_code != 0:
            # It was stopped at its very end: what is deleted for good, or copied whole, is not so twice.
            assert ENDED.get(name) == second.exit_code, (n, second.output)
            assert name != "copy" or "sound" in done(slate("verify", path="copied")).stdout
        check_sound(slate)
    raise AssertionError("it never gets through")


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_that_was_stopped_can_be_given_again(
    name: str, prepared: Callable[[], Slate], interrupt: Interrupt
) -> None:
    assert interrupted_everywhere(name, prepared, interrupt, step=13) > 1


@pytest.mark.long
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_that_was_stopped_at_any_request_can_be_given_again(
    name: str, prepared: Callable[[], Slate], interrupt: Interrupt
) -> None:
    assert interrupted_everywhere(name, prepared, interrupt, step=1) > 1
