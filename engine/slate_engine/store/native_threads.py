"""The threads that a storage library runs beside Python's, at the end of the process.

Such a thread answers a call of ours and lets go of Python's objects a moment later, for which it needs the interpreter. A
process that ends within that moment would be aborted by it, its work long done.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

LOOK_EVERY = 0.01
"""Longer than the interpreter takes to hand itself from one thread to another that waits for it."""
CALM_LOOKS = 5
"""A thread between two waits may look as if it slept; hardly so many times in a row."""
MOST_LOOKS = 500

_TASKS = Path("/proc/self/task")


def let_threads_end() -> None:
    """Return when no other thread has been at work for a while: whoever wanted the interpreter has had it, because we were
    asleep. How long that takes depends on how busy the machine is, so no fixed time would do."""
    asleep, calm = threading.Event(), 0
    for _ in range(MOST_LOOKS):
        asleep.wait(LOOK_EVERY)
        calm = 0 if _others_run() else calm + 1
        if calm == CALM_LOOKS:
            return


def _others_run() -> bool:
    """Whether another thread of this process runs or waits for a processor. Unknown, where the system does not tell."""
    own = str(threading.get_native_id())
    with contextlib.suppress(OSError):
        return any(_runs(task) for task in os.listdir(_TASKS) if task != own)
    return False


def _runs(task: str) -> bool:
    with contextlib.suppress(OSError):
        # The name stands in parentheses and may contain any; the state follows the last one.
        return (_TASKS / task / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    return False  # it has ended
