"""Ctrl-C, for real: a process, a signal, and the database that it leaves."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Slate, done, lines

Start = Callable[..., subprocess.Popen[bytes]]
PATIENCE = 120.0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts ``slate`` with these words, and makes sure that it does not outlive the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(*words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "from slate_engine.cli.main import main; main()"]
        store = ["--store", f"file://{tmp_path}/store", "--path", "db"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen([*command, *store, *words], **pipes))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_interrupted_import_keeps_what_it_committed(start: Start, slate: Slate, tmp_path: Path) -> None:
    process = start("import", "-")
    assert process.stdin is not None
    for i in range(2500):
        process.stdin.write(json.dumps({"key": f"k{i:04d}", "value": "v"}).encode() + b"\n")
    process.stdin.flush()  # and the pipe stays open: the command waits for more
    wal = tmp_path / "store" / "db" / "wal"
    wait_until(lambda: wal.exists() and any(file.stat().st_size for file in wal.iterdir()))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors
    told = re.search(rb"([0-9,]+) rows are durable", errors)
    assert told is not None, errors
    rows = lines(slate("--output", "json", "scan"))
    assert len(rows) == int(told[1].replace(b",", b"")) > 0
    assert [row["key"] for row in rows] == [f"k{i:04d}" for i in range(len(rows))], "whole batches, in their order"
    assert "sound" in done(slate("verify")).stdout
    done(slate("put", "--takeover", "after", "it"))


def test_an_interrupted_collector_leaves_the_database_sound(start: Start, filled: Slate) -> None:
    done(filled("import", "--takeover", "-", input='{"key": "a", "value": "b"}'))
    process = start("--output", "json", "gc", "--forever", "--min-age", "0s", "--interval", "1s")
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())  # of its first pass; it goes on
    assert told["size_bytes"] > 0
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors
    assert "sound" in done(filled("verify")).stdout
    assert filled("get", "k0042").stdout == "v42\n"
