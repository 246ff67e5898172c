"""The last word of a job, as its pod's termination message: always one document, always short, never a secret."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slate_engine.errors import InvalidError
from slate_engine.spark.jobs import running
from slate_engine.spark.jobs.report import MOST_BYTES, fitted
from slate_engine.spark.jobs.running import Job
from slate_engine.spark.jobs.settings import Setting, Settings
from slate_engine.spark.jobs.summary import Outcome

Work = Callable[[Any, Settings], Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """What a job that does ``work`` reports. Nothing of it needs Spark, which is left out."""
    monkeypatch.setenv("SLATE_REPORT", str(tmp_path / "log"))
    monkeypatch.setattr(running, "_session", lambda *_: None)
    known = (Setting("to", "where"), Setting("option", "", many=True))

    def run(work: Work, *arguments: str) -> dict[str, Any]:
        (tmp_path / "log").write_text("x" * 9999)
        kept = (tmp_path / "log").stat().st_ino
        Job("slate_engine.spark.trial", "", known, work).main(arguments)
        assert (tmp_path / "log").stat().st_ino == kept, "it was written in place"
        written = (tmp_path / "log").read_bytes()
        assert len(written) <= MOST_BYTES
        found: dict[str, Any] = json.loads(written)
        return found

    return run


def raising(error: Exception) -> Work:
    def work(_: Any, settings: Settings) -> Outcome:
        raise error

    return work


def test_success_is_the_summary(run: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    found = run(lambda *_: Outcome(3, 40, {"get": 2}, facts={"to": "s3://lake"}), "--json")
    assert found == json.loads(capsys.readouterr().out)
    assert (found["job"], found["rows"], found["to"]) == ("trial", 3, "s3://lake")


def test_failure_in_our_own_words_or_by_the_first_line(run: Callable[..., dict[str, Any]]) -> None:
    found = run(raising(InvalidError("the key is wrong: turn it round")))
    assert found == {"job": "trial", "error": "the key is wrong: turn it round"}
    assert run(raising(ValueError("\nthis\nand that")))["error"] == "ValueError: this"
    thrown = "It was calling o7.save.\n: a.Wrapper: boxed\n\tat x\nCaused by: a.NoSuchMethodError: f()\n\tat y\n"
    assert run(raising(RuntimeError(thrown)))["error"] == "RuntimeError: a.NoSuchMethodError: f()"
    assert "--colour" in run(raising(ValueError("never")), "--colour", "red")["error"]


def test_an_error_of_any_length_fits(run: Callable[..., dict[str, Any]]) -> None:
    for letter in ("x", "é", '"', "\n", "\ud800"):
        found = run(raising(InvalidError("begin " + letter * 50_000)))
        assert found["error"].startswith("begin ")
        assert found["error"].endswith("…")
        assert len(found["error"]) > 600
    assert len(fitted({"job": "j", "to": "t" * 9000, "error": "e" * 3000})) <= MOST_BYTES


def test_no_secret_that_the_job_was_told(
    run: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLATE_SINK_AWS_SECRET_ACCESS_KEY", "hush-sink")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "hush-token")
    monkeypatch.setenv("SLATE_STORE__OPTIONS__CAS", "mysql://u:hush@db/x")
    error = InvalidError("hush-sink, hush-token and mysql://u:hush@db/x and hush-option, in eu")
    arguments = ("--option", "secret_access_key=hush-option", "--option", "region=eu-1")
    found = run(raising(error), *arguments)
    assert found["error"] == "***, *** and *** and ***, in eu"
    assert "hush" not in capsys.readouterr().err


def test_no_secret_that_can_be_told_to_be_one(run: Callable[..., dict[str, Any]]) -> None:
    """A library seldom repeats an option as it was given, and may know secrets that no option of ours is for."""
    error = InvalidError("cannot connect to mysql://u:hush@db:3306/x with password='hush'; host hushed is away")
    found = run(raising(error), "--option", "cas=mysql://u:hush@db/x", "--option", "fsspec.host=hushed")
    assert found["error"] == "cannot connect to mysql://***@db:3306/x with password='***'; host *** is away"


def test_no_secret_in_the_trace_of_a_defect_or_in_the_log(
    run: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    def work(_: Any, settings: Settings) -> Outcome:
        logging.getLogger("slate_engine").warning("refused: %s", "hush-option")
        raise ValueError("hush-option is wrong")

    run(work, "--option", "secret_access_key=hush-option")
    said = capsys.readouterr().err
    assert "refused: ***" in said
    assert 'in work\n    raise ValueError("*** is wrong")' in said
    assert "hush" not in said


def test_a_report_that_cannot_be_written_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(running, "_session", lambda *_: None)
    job = Job("slate_engine.spark.trial", "", (), lambda *_: Outcome(1, 1, {}))
    monkeypatch.setenv("SLATE_REPORT", str(tmp_path / "no" / "folder"))
    assert job.main([]) == 0
    assert "the report could not be written" in caplog.text
