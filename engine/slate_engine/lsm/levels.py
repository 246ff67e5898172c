"""The trees of a manifest as a reader goes through them: levels from the newest to the oldest, tables by key.

An L0 view is a level of its own. A sorted run is one level, whose tables are disjoint but for a key that two neighbours
may share. A key belongs to one tree only, so the levels of all trees can stand in one list.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property

from slate_engine.format.columns import U64, Bytes
from slate_engine.format.key_range import BoundType, KeyRange
from slate_engine.state.tree import Tree, Trees
from slate_engine.state.views import SstView, Views


class Level:
    """Views in ascending order of keys."""

    def __init__(self, views: Views) -> None:
        self.views = views
        bounds = views.alone().bounds()
        self._lower: list[bytes] = [key or b"" for key in bounds.lower]
        self._upper: list[bytes | None] = list(bounds.upper)
        self._open: list[bool] = bounds.open.tolist()
        self._made: dict[int, SstView] = {}

    @property
    def lower_keys(self) -> Bytes:
        return Bytes.of(self._lower)

    @property
    def sizes(self) -> U64:
        return self.views.sizes

    def of_key(self, key: bytes) -> Iterator[SstView]:
        """The views that may hold ``key``, in ascending order: the one with its newest versions first."""
        last = bisect_right(self._lower, key)
        first = last
        while first > 0 and self._reaches(first - 1, key):
            first -= 1
        return map(self._view, range(first, last))

    def overlapping(self, wanted: KeyRange) -> Iterator[SstView]:
        """The views that may hold keys of ``wanted``."""
        last = len(self._lower)
        if wanted.end.bounded:
            last = bisect_right(self._lower, wanted.end.key)
            if wanted.end.type is BoundType.EXCLUDED:
                while last > 0 and self._lower[last - 1] == wanted.end.key:
                    last -= 1
        first = 0
        if wanted.start.bounded:
            first = min(bisect_right(self._lower, wanted.start.key), last)
            while first > 0 and self._reaches(first - 1, wanted.start.key):
                first -= 1
        return map(self._view, range(first, last))

    def _view(self, i: int) -> SstView:
        """View ``i``, made from the columns once."""
        view = self._made.get(i)
        if view is None:
            view = self._made[i] = self.views[i]
        return view

    def _reaches(self, i: int, key: bytes) -> bool:
        upper = self._upper[i]
        return upper is None or key < upper or (key == upper and not self._open[i])


class TreeLevels:
    """The levels of one tree, newest first; made when first asked for."""

    def __init__(self, tree: Tree, prefix: bytes = b"") -> None:
        self._tree = tree
        self.prefix = prefix

    @cached_property
    def levels(self) -> list[Level]:
        l0 = [Level(self._tree.l0[i : i + 1]) for i in range(len(self._tree.l0))]
        return l0 + [Level(run.views) for run in self._tree.runs if len(run.views)]


class Levels:
    """All trees of a manifest."""

    def __init__(self, trees: Trees) -> None:
        self._root = TreeLevels(trees.root)
        self._segments = [TreeLevels(segment.tree, segment.prefix) for segment in trees.segments]
        self._prefixes = [segment.prefix for segment in trees.segments]

    def of_key(self, key: bytes) -> Iterator[SstView]:
        """The views that may hold ``key``, from the newest to the oldest."""
        for tree in self._trees_of(key):
            for level in tree.levels:
                yield from level.of_key(key)

    def overlapping(self, wanted: KeyRange) -> list[Level]:
        """The levels that have any view in ``wanted``."""
        return [level for tree in self._all() for level in tree.levels if any(True for _ in level.overlapping(wanted))]

    def _all(self) -> Iterator[TreeLevels]:
        yield self._root
        yield from self._segments

    def _trees_of(self, key: bytes) -> Iterator[TreeLevels]:
        yield self._root
        # Prefixes are an antichain: at most one of them begins the key, and it is the last one that is not greater.
        place = bisect_right(self._prefixes, key) - 1
        if place >= 0 and key.startswith(self._prefixes[place]):
            yield self._segments[place]
