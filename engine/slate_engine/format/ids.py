"""ULIDs, the names of SSTs, views and compactions: one as a value, many as a column.

A ULID is 48 bits of unix milliseconds and 80 bits of chance. Its time means something: garbage collection and several
rules of the manifest compare it, so it is minted with care for the clock (:meth:`Ulid.new`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from slate_engine.format.columns import I64, U64
from slate_engine.format.kernel import kernel

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUE = {letter: value for value, letter in enumerate(_ALPHABET)}
_LOW = 0xFFFF_FFFF_FFFF_FFFF


class Chance(Protocol):
    """What minting needs of the world: any ``Runtime`` has it."""

    def now_ms(self) -> int: ...

    def random_bytes(self, n: int) -> bytes: ...


@dataclass(frozen=True, order=True, slots=True)
class Ulid:
    """A 128-bit id. Ordered as a number, which is the order of its text, and of time."""

    value: int

    @staticmethod
    def new(chance: Chance, min_ms: int = 0) -> Ulid:
        """A fresh id of now, or of ``min_ms`` where the clock is behind it: an SST must not seem older than what the
        database already holds, or garbage collection could take it for an orphan."""
        return Ulid.of(max(chance.now_ms(), min_ms), int.from_bytes(chance.random_bytes(10), "big"))

    @staticmethod
    def of(ms: int, random: int) -> Ulid:
        if not (0 <= ms < 1 << 48 and 0 <= random < 1 << 80):
            raise ValueError("a ULID has 48 bits of milliseconds and 80 random bits")
        return Ulid(ms << 80 | random)

    @staticmethod
    def parse(text: str) -> Ulid:
        """Read the 26 characters of Crockford's base 32. The first one holds three bits only."""
        try:
            if len(text) != 26:
                raise KeyError
            value = 0
            for letter in text:
                value = value << 5 | _VALUE[letter]
        except KeyError:
            raise ValueError(f"{text!r} is not a ULID") from None
        if value >> 128:
            raise ValueError(f"{text!r} is larger than any ULID")
        return Ulid(value)

    @property
    def ms(self) -> int:
        return self.value >> 80

    @property
    def high(self) -> int:
        return self.value >> 64

    @property
    def low(self) -> int:
        return self.value & _LOW

    def __str__(self) -> str:
        return "".join(_ALPHABET[self.value >> shift & 31] for shift in range(125, -1, -5))

    def __repr__(self) -> str:
        return f"Ulid({self})"


@dataclass(frozen=True, slots=True, eq=False)
class Ids:
    """A column of 128-bit ids, as the two halves that the wire has."""

    high: U64
    low: U64

    @staticmethod
    def of(ids: Iterable[Ulid | uuid.UUID]) -> Ids:
        values = [item.value if isinstance(item, Ulid) else item.int for item in ids]
        return Ids(
            np.fromiter((value >> 64 for value in values), np.uint64, len(values)),
            np.fromiter((value & _LOW for value in values), np.uint64, len(values)),
        )

    @staticmethod
    def concat(parts: Sequence[Ids]) -> Ids:
        if len(parts) == 1:
            return parts[0]
        return Ids(np.concatenate([part.high for part in parts]), np.concatenate([part.low for part in parts]))

    def __len__(self) -> int:
        return len(self.high)

    def __getitem__(self, i: int) -> Ulid:
        return Ulid(int(self.high[i]) << 64 | int(self.low[i]))

    def __iter__(self) -> Iterator[Ulid]:
        return (Ulid(value) for value in self.values())

    def __repr__(self) -> str:
        return f"Ids({list(self)})" if len(self) < 4 else f"<{len(self)} ids>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids):
            return NotImplemented
        return len(self) == len(other) and bool(self.equal(other).all())

    __hash__ = None  # type: ignore[assignment]

    def values(self) -> Iterator[int]:
        """The ids as plain numbers."""
        return (high << 64 | low for high, low in zip(self.high.tolist(), self.low.tolist(), strict=True))

    @property
    def ms(self) -> I64:
        """The time in each id, if these are ULIDs."""
        return (self.high >> np.uint64(16)).astype(np.int64)

    def take(self, rows: I64 | slice) -> Ids:
        return Ids(self.high[rows], self.low[rows])

    def renewed(self, chance: Chance) -> Ids:
        """An id of the same millisecond for each of these ULIDs, with new random bits."""
        drawn = np.frombuffer(chance.random_bytes(10 * len(self)), np.uint8).reshape(len(self), 10)
        random_high = drawn[:, :2].copy().view(">u2")[:, 0].astype(np.uint64)
        random_low = drawn[:, 2:].copy().view(">u8")[:, 0].astype(np.uint64)
        return Ids(self.high & ~np.uint64(0xFFFF) | random_high, random_low)

    def first_places(self) -> I64:
        """For each row, the first row that has its id: its own unless the id is a repeat."""
        order = np.lexsort((self.low, self.high))
        starts = self.take(order).distinct()
        first = np.empty(len(self), np.int64)
        # The sort is stable, so the first row of an id comes first in its group.
        first[order] = order[np.flatnonzero(starts)][np.cumsum(starts) - 1]
        return first

    def equal(self, other: Ids) -> npt.NDArray[np.bool_]:
        same: npt.NDArray[np.bool_] = (self.high == other.high) & (self.low == other.low)
        return same

    def order(self) -> I64 | None:
        """The rows in ascending order of their ids; None if they are so already and no id occurs twice."""
        if np.all(_less(self.take(slice(None, -1)), self.take(slice(1, None)))):
            return None
        return np.lexsort((self.low, self.high)).astype(np.int64, copy=False)

    def distinct(self) -> npt.NDArray[np.bool_]:
        """In a column in ascending order: whether a row is the first of its id."""
        first = np.ones(len(self), np.bool_)
        first[1:] = _less(self.take(slice(None, -1)), self.take(slice(1, None)))
        return first

    def find(self, wanted: Ids) -> I64:
        """In a column in strictly ascending order: the row of each of the ``wanted`` ids, -1 for one that is not there."""
        rows = np.empty(len(wanted), np.int64)
        _find(self.high, self.low, wanted.high, wanted.low, rows)
        return rows


def _less(a: Ids, b: Ids) -> npt.NDArray[np.bool_]:
    less: npt.NDArray[np.bool_] = (a.high < b.high) | ((a.high == b.high) & (a.low < b.low))
    return less


@kernel
def _find(high: U64, low: U64, wanted_high: U64, wanted_low: U64, out: I64) -> None:
    n = len(high)
    guess = 0
    for i in range(len(wanted_high)):
        h, el = wanted_high[i], wanted_low[i]
        # Neighbours often want neighbours.
        if guess < n and high[guess] == h and low[guess] == el:
            out[i] = guess
            guess += 1
            continue
        first, last = 0, n
        while first < last:
            middle = (first + last) >> 1
            if high[middle] < h or (high[middle] == h and low[middle] < el):
                first = middle + 1
            else:
                last = middle
        if first < n and high[first] == h and low[first] == el:
            out[i] = first
            guess = first + 1
        else:
            out[i] = -1
