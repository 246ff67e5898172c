"""Outlasting a store that does not answer.

What a writer has taken is in memory only until the store has it, so giving up would lose it. Whoever stores it tries until
it is stored, and says meanwhile what the trouble is.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from slate_engine.errors import UnavailableError
from slate_engine.runtime import Runtime
from slate_engine.state.commit import Contended
from slate_engine.store.protocol import StoreUnavailable

T = TypeVar("T")

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
"""Between attempts, in seconds."""


class Outage:
    """Whether ``what`` is held up at the moment: ``trouble`` is why, or None."""

    def __init__(self, runtime: Runtime, what: str) -> None:
        self._runtime = runtime
        self._what = what
        self.trouble: UnavailableError | None = None

    async def outlast(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What ``attempt`` gives, once the store answers and others let us through. Errors of other kinds are its own."""
        pause = FIRST_PAUSE
        while True:
            try:
                result = await attempt()
                self.trouble = None
                return result
            except (StoreUnavailable, Contended) as trouble:
                if self.trouble is None:
                    log.warning("%s is held up, trying again: %s", self._what, trouble)
                self.trouble = trouble
            await self._runtime.sleep(self._runtime.uniform(pause / 2, pause))
            pause = min(2 * pause, LONGEST_PAUSE)
