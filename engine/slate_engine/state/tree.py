"""LSM trees as the manifest lists them: level 0 and sorted runs, of the root and of each segment."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from slate_engine.format.columns import I64
from slate_engine.format.ids import Ulid
from slate_engine.state.flat import FlatTrees
from slate_engine.state.invariants import Flaw, find_flaw
from slate_engine.state.ssts import Ssts
from slate_engine.state.views import NO_VIEWS, Views


@dataclass(frozen=True)
class SortedRun:
    """SSTs in ascending order of keys. Neighbours may share one key, whose versions straddle them."""

    id: int
    views: Views

    @property
    def estimated_size(self) -> int:
        return self.views.estimated_size


@dataclass(frozen=True)
class Tree:
    """One LSM tree. Both lists begin with the newest: the first version of a key that one meets is the latest."""

    l0: Views = field(default_factory=lambda: NO_VIEWS)
    runs: tuple[SortedRun, ...] = ()
    last_compacted_l0_view: Ulid | None = None
    """The newest view of L0 that was ever compacted; a writer drops it and all that follow it in its own list."""
    last_compacted_l0_sst: Ulid | None = None
    """The same as an SST id: known only from manifests of version 1."""

    @property
    def newest_l0_ms(self) -> int | None:
        """The greatest time of an SST in L0; if there is none, of the newest one that was compacted."""
        if self.l0:
            return int(self.l0.sst_ids.ms.max())
        return None if self.last_compacted_l0_view is None else self.last_compacted_l0_view.ms

    @property
    def is_empty(self) -> bool:
        return not self.l0 and not any(run.views for run in self.runs)

    def views(self) -> Iterator[Views]:
        """Level 0 and then every run, from the newest to the oldest."""
        yield self.l0
        for run in self.runs:
            yield run.views

    def run(self, id: int) -> SortedRun | None:
        return next((run for run in self.runs if run.id == id), None)

    def with_l0(self, newer: Views) -> Tree:
        """These views before all others of L0."""
        return replace(self, l0=Views.concat([newer, self.l0]))

    def without_oldest_l0(self, n: int) -> Tree:
        return replace(self, l0=self.l0[: len(self.l0) - n])

    def with_run(self, run: SortedRun) -> Tree:
        """The run at its place in the descending order of ids, instead of one with the same id."""
        others = [other for other in self.runs if other.id != run.id]
        return replace(self, runs=tuple(sorted([*others, run], key=lambda each: -each.id)))

    def without_runs(self, ids: Iterable[int]) -> Tree:
        gone = set(ids)
        return replace(self, runs=tuple(run for run in self.runs if run.id not in gone))


@dataclass(frozen=True)
class Segment:
    """A tree of its own for all keys that begin with ``prefix``."""

    prefix: bytes
    tree: Tree


@dataclass(frozen=True)
class Trees:
    """The root tree and the segments, in ascending order of their prefixes."""

    root: Tree = field(default_factory=Tree)
    segments: tuple[Segment, ...] = ()

    def __iter__(self) -> Iterator[Tree]:
        yield self.root
        for segment in self.segments:
            yield segment.tree

    def tree(self, prefix: bytes) -> Tree | None:
        """The tree of a segment; the root for an empty prefix."""
        if not prefix:
            return self.root
        place = bisect_left(self.segments, prefix, key=lambda segment: segment.prefix)
        found = place < len(self.segments) and self.segments[place].prefix == prefix
        return self.segments[place].tree if found else None

    def with_tree(self, prefix: bytes, tree: Tree) -> Trees:
        """The same with this tree for ``prefix``, new or instead of the one there was."""
        if not prefix:
            return replace(self, root=tree)
        others = [segment for segment in self.segments if segment.prefix != prefix]
        return replace(self, segments=tuple(sorted([*others, Segment(prefix, tree)], key=lambda each: each.prefix)))

    def with_run_ids_from(self, first: int) -> Trees:
        """The same with run ids from ``first`` on, which occur once over all trees, and descend in each."""
        ids = itertools.count(first + sum(len(tree.runs) for tree in self) - 1, -1)

        def numbered(tree: Tree) -> Tree:
            return replace(tree, runs=tuple(SortedRun(next(ids), run.views) for run in tree.runs))

        return Trees(numbered(self.root), tuple(Segment(each.prefix, numbered(each.tree)) for each in self.segments))

    def shows_same(self, other: Trees) -> bool:
        """Whether both show the same keys of the same SSTs at the same places, whatever the ids of the views."""
        mine, theirs = self.flat, other.flat
        return (
            [segment.prefix for segment in self.segments] == [segment.prefix for segment in other.segments]
            and [tree.last_compacted_l0_view for tree in self] == [tree.last_compacted_l0_view for tree in other]
            and np.array_equal(mine.l0_offsets, theirs.l0_offsets)
            and np.array_equal(mine.run_offsets, theirs.run_offsets)
            and np.array_equal(mine.run_ids, theirs.run_ids)
            and np.array_equal(mine.view_offsets, theirs.view_offsets)
            and Views(mine.views).shows_same(Views(theirs.views))
        )

    @property
    def ssts(self) -> Ssts:
        """The pool: every SST that any view shows, once, in ascending order of ids."""
        return self.flat.views.ssts

    @cached_property
    def flat(self) -> FlatTrees:
        trees = list(self)
        runs = [run for tree in trees for run in tree.runs]
        parts = [*(tree.l0 for tree in trees), *(run.views for run in runs)]
        return FlatTrees(
            Views.concat(parts).alone().pruned(),
            _offsets(len(tree.l0) for tree in trees),
            _offsets(len(tree.runs) for tree in trees),
            np.array([run.id for run in runs], np.uint64),
            _offsets(len(run.views) for run in runs),
        )

    @cached_property
    def flaw(self) -> Flaw | None:
        """What would keep SlateDB from reading these trees; found once, however often they are written."""
        return find_flaw(self.flat, [segment.prefix for segment in self.segments])

    @property
    def newest_l0_ms(self) -> int | None:
        """The watermark of level 0 over all trees: no new L0 may be older than this."""
        times = [tree.newest_l0_ms for tree in self]
        return max((ms for ms in times if ms is not None), default=None)


def _offsets(lengths: Iterable[int]) -> I64:
    return np.cumsum([0, *lengths], dtype=np.int64)
