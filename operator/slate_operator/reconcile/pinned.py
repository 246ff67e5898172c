"""How many bytes each checkpoint keeps alone.

To find out takes a listing of the whole database, so it is asked once for all of its checkpoints, and not often."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from slate_operator.admin.database import Admin, NotReached, Problem
from slate_operator.clock import Clock

MEASURE_EVERY = 600.0


@dataclass(frozen=True, slots=True)
class Measured:
    at: float
    alone: Mapping[str, int] = field(default_factory=dict)
    """By the id of the checkpoint."""


class PinnedBytes:
    """Of all databases, as they were last measured."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, Measured] = {}
        """By the uid of the database's object."""

    async def of(self, database: str, admin: Admin, checkpoint: str) -> int | None:
        """None if it is not known: also of a checkpoint that is younger than the last measurement."""
        now = self._clock.monotonic()
        known = self._known.get(database)
        if known is None or now - known.at >= MEASURE_EVERY:
            known = await self._measure(database, admin, now)
        return known.alone.get(checkpoint)

    async def _measure(self, database: str, admin: Admin, now: float) -> Measured:
        self._known = {uid: each for uid, each in self._known.items() if now - each.at < 2 * MEASURE_EVERY}
        # Noted before it is asked, so that nobody else asks at the same time; and a database in trouble not again at once.
        before = self._known.get(database)
        self._known[database] = Measured(now, {} if before is None else before.alone)
        with contextlib.suppress(NotReached, Problem):
            self._known[database] = Measured(now, await admin.pinned_bytes())
        return self._known[database]
