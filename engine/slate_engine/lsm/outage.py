"""Outlasting a store that does not answer.

What a writer has taken is in memory only until the store has it, so giving up would lose it. Whoever stores it tries until
it is stored, and says meanwhile what the trouble is.

A store that refuses a writer which it has let in before is one of these troubles: credentials run out, and are renewed; a
policy is changed, and changed back. That is waited for, but not for ever, as nobody may come to mend it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from slate_engine.errors import Error, UnavailableError
from slate_engine.runtime import Runtime
from slate_engine.state.commit import Contended
from slate_engine.store.protocol import Denied, StoreUnavailable

T = TypeVar("T")

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
"""Between attempts, in seconds."""

DENIED_PATIENCE = 600.0
"""For so many seconds a store may refuse what it allowed before. Then the writer stops, with what it could not store."""


class Outage:
    """Whether ``what`` is held up at the moment: ``trouble`` is why, or None."""

    def __init__(self, runtime: Runtime, what: str) -> None:
        self._runtime = runtime
        self._what = what
        self._denied_since: float | None = None
        self.trouble: UnavailableError | None = None

    async def outlast(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """What ``attempt`` gives, once the store answers and others let us through. Errors of other kinds are its own."""
        pause = FIRST_PAUSE
        while True:
            try:
                result = await attempt()
            except Error as error:
                self.bear(error)
            else:
                self.over()
                return result
            await self._runtime.sleep(self._runtime.uniform(pause / 2, pause))
            pause = min(2 * pause, LONGEST_PAUSE)

    def bear(self, error: Error) -> None:
        """An attempt has failed: that is the trouble now, if there is hope that it passes, and else raised."""
        match error:
            case StoreUnavailable() | Contended():
                trouble: UnavailableError = error
            case Denied() if self._hope():
                trouble = StoreUnavailable(f"{error.message}; tried again for up to {DENIED_PATIENCE:.0f} s")
            case _:
                raise error
        if self.trouble is None:
            log.warning("%s is held up, trying again: %s", self._what, trouble)
        self.trouble = trouble

    def over(self) -> None:
        """An attempt has succeeded."""
        self.trouble = self._denied_since = None

    def _hope(self) -> bool:
        now = self._runtime.monotonic()
        if self._denied_since is None:
            self._denied_since = now
        return now - self._denied_since < DENIED_PATIENCE
