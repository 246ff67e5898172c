"""Which SSTs a database's own folder holds: listed whole now and then, and only the newest part in between.

Names are ULIDs, hence a listing is in the order of time, and whatever came since the last one stands at its end. What was
begun long ago and arrives late is found by the next whole listing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slate_engine.format.columns import I64, U8
from slate_engine.format.ids import Ids, Ulid
from slate_engine.lsm.paths import Paths
from slate_engine.store.protocol import ObjectStore

LATE_MS = 3_600_000
"""An SST may arrive this long after the time in its id, and is still found by a listing of the newest."""

_LETTERS = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH = 26
_VALUES: U8 = np.full(256, 255, np.uint8)
_VALUES[np.frombuffer(_LETTERS, np.uint8)] = np.arange(32, dtype=np.uint8)


class Inventory:
    """The SSTs of one database in ascending order of ids, and their sizes."""

    def __init__(self, store: ObjectStore, paths: Paths) -> None:
        self._store = store
        self._paths = paths
        self._listed_ms = 0
        self._swept_ms: int | None = None
        self.ids: Ids = Ids.of([])
        self.sizes: I64 = np.empty(0, np.int64)

    async def refresh(self, now_ms: int, sweep_interval: float) -> None:
        """List everything if that has not been done for so many seconds, and else what may have come since."""
        if self._swept_ms is None or not 0 <= now_ms - self._swept_ms < sweep_interval * 1000:
            self.ids, self.sizes = await self._list("")
            self._swept_ms = now_ms
        else:
            since = max(0, min(self._listed_ms, now_ms) - LATE_MS)
            ids, sizes = await self._list(self._paths.compacted(Ulid.of(since, 0)))
            older = np.flatnonzero(self.ids.ms < since)
            self.ids = Ids.concat([self.ids.take(older), ids])
            self.sizes = np.concatenate([self.sizes[older], sizes])
        self._listed_ms = now_ms

    def forget(self, gone: Ids) -> None:
        """These have been deleted; they are given in ascending order."""
        left = np.flatnonzero(gone.find(self.ids) < 0)
        self.ids, self.sizes = self.ids.take(left), self.sizes[left]

    async def _list(self, start_after: str) -> tuple[Ids, I64]:
        directory = self._paths.compacted_directory + "/"
        parts: list[Ids] = []
        sizes: list[I64] = []
        async for page in self._store.list(directory, start_after=start_after):
            ids, named = parse_ulids([meta.key[len(directory) :].partition(".")[0] for meta in page])
            parts.append(ids)
            sizes.append(np.array([meta.size for meta in page], np.int64)[named])
        if not parts:
            return Ids.of([]), np.empty(0, np.int64)
        found, lengths = Ids.concat(parts), np.concatenate(sizes)
        # A store lists names in order, and so they are unless the same id stands in two files.
        order = found.order()
        if order is None:
            return found, lengths
        found, lengths = found.take(order), lengths[order]
        first = np.flatnonzero(found.distinct())
        return found.take(first), lengths[first]


def parse_ulids(names: Sequence[str]) -> tuple[Ids, I64]:
    """The ids that these texts stand for, and which of the texts they are; the others are no ULIDs."""
    fitting = [i for i, name in enumerate(names) if len(name) == _LENGTH and name.isascii()]
    text = "".join(names[i] for i in fitting).encode()
    digits = _VALUES[np.frombuffer(text, np.uint8)].reshape(-1, _LENGTH)
    # The first letter holds three bits only.
    sound = np.flatnonzero((digits < 32).all(axis=1) & (digits[:, 0] < 8))
    digits = digits[sound].astype(np.uint64)
    high, low = np.zeros(len(sound), np.uint64), np.zeros(len(sound), np.uint64)
    for i in range(_LENGTH):
        high = high << np.uint64(5) | low >> np.uint64(59)
        low = low << np.uint64(5) | digits[:, i]
    return Ids(high, low), np.array(fitting, np.int64)[sound]
