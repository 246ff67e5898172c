"""Whether a service is alive, and whether it is ready.

Alive means that its loops go round: those that store the log, flush, poll, plan, merge and collect. A process whose event
loop hangs does not answer at all, which says the same. Ready means that it can do its work now; if not, it says why, in
words. A store that is slow, or away, makes a service not ready; only what a new start would cure makes it not alive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slate_engine.lsm.loops import Watch

SLOW = 10.0
"""A request of so many seconds is worth saying that the store is slow."""


@dataclass
class Health:
    """Of one process."""

    stall_seconds: float = 120.0
    """A loop that gives no sign for longer has got stuck."""
    starting: str | None = "it is starting"
    """Why it is not ready before its work begins; None from then on."""
    draining: bool = False
    watch: Watch = field(default_factory=Watch)
    checks: list[Callable[[], str | None]] = field(default_factory=list)
    """Each says why the service is not ready, or nothing."""

    def dead(self) -> list[str]:
        """Why the process should be started anew."""
        return [why for loop in self.watch.loops.values() if (why := loop.stuck(self.stall_seconds)) is not None]

    def not_ready(self) -> list[str]:
        if self.starting is not None:
            return [self.starting]
        if self.draining:
            return ["it is shutting down"]
        held_up = [why for loop in self.watch.loops.values() if (why := loop.held_up(SLOW)) is not None]
        return [*(reason for check in self.checks if (reason := check()) is not None), *held_up]
