"""Views: what a tree sees of its SSTs. One as a :class:`SstView`, many as :class:`Views`.

A clone that projects a range, or a compaction that moves an SST, makes a new view and leaves the SST alone. Views come by
the hundred thousand, so they live in the columns of a ``ViewTable``; a :class:`Views` is a window on some rows of one.
Cutting a window costs nothing, and nothing is copied until windows on different tables are joined.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from slate_engine.format.columns import I64, U64
from slate_engine.format.ids import Chance, Ids, Ulid
from slate_engine.format.key_range import UNBOUNDED, Bound, KeyRange
from slate_engine.state.ranges import NO_RANGES, Ranges
from slate_engine.state.ssts import NO_SSTS, SstHandle, Ssts
from slate_engine.state.view_table import Mask, ViewTable


@dataclass(frozen=True, slots=True)
class SstView:
    """An SST as one place of a tree sees it: whole, or the keys of ``visible_range`` only."""

    id: Ulid
    sst: SstHandle
    visible_range: KeyRange | None = None

    @property
    def key_range(self) -> KeyRange | None:
        """Where its keys lie; None if there cannot be any. Open at the end for an SST of an old version, which does not
        know its last key."""
        info = self.sst.info
        if info.first_entry is None:
            return None
        end = UNBOUNDED if info.last_entry is None else Bound.included(info.last_entry)
        physical = KeyRange(Bound.included(info.first_entry), end)
        return physical if self.visible_range is None else physical.intersect(self.visible_range)

    @property
    def estimated_size(self) -> int:
        return self.sst.estimated_size


class Views(Sequence[SstView]):
    """The rows ``[start, stop)`` of a table of views."""

    __slots__ = ("start", "stop", "table")

    def __init__(self, table: ViewTable, start: int = 0, stop: int | None = None) -> None:
        self.table = table
        self.start = start
        self.stop = len(table) if stop is None else stop

    @staticmethod
    def of(views: Iterable[SstView]) -> Views:
        listed = list(views)
        if not listed:
            return NO_VIEWS
        ranges = list(dict.fromkeys(view.visible_range for view in listed if view.visible_range is not None))
        place = {each: row for row, each in enumerate(ranges)}
        table = ViewTable(
            Ids.of(view.id for view in listed),
            Ssts.of(view.sst for view in listed),
            np.arange(len(listed)),
            Ranges.of(ranges),
            np.array([-1 if view.visible_range is None else place[view.visible_range] for view in listed], np.int64),
        )
        return Views(table)

    @staticmethod
    def of_ssts(ssts: Ssts) -> Views:
        """One view for each SST, all of it visible, with the SST's own id: as compactions publish what they wrote."""
        return Views(ViewTable(ssts.id, ssts, np.arange(len(ssts)), NO_RANGES, np.full(len(ssts), -1)))

    @staticmethod
    def concat(parts: Iterable[Views]) -> Views:
        listed = [part for part in parts if len(part)]
        if len(listed) < 2:
            return listed[0] if listed else NO_VIEWS
        tables = {id(part.table): part.table for part in listed}
        if len(tables) > 1:
            # A small window must not drag its large table along.
            return Views(ViewTable.concat([part.alone().pruned() for part in _joined(listed)]))
        if all(before.stop == after.start for before, after in itertools.pairwise(listed)):
            return Views(listed[0].table, listed[0].start, listed[-1].stop)
        return Views(listed[0].table.take(_rows(listed)))

    def alone(self) -> ViewTable:
        """The window's rows as a table of their own."""
        if len(self) == len(self.table):
            return self.table
        return self.table.take(slice(self.start, self.stop))

    def __len__(self) -> int:
        return self.stop - self.start

    @overload
    def __getitem__(self, i: int) -> SstView: ...

    @overload
    def __getitem__(self, i: slice) -> Views: ...

    def __getitem__(self, i: int | slice) -> SstView | Views:
        if isinstance(i, slice):
            start, stop, step = i.indices(len(self))
            if step != 1:
                return self.take(np.arange(start, stop, step))
            return Views(self.table, self.start + start, self.start + max(start, stop))
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        table, row = self.table, i + (self.start if i >= 0 else self.stop)
        visible = int(table.visible[row])
        return SstView(table.id[row], table.ssts[int(table.sst[row])], None if visible < 0 else table.ranges[visible])

    def __iter__(self) -> Iterator[SstView]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Views):
            return NotImplemented
        return self.ids == other.ids and self.shows_same(other)

    def shows_same(self, other: Views) -> bool:
        """Whether both show the same keys of the same SSTs in the same order, whatever the ids of the views."""
        if len(self) != len(other) or self.ssts() != other.ssts():
            return False
        mine, theirs = self.alone(), other.alone()
        ranged = np.flatnonzero(mine.visible >= 0)
        if not np.array_equal(ranged, np.flatnonzero(theirs.visible >= 0)):
            return False
        return mine.ranges.take(mine.visible[ranged]) == theirs.ranges.take(theirs.visible[ranged])

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Views({list(self)})" if len(self) < 4 else f"<{len(self)} views>"

    @property
    def ids(self) -> Ids:
        return self.table.id.take(slice(self.start, self.stop))

    def ssts(self) -> Ssts:
        """The SST of each view, in the order of the views."""
        return self.table.ssts.take(self.table.sst[self.start : self.stop])

    @property
    def sst_ids(self) -> Ids:
        return self.table.ssts.id.take(self.table.sst[self.start : self.stop])

    @property
    def sizes(self) -> U64:
        """The estimated size of each view's SST."""
        return self.table.ssts.sizes[self.table.sst[self.start : self.stop]]

    @property
    def estimated_size(self) -> int:
        return int(self.sizes.sum())

    def take(self, rows: I64) -> Views:
        return Views(self.table.take(self.start + rows))

    def where(self, keep: Mask) -> Views:
        """The views for which ``keep`` is true."""
        if keep.all():
            return self
        return self.take(np.flatnonzero(keep)) if keep.any() else NO_VIEWS

    def whole_from(self, start: int) -> int:
        """The last place up to ``start`` from which on the views have ids that no view before it has."""
        first = self.ids.first_places()
        while start < len(self) and (earliest := int(first[start:].min())) < start:
            start = earliest
        return start

    def with_distinct_ids(self, chance: Chance) -> Views:
        """The same views. One whose id an earlier view has gets a new id, of the same millisecond."""
        ids = self.ids
        repeats = ids.first_places() != np.arange(len(ids))
        return self._with_new_ids(repeats, chance) if repeats.any() else self

    def projected(self, keys: KeyRange, chance: Chance) -> Views:
        """The views cut down to ``keys``; those that have nothing there are gone. A view that shows another range than
        before gets a new id: another projection of the same view may stand beside it in one tree some day."""
        table = self.alone()
        ranges: list[KeyRange] = []
        # The new range of each old one, and of views that had none; -1 if nothing is left of it.
        renumbered = np.full(len(table.ranges) + 1, -1, np.int64)
        narrowed = np.zeros(len(renumbered), np.bool_)
        for row, old in enumerate([*(table.ranges[i] for i in range(len(table.ranges))), KeyRange()]):
            cut = old.intersect(keys)
            if cut is not None:
                renumbered[row], narrowed[row] = len(ranges), cut != old
                ranges.append(cut)
        visible = renumbered[table.visible]
        kept = np.flatnonzero(visible >= 0)
        cut_down = ViewTable(table.id.take(kept), table.ssts, table.sst[kept], Ranges.of(ranges), visible[kept])
        renewed = Views(cut_down)._with_new_ids(narrowed[table.visible[kept]], chance)
        return renewed.where(~cut_down.bounds().is_empty)

    def _with_new_ids(self, which: Mask, chance: Chance) -> Views:
        table, rows = self.alone(), np.flatnonzero(which)
        ids = Ids(table.id.high.copy(), table.id.low.copy())
        renewed = table.id.take(rows).renewed(chance)
        ids.high[rows], ids.low[rows] = renewed.high, renewed.low
        return Views(ViewTable(ids, table.ssts, table.sst, table.ranges, table.visible))


def _joined(parts: list[Views]) -> list[Views]:
    """The same, with neighbours that show one table joined first."""
    groups: list[list[Views]] = []
    for part in parts:
        if groups and groups[-1][0].table is part.table:
            groups[-1].append(part)
        else:
            groups.append([part])
    return [Views.concat(group) for group in groups]


def _rows(parts: Sequence[Views]) -> I64:
    """The rows of all windows, one window after the other."""
    lengths = np.array([len(part) for part in parts], np.int64)
    before = np.cumsum(lengths) - lengths
    return np.repeat(np.array([part.start for part in parts], np.int64) - before, lengths) + np.arange(lengths.sum())


NO_VIEWS = Views(ViewTable(Ids.of([]), NO_SSTS, np.empty(0, np.int64), NO_RANGES, np.empty(0, np.int64)))
