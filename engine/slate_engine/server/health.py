"""Whether a service is alive, and whether it is ready.

Alive means that its loops make progress: each has a pulse, which it gives in every round, and which may be late by so much.
A process whose event loop hangs does not answer at all, which says the same. Ready means that it can do its work now; if
not, it says why, in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slate_engine.runtime import Runtime


class Pulse:
    """Of one loop. ``patience`` is the longest time, in seconds, that a round may take."""

    def __init__(self, name: str, patience: float, runtime: Runtime) -> None:
        self.name = name
        self.patience = patience
        self._runtime = runtime
        self._last = runtime.monotonic()

    def beat(self) -> None:
        self._last = self._runtime.monotonic()

    @property
    def late(self) -> str | None:
        silent = self._runtime.monotonic() - self._last
        if silent <= self.patience:
            return None
        return f"{self.name} has not gone round for {silent:.0f} s, which is longer than {self.patience:.0f} s"


@dataclass
class Health:
    """Of one process."""

    runtime: Runtime
    starting: str | None = "it is starting"
    """Why it is not ready before its work begins; None from then on."""
    draining: bool = False
    pulses: list[Pulse] = field(default_factory=list)
    checks: list[Callable[[], str | None]] = field(default_factory=list)
    """Each says why the service is not ready, or nothing."""

    def pulse(self, name: str, patience: float) -> Pulse:
        made = Pulse(name, patience, self.runtime)
        self.pulses.append(made)
        return made

    def dead(self) -> list[str]:
        """Why the process should be started anew."""
        return [late for pulse in self.pulses if (late := pulse.late) is not None]

    def not_ready(self) -> list[str]:
        if self.starting is not None:
            return [self.starting]
        if self.draining:
            return ["it is shutting down"]
        return [reason for check in self.checks if (reason := check()) is not None]
