"""The end of a process beside threads that are not Python's."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from slate_engine.store import native_threads
from slate_engine.store.native_threads import let_threads_end


def test_a_thread_at_work_is_waited_for() -> None:
    """Hashing works without the interpreter, as a library's own thread does."""
    begun, ended = threading.Event(), []

    def work() -> None:
        begun.set()
        hashlib.pbkdf2_hmac("sha256", b"work", b"long", 1_000_000)
        ended.append(time.monotonic())

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    begun.wait(10)
    let_threads_end()
    assert ended, "it returned while the thread ran"
    thread.join()


def test_nobody_at_work_is_not_waited_for_long() -> None:
    sleeper = threading.Event()
    thread = threading.Thread(target=sleeper.wait, daemon=True)
    thread.start()
    looks = native_threads.MOST_LOOKS * native_threads.LOOK_EVERY
    began = time.monotonic()
    let_threads_end()
    assert time.monotonic() - began < looks / 2
    sleeper.set()
    thread.join()


@pytest.mark.parametrize(("state", "at_work"), [("R", True), ("D", True), ("S", False), ("Z", False)])
def test_a_thread_that_waits_for_memory_is_at_work(
    state: str, at_work: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code may have to be read from the disk again where memory is short."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (tokio) R-worker) {state} 1 7 7")
    monkeypatch.setattr(native_threads, "_TASKS", tmp_path)
    assert native_threads._others_run() == at_work


@pytest.mark.parametrize(("name", "looks"), [("tokio-rt-worker", 9), ("python", 5)])
def test_a_starved_thread_of_the_library_is_waited_for_longer(
    name: str, looks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 ({name}) R 1 7 7")
    seen: list[bool] = []
    runs = native_threads._runs

    def noted(task: str, named: str) -> bool:
        seen.append(runs(task, named))
        return seen[-1]

    for constant, value in (("_TASKS", tmp_path), ("LOOK_EVERY", 0), ("MOST_LOOKS", 5), ("LIBRARY_LOOKS", 9)):
        monkeypatch.setattr(native_threads, constant, value)
    monkeypatch.setattr(native_threads, "_runs", noted)
    let_threads_end()
    assert sum(seen) == looks


LATE = """
import atexit
import slate_engine.spark.session
atexit.register(lambda: print("the checkpoints are released"))
from slate_engine.store import native_threads
native_threads.let_threads_end = lambda: print("the library's threads have ended")
from slate_engine.store.open import open_store
open_store("s3://bucket", {"region": "nowhere", "probe": "false"})
"""


def test_exit_handlers_that_talk_to_a_store_run_before_the_wait() -> None:
    """The first store may be opened after such a handler was registered, as a Spark driver does. Nothing else in there may
    import the module before: the driver's session has to."""
    ended = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["the checkpoints are released", "the library's threads have ended"]


def test_a_process_that_never_loads_the_library_does_not_wait() -> None:
    words = LATE.replace('"s3://bucket", {"region": "nowhere", "probe": "false"}', '"memory:///"')
    ended = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=120)
    assert (ended.stdout, ended.stderr) == ("the checkpoints are released\n", "")
