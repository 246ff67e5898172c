"""Where in a log of rows the versions of a key stand.

A hash table of numbers: the hash of a key, and the place of its newest row; each row knows the place of the one before it
with the same hash. Keys whose hashes are the same share a chain, and whoever walks along it looks at the keys themselves.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from slate_engine.format.columns import I64, U8, U64
from slate_engine.format.kernel import kernel
from slate_engine.format.siphash import siphash
from slate_engine.runtime import SCATTER

I32: TypeAlias = npt.NDArray[np.int32]

_FIRST_SLOTS = 128
_SCATTER = np.uint64(SCATTER)
"""Who can choose the keys cannot choose that all of them want the same slot. What is found does not depend on it."""


class KeyIndex:
    """Places of rows by their keys. At most two thirds of the slots are in use."""

    def __init__(self) -> None:
        self._hashes = np.zeros(_FIRST_SLOTS, np.uint64)
        self._places = np.full(_FIRST_SLOTS, -1, np.int32)
        self._older = np.empty(_FIRST_SLOTS, np.int32)
        self._used = 0

    def enter(self, hashes: U64, first: int) -> None:
        """Add the rows from place ``first`` on, whose keys have these hashes."""
        end = first + len(hashes)
        if end > len(self._older):
            longer = np.empty(max(end, 2 * len(self._older)), np.int32)
            longer[:first] = self._older[:first]
            self._older = longer
        while 3 * (self._used + len(hashes)) > 2 * len(self._hashes):
            self._widen()
        self._used += _enter(hashes, first, self._hashes, self._places, self._older, _SCATTER)

    def newest(self, key: bytes, max_seq: int, data: U8, offsets: I64, seq: U64) -> int:
        """The place of the newest row of ``key`` at or below ``max_seq``, or -1. The rows are in ``data``: row ``i`` has its
        key at ``offsets[2 * i]``, up to its value at the next."""
        seen = np.uint64(max_seq)
        return _newest(key, self._hashes, self._places, self._older, data, offsets, seq, seen, _SCATTER)

    def older(self, key: bytes, place: int, data: U8, offsets: I64) -> int:
        """The place of the row of ``key`` before the one at ``place``, or -1."""
        return _same_key(key, int(self._older[place]), self._older, data, offsets)

    def _widen(self) -> None:
        hashes = np.zeros(2 * len(self._hashes), np.uint64)
        places = np.full(2 * len(self._hashes), -1, np.int32)
        _move(self._hashes, self._places, hashes, places, _SCATTER)
        self._hashes, self._places = hashes, places


@kernel
def _slot(hash: np.uint64, hashes: U64, places: I32, scatter: np.uint64) -> int:
    """The slot of a hash, or the one that it would take."""
    last = np.uint64(len(hashes) - 1)
    at = ((hash * scatter) >> np.uint64(24)) & last
    while places[at] >= 0 and hashes[at] != hash:
        at = (at + np.uint64(1)) & last
    return int(at)


@kernel
def _enter(found: U64, first: int, hashes: U64, places: I32, older: I32, scatter: np.uint64) -> int:
    """Gives how many slots that took."""
    taken = 0
    for i in range(len(found)):
        at = _slot(found[i], hashes, places, scatter)
        older[first + i] = places[at]
        if places[at] < 0:
            hashes[at] = found[i]
            taken += 1
        places[at] = first + i
    return taken


@kernel
def _move(old_hashes: U64, old_places: I32, hashes: U64, places: I32, scatter: np.uint64) -> None:
    for i in range(len(old_places)):
        if old_places[i] >= 0:
            at = _slot(old_hashes[i], hashes, places, scatter)
            hashes[at] = old_hashes[i]
            places[at] = old_places[i]


@kernel
def _same_key(key: Any, place: int, older: I32, data: U8, offsets: I64) -> int:
    """The first place from ``place`` on along its chain that has this key, or -1. The key comes as Python's ``bytes``: to
    make an array of it would take as long as to find it."""
    while place >= 0:
        start = offsets[2 * place]
        if offsets[2 * place + 1] - start == len(key):
            same = 0
            while same < len(key) and data[start + same] == key[same]:
                same += 1
            if same == len(key):
                return place
        place = older[place]
    return -1


@kernel
def _newest(
    key: Any,
    hashes: U64,
    places: I32,
    older: I32,
    data: U8,
    offsets: I64,
    seq: U64,
    max_seq: np.uint64,
    scatter: np.uint64,
) -> int:
    """The first place in the chain of a key's hash that has this key and is seen at ``max_seq``, or -1."""
    newest = int(places[_slot(siphash(key, 0, len(key)), hashes, places, scatter)])
    place = _same_key(key, newest, older, data, offsets)
    while place >= 0 and seq[place] > max_seq:
        place = _same_key(key, int(older[place]), older, data, offsets)
    return place
