"""The end of a process beside threads that are not Python's."""

from __future__ import annotations

import hashlib
import threading
import time

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
