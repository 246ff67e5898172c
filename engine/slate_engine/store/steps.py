"""An upload that is written step by step, in threads, and may be given up at any moment.

Cancelling ends the wait for a step, not the step: its thread goes on. If the file were closed meanwhile, the thread would
write to a descriptor that is closed, or by then another file's. So steps and the end take turns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import TypeVar

T = TypeVar("T")


class Steps:
    """The steps of one upload. All of it may wait for a step, so it runs in threads and never on the event loop.

    ``close`` lets go of what the steps work on. A step that is being done holds on to it, so that it is not collected as
    garbage either, should nobody come to call :meth:`end`.
    """

    def __init__(self, close: Callable[[], object]) -> None:
        self._close = close
        self._turn = threading.Lock()
        self._ended = False

    def take(self, work: Callable[[], T]) -> T:
        """Do the next step, unless the end has come before it: then nobody waits for it any more."""
        with self._turn:
            if self._ended:
                raise CancelledError
            return work()

    def end(self) -> None:
        """Close, after the step that is being done."""
        with self._turn:
            self._ended = True
            self._close()
