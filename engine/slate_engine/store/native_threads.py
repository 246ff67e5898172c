"""The threads that a storage library runs beside Python's, at the end of the process.

Such a thread answers a call of ours and releases Python's objects a moment later, for which it needs the interpreter. If the
process ends within that moment, the thread aborts it (exit code 134), although the work is done.

Python calls exit handlers in the reverse order of their registration. So this module registers its handler at import, and
not when the first store loads the library: it runs after every handler that is registered later.
:mod:`slate_engine.store.open` imports this module. What registers a handler that talks to a store, and imports that module
later, imports this one first.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from pathlib import Path

LOOK_EVERY = 0.01
"""Longer than the interpreter takes to hand itself from one thread to another that waits for it."""
CALM_LOOKS = 5
"""A thread between two waits may look as if it slept; hardly so many times in a row."""
MOST_LOOKS = 500
LIBRARY_LOOKS = 3000
"""The library's own threads are waited for longer, because the machine may be overloaded. Other threads may compute
forever, and they abort nothing."""

_TASKS = Path("/proc/self/task")
_LIBRARY = "obstore"
_RUNTIME = "(tokio"
"""How the names of the library's threads begin, as the system shows them."""


def _end() -> None:
    if _LIBRARY in sys.modules:
        let_threads_end()


atexit.register(_end)


def let_threads_end() -> None:
    """Return when no other thread has been at work for a while: whoever wanted the interpreter has had it, because we were
    asleep. How long that takes depends on how busy the machine is, so no fixed time would do."""
    asleep, calm = threading.Event(), 0
    for look in range(LIBRARY_LOOKS):
        asleep.wait(LOOK_EVERY)
        calm = 0 if _others_run("" if look < MOST_LOOKS else _RUNTIME) else calm + 1
        if calm == CALM_LOOKS:
            return


def _others_run(named: str = "") -> bool:
    """Whether another thread of this process, with this in its name, runs, or waits for a processor or for a page of its
    memory. Unknown, where the system does not tell."""
    own = str(threading.get_native_id())
    with contextlib.suppress(OSError):
        return any(_runs(task, named) for task in os.listdir(_TASKS) if task != own)
    return False


def _runs(task: str, named: str) -> bool:
    with contextlib.suppress(OSError):
        # The name stands in parentheses and may contain any; the state follows the last one.
        name, _, rest = (_TASKS / task / "stat").read_text().rpartition(")")
        return named in name and rest.split()[0] in ("R", "D")
    return False  # it has ended
