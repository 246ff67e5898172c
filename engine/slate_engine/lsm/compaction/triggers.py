"""Reasons to compact that sizes do not show: rows whose time has come, and tombstones that outweigh what they hide.

Both kinds of garbage go only where nothing older lies below, so each trigger wants everything from some source of a tree
down to its oldest run. They come after the policy: what that wants to merge anyway need not be asked for twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from slate_engine.errors import InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction.plan import Candidate, Line, Proposal, in_turn, lines_of, next_run_id
from slate_engine.state.compactions import Compactions
from slate_engine.state.manifest import Manifest
from slate_engine.state.tree import Tree
from slate_engine.state.views import Views


class Counts(NamedTuple):
    """What the statistics of an SST say."""

    rows: int
    tombstones: int


@dataclass(frozen=True)
class Triggers:
    """Off unless asked for, as SlateDB has nothing like it."""

    max_age: float | None = None
    """Seconds, by the database's own clock, after which a source is rewritten, so that rows which have expired since go.
    The clock is that by which rows expire: it stands still while nobody writes, and then nothing expires either."""
    max_tombstones: float | None = None
    """The share of tombstones among the rows of neighbouring oldest runs from which on they are merged."""

    def __post_init__(self) -> None:
        if self.max_age is not None and self.max_age <= 0:
            raise InvalidError("max_age of a compaction's triggers is to be more than 0 seconds")
        if self.max_tombstones is not None and not 0 < self.max_tombstones <= 1:
            raise InvalidError("max_tombstones is a share: more than 0, and at most 1")

    def propose(
        self, manifest: Manifest, book: Compactions, limit: int, counts: Mapping[Ulid, Counts]
    ) -> list[Proposal]:
        """At most ``limit`` jobs that can run beside those in ``book``. ``counts`` are those of all SSTs in runs, which
        only ``max_tombstones`` looks at; SSTs without statistics are missing."""
        fresh = next_run_id(manifest, book)

        def pick(line: Line) -> Proposal | None:
            nonlocal fresh
            tree = manifest.trees.tree(line.prefix)
            assert tree is not None
            place, reason = self._oldest_due(tree, manifest.last_l0_clock_tick) or self._heavy(tree, counts) or (-1, "")
            if place < 0:
                return None
            taken = line.since(place)
            last = taken[-1].source
            destination = last if isinstance(last, int) else fresh
            if not _is_free(line, taken, destination):
                return None
            fresh += destination == fresh
            return Proposal(line.spec(taken, destination), reason)

        return in_turn(lines_of(manifest, book), pick, limit)

    def _oldest_due(self, tree: Tree, now_ms: int) -> tuple[int, str] | None:
        """The first source, from the newest on, that is too old, and with it all below it."""
        if self.max_age is None:
            return None
        sources = [tree.l0[i : i + 1] for i in range(len(tree.l0))] + [run.views for run in tree.runs]
        for place, views in enumerate(sources):
            age = (now_ms - _oldest_ms(views, now_ms)) / 1000
            if age > self.max_age:
                return place, f"rows that are {age:.0f} s old, where {self.max_age:g} s is the most"
        return None

    def _heavy(self, tree: Tree, counts: Mapping[Ulid, Counts]) -> tuple[int, str] | None:
        """The most of the oldest runs in which tombstones have too large a share.

        The oldest run alone does not count: its tombstones have outlived a compaction because somebody reads behind them,
        and would outlive the next as well."""
        if self.max_tombstones is None:
            return None
        runs = [_sum(run.views, counts) for run in tree.runs]
        below = list(accumulate(reversed(runs), lambda a, b: Counts(a.rows + b.rows, a.tombstones + b.tombstones)))
        for start, (rows, tombstones) in enumerate(reversed(below)):
            if start < len(runs) - 1 and tombstones and tombstones >= self.max_tombstones * rows:
                share = tombstones / rows
                return len(tree.l0) + start, f"{share:.0%} tombstones in the {len(runs) - start} oldest runs"
        return None


def _is_free(line: Line, taken: Sequence[Candidate], destination: int) -> bool:
    """Beside other work on the sources, also other work on L0 stands in the way: it would end in the wrong order."""
    if not line.is_free(taken, destination):
        return False
    return not any(isinstance(source, Ulid) for source in line.busy) or not isinstance(taken[0].source, Ulid)


def _oldest_ms(views: Views, otherwise: int) -> int:
    """When the oldest SST was written: its id says so."""
    return min((int(ms) for ms in views.ssts().id.ms), default=otherwise)


def _sum(views: Views, counts: Mapping[Ulid, Counts]) -> Counts:
    known = [counts[id] for id in views.sst_ids if id in counts]
    return Counts(sum(each.rows for each in known), sum(each.tombstones for each in known))
