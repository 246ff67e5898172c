"""A database of which WAL files are missing: each verb says so, and none takes what is left for the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from slate_engine.cli import session as sessions
from tests.unit.cli.conftest import Slate, done, facts

ELSEWHERE = "probably in another store"


@pytest.fixture
def without_wal(slate: Slate, tmp_path: Path) -> Slate:
    """Three rows, two of which are in the WAL only, and the WAL is in another store."""
    (tmp_path / "rows.jsonl").write_text('{"key": "a", "value": "1"}')
    done(slate("import", str(tmp_path / "rows.jsonl")))
    done(slate("put", "b", "2", "--takeover"))
    done(slate("put", "c", "3", "--takeover"))
    done(slate("create-checkpoint", "--name", "kept"))
    (tmp_path / "log" / "db").mkdir(parents=True)
    (tmp_path / "store" / "db" / "wal").rename(tmp_path / "log" / "db" / "wal")
    return slate


@pytest.mark.parametrize(
    "words",
    [
        ("get", "a"),
        ("get", "b"),
        ("get", "b", "-c", "kept"),
        ("scan",),
        ("put", "d", "4", "--takeover"),
        ("create-checkpoint",),
        ("create-checkpoint", "--with-log"),
        ("create-clone", "--from", "db"),
        ("verify",),
    ],
    ids=" ".join,
)
def test_verbs_fail_and_name_the_cause(without_wal: Slate, tmp_path: Path, words: tuple[str, ...]) -> None:
    path = "clone" if words[0] == "create-clone" else "db"
    before = sorted(tmp_path.rglob("*"))
    result = without_wal(*words, path=path)
    assert result.exit_code == 4, result.output
    assert ELSEWHERE in result.output
    assert "--wal-store" in result.output
    assert sorted(tmp_path.rglob("*")) == before


def test_status_says_so(without_wal: Slate, tmp_path: Path) -> None:
    told = done(without_wal("status")).stdout
    assert ELSEWHERE in told
    assert "nothing to replay" not in told
    assert ELSEWHERE in facts(without_wal("--output", "json", "status"))["wal"]["trouble"]
    whole = ("--wal-store", f"file://{tmp_path}/log")
    assert facts(without_wal(*whole, "--output", "json", "status"))["wal"]["trouble"] is None
    assert without_wal(*whole, "get", "c").stdout == "3\n"
    done(without_wal(*whole, "verify"))


def test_one_file_that_is_lost_is_named(without_wal: Slate, tmp_path: Path) -> None:
    (tmp_path / "log" / "db" / "wal").rename(tmp_path / "store" / "db" / "wal")
    first = facts(without_wal("--output", "json", "status"))["wal"]["replay_after_wal_id"] + 1
    (tmp_path / "store" / "db" / "wal" / f"{first:020d}.sst").unlink()
    for words in (("get", "a"), ("put", "d", "4", "--takeover"), ("verify",)):
        result = without_wal(*words)
        assert result.exit_code == 4, result.output
        assert f"{first:020d}.sst" in result.output
    assert f"wal file {first}" in done(without_wal("status")).stdout


def test_destroying_without_the_wal_store_is_warned_of(
    without_wal: Slate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "at_a_terminal", lambda: True)
    whole = ("--wal-store", f"file://{tmp_path}/log")
    (kept,) = facts(without_wal(*whole, "--output", "json", "list-checkpoints"))
    done(without_wal(*whole, "delete-checkpoint", "--id", kept["id"]))
    for words, warned in (((), True), (whole, False)):
        asked = without_wal(*words, "destroy", "--hard", input="no\n")
        assert ("No WAL file is in this store" in asked.stderr) == warned, asked.output
    done(without_wal(*whole, "destroy", "--hard", "--yes"))
    assert [path for path in (tmp_path / "log").rglob("*") if path.is_file()] == []


def test_status_does_not_call_a_log_empty_that_it_does_not_see(slate: Slate, tmp_path: Path) -> None:
    """The manifest of a database that was never flushed needs no WAL file."""
    (tmp_path / "rows.jsonl").write_text('{"key": "a", "value": "1"}')
    done(slate("import", str(tmp_path / "rows.jsonl")))
    assert facts(slate("--output", "json", "status"))["wal"]["stored_files"] > 0
    (tmp_path / "store" / "db" / "wal").rename(tmp_path / "wal")
    found = facts(slate("--output", "json", "status"))["wal"]
    assert (found["files"], found["stored_files"], found["trouble"]) == (0, 0, None)
    assert "no WAL file in this store; if the WAL is in another one, give --wal-store" in done(slate("status")).stdout
