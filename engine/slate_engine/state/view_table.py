"""The columns under ``views``: which SST each view shows, how much of it, and what follows from that for its keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slate_engine.format.columns import I64
from slate_engine.format.flatbuf.spans import Spans
from slate_engine.format.ids import Ids
from slate_engine.format.key_range import BoundType
from slate_engine.state.ranges import Ranges
from slate_engine.state.ssts import Ssts

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """The effective range of each view: from its ``lower`` key on, up to its ``upper`` one, which may be absent for want
    of a bound, and belongs to the range unless ``open`` says otherwise."""

    lower: Spans
    upper: Spans
    open: Mask

    @property
    def is_empty(self) -> Mask:
        order = self.lower.compare(self.upper)
        empty: Mask = (order > 0) | ((order == 0) & self.open)
        return empty & self.upper.present


@dataclass(frozen=True, slots=True)
class ViewTable:
    """View ``i`` has the id ``id[i]`` and shows SST ``ssts[sst[i]]``: all of it where ``visible[i]`` is negative, and else
    what lies in ``ranges[visible[i]]``."""

    id: Ids
    ssts: Ssts
    sst: I64
    ranges: Ranges
    visible: I64

    @staticmethod
    def concat(parts: Sequence[ViewTable]) -> ViewTable:
        if len(parts) == 1:
            return parts[0]
        ssts_before = np.cumsum([0, *(len(part.ssts) for part in parts)])
        ranges_before = np.cumsum([0, *(len(part.ranges) for part in parts)])
        return ViewTable(
            Ids.concat([part.id for part in parts]),
            Ssts.concat([part.ssts for part in parts]),
            np.concatenate([part.sst + before for part, before in zip(parts, ssts_before, strict=False)]),
            Ranges.concat([part.ranges for part in parts]),
            np.concatenate(
                [
                    np.where(part.visible < 0, -1, part.visible + before)
                    for part, before in zip(parts, ranges_before, strict=False)
                ]
            ),
        )

    def __len__(self) -> int:
        return len(self.id)

    def take(self, rows: I64 | slice) -> ViewTable:
        return ViewTable(self.id.take(rows), self.ssts, self.sst[rows], self.ranges, self.visible[rows])

    def pruned(self) -> ViewTable:
        """The same views without SSTs and ranges that none of them needs; SSTs in ascending order, each once."""
        ssts, sst = _pool(self.ssts, self.sst)
        ranges, visible = self.ranges, self.visible
        wanted = _used(visible[visible >= 0], len(ranges))
        if not wanted.all():
            renumbered = np.append(np.cumsum(wanted) - 1, -1)
            ranges, visible = ranges.take(np.flatnonzero(wanted)), renumbered[visible]
        return ViewTable(self.id, ssts, sst, ranges, visible)

    def bounds(self) -> KeyBounds:
        """Only for views that can be seen at all: their SSTs have a first key, and their ranges are sound."""
        first, last = self.ssts.first.take(self.sst), self.ssts.last.take(self.sst)
        if not len(self.ranges):
            return KeyBounds(first, last, np.zeros(len(self), np.bool_))
        visible = self.ranges.with_unbounded().take(self.visible)
        lower = Spans.where(visible.start.present & (visible.start.compare(first) > 0), visible.start, first)
        order = visible.end.compare(last)
        excluded = visible.end_type == BoundType.EXCLUDED
        cut = visible.end.present & (~last.present | (order < 0) | ((order == 0) & excluded))
        return KeyBounds(lower, Spans.where(cut, visible.end, last), cut & excluded)


def _used(rows: I64, n: int) -> Mask:
    return np.bincount(rows, minlength=n) > 0


def _pool(ssts: Ssts, rows: I64) -> tuple[Ssts, I64]:
    """The SSTs of ``rows`` in ascending order, each once; and where the rows have gone."""
    used = _used(rows, len(ssts))
    if not used.all():
        ssts, rows = ssts.take(np.flatnonzero(used)), (np.cumsum(used) - 1)[rows]
    order = ssts.id.order()
    if order is None:
        return ssts, rows
    ssts = ssts.take(order)
    first = ssts.id.distinct()
    # Two tables may know the same SST. What they say of it is the same, since SSTs never change.
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(first) - 1
    return ssts.take(np.flatnonzero(first)), place[rows]
