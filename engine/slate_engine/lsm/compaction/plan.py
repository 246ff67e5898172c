"""What to compact: pure functions from the manifest and the compactor's book to jobs.

A tree's *sources* stand in one line, from the newest to the oldest: the SSTs of L0, then the sorted runs. A job merges
neighbours in that line, or a key's versions would get out of order. If it takes any of L0 it takes the oldest ones, because
the manifest remembers only how far L0 was compacted; what L0 gives becomes a new run, or joins the run that follows. Where
several views of L0 have one id, a job takes all of them or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from slate_engine.errors import InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction.specs import Source, destinations, sources
from slate_engine.state.compactions import Compactions, TieredSpec
from slate_engine.state.manifest import Manifest
from slate_engine.state.tree import Tree


class Proposal(NamedTuple):
    """A job to do, and why: the reason is for people."""

    spec: TieredSpec
    reason: str


class Policy(Protocol):
    """Decides what to compact."""

    def propose(self, manifest: Manifest, book: Compactions, limit: int) -> list[Proposal]:
        """At most ``limit`` jobs that can run beside those in ``book``."""
        ...


class Candidate(NamedTuple):
    """A source with its estimated size."""

    source: Source
    size: int


@dataclass(frozen=True)
class Line:
    """The sources of one tree, newest first, and those that are taken."""

    prefix: bytes
    l0: list[Candidate]
    runs: list[Candidate]
    busy: set[Source]
    whole_from: Callable[[int], int]
    """The last place of L0, up to a given one, from which on a job can take all views."""

    def since(self, place: int) -> list[Candidate]:
        """The sources from this place on, newest first, and those before it that have the id of one of them."""
        return [*self.l0, *self.runs][self.whole_from(place) if place < len(self.l0) else place :]

    def spec(self, taken: Sequence[Candidate], destination: int) -> TieredSpec:
        self.busy.update([*(each.source for each in taken), destination])
        return TieredSpec(
            tuple(each.source for each in taken if isinstance(each.source, Ulid)),
            tuple(each.source for each in taken if isinstance(each.source, int)),
            destination,
            self.prefix,
        )

    def is_free(self, taken: Iterable[Candidate], destination: int) -> bool:
        return destination not in self.busy and not any(each.source in self.busy for each in taken)


def lines_of(manifest: Manifest, book: Compactions) -> list[Line]:
    trees = [(b"", manifest.root), *((segment.prefix, segment.tree) for segment in manifest.segments)]
    return [Line(prefix, *_candidates(tree), _busy(prefix, book), tree.l0.whole_from) for prefix, tree in trees]


def _candidates(tree: Tree) -> tuple[list[Candidate], list[Candidate]]:
    l0 = [Candidate(id, int(size)) for id, size in zip(tree.l0.ids, tree.l0.sizes, strict=True)]
    return l0, [Candidate(run.id, run.estimated_size) for run in tree.runs]


def _busy(prefix: bytes, book: Compactions) -> set[Source]:
    specs = [job.spec for job in book.jobs if job.is_active and job.spec.segment == prefix]
    return {*destinations(specs), *(source for spec in specs for source in sources(spec))}


def next_run_id(manifest: Manifest, book: Compactions) -> int:
    """A number for a new run: greater than that of any run of any tree, now or to come."""
    known = {run.id for tree in manifest.trees for run in tree.runs}
    known |= destinations(job.spec for job in book.jobs if job.is_active)
    return max(known, default=-1) + 1


@dataclass(frozen=True)
class SizeTiered:
    """SlateDB's own policy: runs of about the same size are merged into the next size up.

    So many SSTs of L0 become a run; so many neighbouring runs, none more than ``include_size_threshold`` times the
    smallest, become one. A merge waits if its result would only join a queue that is as long as one merge can take.
    """

    min_compaction_sources: int = 4
    max_compaction_sources: int = 8
    include_size_threshold: float = 4.0

    def __post_init__(self) -> None:
        if not 1 <= self.min_compaction_sources <= self.max_compaction_sources:
            raise InvalidError("min_compaction_sources is to be at least 1, and at most max_compaction_sources")

    def propose(self, manifest: Manifest, book: Compactions, limit: int) -> list[Proposal]:
        fresh = next_run_id(manifest, book)

        def pick(line: Line) -> Proposal | None:
            nonlocal fresh
            proposal = self._l0(line, fresh)
            if proposal is not None:
                fresh += 1
                return proposal
            return self._runs(line)

        return in_turn(lines_of(manifest, book), pick, limit)

    def _l0(self, line: Line, fresh: int) -> Proposal | None:
        if len(line.l0) < self.min_compaction_sources:
            return None
        taken = line.l0[line.whole_from(max(len(line.l0) - self.max_compaction_sources, 0)) :]
        if not line.is_free(taken, fresh) or self._must_wait(line, taken, 0):
            return None
        # Two at a time could end in the wrong order: the manifest has one mark for how far L0 is compacted.
        if any(isinstance(source, Ulid) for source in line.busy):
            return None
        reason = f"{len(line.l0)} SSTs in L0, {self.min_compaction_sources} are enough"
        return Proposal(line.spec(taken, fresh), reason)

    def _runs(self, line: Line) -> Proposal | None:
        for start in range(len(line.runs)):
            group: list[Candidate] = []
            for place, run in self._alike(line.runs, start):
                group.append(run)
                assert isinstance(run.source, int)
                if not line.is_free(group, run.source) or self._must_wait(line, group, place + 1):
                    group.pop()
                    break
            if len(group) >= self.min_compaction_sources:
                taken = group[-self.max_compaction_sources :]
                destination = taken[-1].source
                assert isinstance(destination, int)
                reason = f"{len(group)} neighbouring runs within a factor of {self.include_size_threshold:g} in size"
                return Proposal(line.spec(taken, destination), reason)
        return None

    def _alike(self, runs: Sequence[Candidate], start: int) -> Iterator[tuple[int, Candidate]]:
        """The runs from ``start`` on, as long as each is not much larger than the smallest before it."""
        smallest = runs[start].size
        yield start, runs[start]
        for place in range(start + 1, len(runs)):
            if runs[place].size > self._times_threshold(smallest):
                return
            smallest = min(smallest, runs[place].size)
            yield place, runs[place]

    def _must_wait(self, line: Line, taken: Sequence[Candidate], following: int) -> bool:
        """Whether the result would join runs of its own size of which there are as many already as a merge takes."""
        if following >= len(line.runs):
            return False
        if line.runs[following].size > self._times_threshold(sum(each.size for each in taken)):
            return False
        return sum(1 for _ in self._alike(line.runs, following)) >= self.max_compaction_sources

    def _times_threshold(self, size: int) -> int:
        # In 32 bits, as the original reckons: both must come to the same decision.
        return int(np.float32(size) * np.float32(self.include_size_threshold))


@dataclass(frozen=True)
class Leveled:
    """One run for each level, each ``fanout`` times the one above: fewer runs to read than with tiers, more to write.

    L0 goes into the newest run, and on into the next as long as what has come together is not small against it.
    """

    min_l0: int = 4
    fanout: float = 10.0

    def __post_init__(self) -> None:
        if self.min_l0 < 1 or self.fanout <= 1:
            raise InvalidError("min_l0 is to be at least 1, and fanout greater than 1")

    def propose(self, manifest: Manifest, book: Compactions, limit: int) -> list[Proposal]:
        fresh = next_run_id(manifest, book)

        def pick(line: Line) -> Proposal | None:
            nonlocal fresh
            if len(line.l0) < self.min_l0 or line.busy:
                return None
            taken, size = list(line.l0), sum(each.size for each in line.l0)
            for run in line.runs:
                if size * self.fanout < run.size:
                    break
                taken.append(run)
                size += run.size
            last = taken[-1].source
            destination = last if isinstance(last, int) else fresh
            fresh += destination == fresh
            reason = f"{len(line.l0)} SSTs in L0 and {len(taken) - len(line.l0)} levels that they would fill"
            return Proposal(line.spec(taken, destination), reason)

        return in_turn(lines_of(manifest, book), pick, limit)


@dataclass(frozen=True)
class Major:
    """Everything of a tree into one run."""

    rewrite: bool = False
    """Also a tree that is one run already, to drop what has expired since. For a compaction that is asked for, not for a
    compactor that goes on for ever."""
    segments: frozenset[bytes] | None = None
    """Only these trees, by their prefixes (the root's is empty); None for all."""

    def propose(self, manifest: Manifest, book: Compactions, limit: int) -> list[Proposal]:
        fresh = next_run_id(manifest, book)

        def pick(line: Line) -> Proposal | None:
            nonlocal fresh
            everything = [*line.l0, *line.runs]
            is_one_run = len(everything) == 1 and not line.l0
            if not everything or line.busy or (is_one_run and not self.rewrite):
                return None
            if self.segments is not None and line.prefix not in self.segments:
                return None
            last = everything[-1].source
            destination = last if isinstance(last, int) else fresh
            fresh += destination == fresh
            reason = f"all of a tree: {len(line.l0)} SSTs in L0 and {len(line.runs)} runs"
            return Proposal(line.spec(everything, destination), reason)

        return in_turn(lines_of(manifest, book), pick, limit)


def in_turn(lines: list[Line], pick: Callable[[Line], Proposal | None], limit: int) -> list[Proposal]:
    """One job for each tree, and then again, until there is no more to do or no more room. The tree with the most of L0
    comes first: its writer may be waiting."""
    lines.sort(key=lambda line: -len(line.l0))
    proposals: list[Proposal] = []
    while True:
        before = len(proposals)
        for line in lines:
            if len(proposals) < limit and (proposal := pick(line)) is not None:
                proposals.append(proposal)
        if len(proposals) == before:
            return proposals
