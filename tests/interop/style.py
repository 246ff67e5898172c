"""What a random database is made with: the choices of its owner, and a world that gives the same chances every time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from uuid import UUID

from slate_engine.format.filters import PrefixExtractor
from slate_engine.format.sst_build import SstOptions

EPOCH_MS = 1_750_000_000_000
"""Long ago, so that the original never finds a time in the future, and always after what the author wrote."""


class Chance:
    """A clock that moves when it is looked at, and a seed: the same steps give the same bytes."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._now_ms = EPOCH_MS

    def now_ms(self) -> int:
        self._now_ms += 7
        return self._now_ms

    def random_bytes(self, n: int) -> bytes:
        return self._random.randbytes(n)

    def uuid(self) -> UUID:
        return UUID(bytes=self.random_bytes(16), version=4)


@dataclass(frozen=True)
class Style:
    """How a database is laid out."""

    sst: SstOptions = field(default_factory=SstOptions)
    segments: PrefixExtractor | None = None
    """Says which segment a key belongs to; without it, the database has no segments."""
    wal: bool = True
    stats: bool = True
