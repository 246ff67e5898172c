"""Which keys go to which task: shares of about as many bytes each.

The manifest says where each SST begins and how large it is. That is enough where SSTs are small beside a share; the block
indexes of large ones say where to cut inside. An index is about a hundredth of its SST, and the driver reads those of the
largest first, up to a limit; an SST beyond it is not cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from slate_engine.format.columns import EMPTY, I64, Bytes, Rows
from slate_engine.format.key_range import UNBOUNDED, Bound, KeyRange
from slate_engine.lsm.cuts import cut_keys
from slate_engine.lsm.levels import Level
from slate_engine.lsm.order import concat, lower_bound, take_bytes
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.table import cut
from slate_engine.spark.ranges import Ranges, is_point
from slate_engine.state.views import SstView

MOST_INDEXES = 4096
MOST_INDEX_BYTES = 1 << 30
"""Of a hundred gigabytes or so. What the driver keeps of each index is a few keys."""
SMALLEST = 8
"""An SST of an eighth of a share is never looked into, however many levels lie over one another."""
FETCHES = 32
CUTS_PER_SHARE = 32
"""An index is thinned to so many cuts for each share: nobody needs to know where every block begins."""

POINT_BYTES = 64 << 10
"""What looking up one key is reckoned to cost: an index, a filter, a block."""


@dataclass(frozen=True)
class Weights:
    """Bytes of one table: ``sizes[i]`` lie from ``keys[i]`` on, and before the next key."""

    keys: Bytes
    sizes: I64

    def within(self, wanted: KeyRange) -> Weights:
        first = max(lower_bound(self.keys, wanted.start.key), 0) if wanted.start.bounded else 0
        last = lower_bound(self.keys, wanted.end.key) if wanted.end.bounded else len(self.keys)
        # The bytes before the first key inside begin outside and may reach in.
        first = max(first - 1, 0) if wanted.start.bounded else first
        return Weights(self.keys.slice(first, max(first, last)), self.sizes[first : max(first, last)])


@dataclass(frozen=True)
class Share:
    """The keys of one task, and about how many bytes they are."""

    ranges: Ranges
    bytes: int


def plan(weights: Sequence[Weights], wanted: Ranges, target: int) -> list[Share]:
    """Shares of ``wanted`` in the order of keys, each of about ``target`` bytes."""
    pieces = [piece for each in wanted for piece in _pieces(weights, each, target)]
    shares: list[Share] = []
    gathered: list[KeyRange] = []
    total = 0
    for piece, size in pieces:
        if gathered and total + size > target:
            shares.append(Share(tuple(gathered), total))
            gathered, total = [], 0
        gathered.append(piece)
        total += size
    if gathered:
        shares.append(Share(tuple(gathered), total))
    return shares


def _pieces(weights: Sequence[Weights], wanted: KeyRange, target: int) -> list[tuple[KeyRange, int]]:
    if is_point(wanted):
        return [(wanted, POINT_BYTES)]
    inside = [each.within(wanted) for each in weights]
    inside = [each for each in inside if len(each.sizes)]
    cuts = cut_keys([each.keys for each in inside], [each.sizes for each in inside], [target])
    cuts = [key for key in cuts if key in wanted and not (wanted.start.bounded and key == wanted.start.key)]
    edges = [wanted.start, *(Bound.included(key) for key in cuts), UNBOUNDED]
    pieces = [
        KeyRange(start, Bound.excluded(after.key) if after.bounded else wanted.end) for start, after in pairwise(edges)
    ]
    total = sum(int(each.sizes.sum()) for each in inside)
    return [(piece, min(target, total // len(pieces) + 1)) for piece in pieces]


async def weigh(snapshot: Snapshot, wanted: Ranges, target: int) -> list[Weights]:
    """Where the bytes of ``wanted`` lie. Single keys are looked up, and nothing has to be known for that."""
    spans = [each for each in wanted if not is_point(each)]
    if not spans:
        return []
    hull = KeyRange(spans[0].start, spans[-1].end)
    levels = snapshot.levels.overlapping(hull)
    large = _large(levels, spans, target)
    weights: list[Weights] = []
    for number, level in enumerate(levels):
        rest = np.setdiff1d(np.arange(len(level.sizes)), [i for of, i in large if of == number])
        if len(rest):
            weights.append(Weights(take_bytes(level.lower_keys, rest), level.sizes.astype(np.int64)[rest]))
    slots = asyncio.Semaphore(FETCHES)

    async def look_inside(view: SstView, seen: KeyRange) -> Weights:
        async with slots:
            blocks = await snapshot.open_table(view).blocks()
            return thinned(Weights(blocks.first_keys, blocks.ends - blocks.starts), target // CUTS_PER_SHARE).within(
                seen
            )

    return weights + list(await asyncio.gather(*(look_inside(view, seen) for view, seen in large.values())))


def _large(
    levels: Sequence[Level], wanted: Sequence[KeyRange], target: int
) -> dict[tuple[int, int], tuple[SstView, KeyRange]]:
    """The SSTs to look into, by level and place, with the keys that they show. What is not cut makes a share too large by
    as much, in each of the levels: half a share in all of them together is borne."""
    least = target // min(2 * max(len(levels), 1), SMALLEST)
    sizes = [level.sizes.astype(np.int64) for level in levels]
    places = [(number, i) for number, each in enumerate(sizes) for i in np.flatnonzero(each > least).tolist()]
    places.sort(key=lambda place: -int(sizes[place[0]][place[1]]))
    budget = MOST_INDEX_BYTES
    found: dict[tuple[int, int], tuple[SstView, KeyRange]] = {}
    for number, i in places:
        view = levels[number].views[i]
        seen, length = view.key_range, view.sst.info.index_len
        if seen is None or not any(seen.overlaps(each) for each in wanted):
            continue
        if len(found) == MOST_INDEXES or length > budget:
            break
        budget -= length
        found[number, i] = view, seen
    return found


def thinned(weights: Weights, step: int) -> Weights:
    """The same bytes at fewer keys, ``step`` or more apart."""
    ends = np.cumsum(weights.sizes)
    group = (ends - weights.sizes) // max(step, 1)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    return Weights(
        take_bytes(weights.keys, first), np.add.reduceat(weights.sizes, first) if len(first) else weights.sizes
    )


def rows_within(rows: Rows, ranges: Ranges) -> Rows:
    """A copy of those rows of a sorted batch that lie in the ranges."""
    parts = [cut(rows, each) for each in ranges]
    return concat([EMPTY, *(part for part in parts if len(part))])
