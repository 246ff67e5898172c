"""Sequence numbers at which somebody still reads, so that flushes and compactions keep what is seen there."""

from __future__ import annotations

import weakref
from collections import Counter, deque


class Pins:
    """Each is held for as long as an object lives: nobody has to remember to let go."""

    def __init__(self) -> None:
        self._held: Counter[int] = Counter()
        self._released: deque[int] = deque()
        """Of holders that are gone. Python may notice that in any thread and between any two steps, so it is only noted
        there, and counted here."""

    def hold(self, holder: object, seq: int) -> None:
        """What is seen at ``seq`` now is seen at it as long as ``holder`` lives."""
        self._count_released()
        self._held[seq] += 1
        weakref.finalize(holder, self._released.append, seq)

    def oldest(self) -> int | None:
        self._count_released()
        return min(self._held, default=None)

    def _count_released(self) -> None:
        while self._released:
            seq = self._released.popleft()
            self._held[seq] -= 1
            if not self._held[seq]:
                del self._held[seq]
