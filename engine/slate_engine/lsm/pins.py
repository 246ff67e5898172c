"""Sequence numbers at which somebody still reads, so that flushes and compactions keep what is seen there."""

from __future__ import annotations

import weakref
from collections import Counter


class Pins:
    """Each is held for as long as an object lives: nobody has to remember to let go."""

    def __init__(self) -> None:
        self._held: Counter[int] = Counter()

    def hold(self, holder: object, seq: int) -> None:
        """What is seen at ``seq`` now is seen at it as long as ``holder`` lives."""
        self._held[seq] += 1
        weakref.finalize(holder, self._let_go, seq)

    def oldest(self) -> int | None:
        return min(self._held, default=None)

    def _let_go(self, seq: int) -> None:
        self._held[seq] -= 1
        if not self._held[seq]:
            del self._held[seq]
