"""What the states of a database need: the newest one, and those that checkpoints keep."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from slate_engine.errors import DataError
from slate_engine.format.ids import Ids
from slate_engine.state.commit import Versioned
from slate_engine.state.detach import attached
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import ManifestStore
from slate_engine.store.protocol import NotFound

CACHE_BYTES = 64 << 20
AT_ONCE = 32
_MANIFEST_BYTES_PER_SST = 250
_READ_AT_ONCE_BYTES = 32 << 20
_FOLD = 1 << 20
"""So many new ids are gathered before they are put in order."""


@dataclass(frozen=True)
class Kept:
    """What is left of a manifest that a checkpoint keeps, once one knows what it needs."""

    ssts: Ids
    replay_after_wal_id: int
    wal_id_last_seen: int
    attached: frozenset[UUID]

    @staticmethod
    def of(manifest: Manifest) -> Kept:
        return Kept(manifest.ssts.id, manifest.replay_after_wal_id, manifest.wal_id_last_seen, attached(manifest))

    @property
    def nbytes(self) -> int:
        return 16 * len(self.ssts)


@dataclass(frozen=True)
class Referenced:
    """All that is needed as of manifest ``newest_id``: SSTs in ascending order of ids; ranges of WAL ids (first excluded,
    last included) that are disjoint and in order; and checkpoints in parents."""

    newest_id: int
    newest: Manifest
    ssts: Ids
    wal: tuple[tuple[int, int], ...]
    attached: frozenset[UUID]

    def needs_wal(self, id: int) -> bool:
        """The newest state needs the file at which its replay begins, too: a writer may be about to look at it."""
        if id >= self.newest.replay_after_wal_id:
            return True
        place = bisect_left(self.wal, (id,))
        return place > 0 and id <= self.wal[place - 1][1]


class States:
    """Reads the manifests that checkpoints keep. They never change, so what is known of some is remembered."""

    def __init__(self, manifests: ManifestStore) -> None:
        self._manifests = manifests
        self._known: dict[int, Kept] = {}
        self._known_bytes = 0
        self._last: Referenced | None = None

    async def referenced(self, newest: Versioned[Manifest]) -> Referenced:
        """Raises :class:`DataError` if a manifest that a checkpoint keeps is missing: then nobody knows what is needed."""
        if self._last is not None and self._last.newest is newest.value:
            return self._last
        wanted = {checkpoint.manifest_id for checkpoint in newest.value.checkpoints} - {newest.id}
        self._forget_all_but(wanted)
        ssts = Union(newest.value.ssts.id)
        wal: list[tuple[int, int]] = []
        needed: set[UUID] = set()
        size = _MANIFEST_BYTES_PER_SST * len(newest.value.ssts) + 1
        for ids in _batches(sorted(wanted), max(1, min(AT_ONCE, _READ_AT_ONCE_BYTES // size))):
            for kept in await asyncio.gather(*(self._kept(id) for id in ids)):
                if kept is None:
                    continue
                ssts.add(kept.ssts)
                wal.append((kept.replay_after_wal_id, kept.wal_id_last_seen))
                needed |= kept.attached
        self._last = Referenced(newest.id, newest.value, ssts.all(), tuple(_disjoint(wal)), frozenset(needed))
        return self._last

    def _forget_all_but(self, wanted: set[int]) -> None:
        self._known = {id: kept for id, kept in self._known.items() if id in wanted}
        self._known_bytes = sum(kept.nbytes for kept in self._known.values())

    async def _kept(self, id: int) -> Kept | None:
        """None if its checkpoints were deleted since we looked, and the manifest after them, by another collector."""
        known = self._known.get(id)
        if known is not None:
            return known
        try:
            kept = Kept.of(await self._manifests.read(id))
        except NotFound:
            await check_released(self._manifests, id)
            return None
        if self._known_bytes + kept.nbytes <= CACHE_BYTES:
            self._known[id] = kept
            self._known_bytes += kept.nbytes
        return kept


async def check_released(manifests: ManifestStore, id: int) -> None:
    """A manifest is missing: that is a loss if checkpoints still keep it."""
    newest = await manifests.read_latest()
    holders = [str(each.id) for each in newest.value.checkpoints if each.manifest_id == id]
    if holders:
        raise DataError(
            f"manifest {id} is missing, but checkpoint {', '.join(holders)} keeps it; nothing is collected that it may "
            "need. Restore the manifest, or delete the checkpoint"
        )


class Union:
    """A growing set of ids. It is put in order now and then, and not for each of a thousand additions."""

    def __init__(self, ids: Ids) -> None:
        """The ids are in strictly ascending order, as all that are added."""
        self._ordered = ids
        self._new: list[Ids] = []
        self._waiting = 0

    def add(self, ids: Ids) -> None:
        new = np.flatnonzero(self._ordered.find(ids) < 0)
        if len(new):
            self._new.append(ids.take(new))
            self._waiting += len(new)
        if self._waiting > max(_FOLD, len(self._ordered)):
            self._fold()

    def all(self) -> Ids:
        """In strictly ascending order."""
        self._fold()
        return self._ordered

    def _fold(self) -> None:
        if not self._new:
            return
        both = Ids.concat([self._ordered, *self._new])
        order = both.order()
        if order is not None:
            both = both.take(order)
            both = both.take(np.flatnonzero(both.distinct()))
        self._ordered, self._new, self._waiting = both, [], 0


def _disjoint(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The same numbers, in order, in ranges that neither overlap nor touch."""
    first = last = None
    for after, until in sorted(each for each in ranges if each[0] < each[1]):
        if first is None or last is None or after > last:
            if first is not None and last is not None:
                yield first, last
            first, last = after, until
        else:
            last = max(last, until)
    if first is not None and last is not None:
        yield first, last


def _batches(ids: list[int], size: int) -> Iterable[list[int]]:
    return (ids[start : start + size] for start in range(0, len(ids), size))
