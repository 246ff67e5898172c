"""The compactor's book (``.compactions``): which compactions were asked for, are running, or ended last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from slate_engine.format.flatbuf.layout import CompactionStatus, SubcompactionStatus
from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import KeyRange
from slate_engine.state.ssts import NO_SSTS, Ssts

__all__ = [
    "Compaction",
    "CompactionStatus",
    "Compactions",
    "Context",
    "DrainSpec",
    "Spec",
    "Subcompaction",
    "SubcompactionStatus",
    "TieredSpec",
    "Worker",
]


@dataclass(frozen=True, slots=True)
class TieredSpec:
    """Merge these views of L0 and these sorted runs of one tree, both newest first, into one run."""

    l0_views: tuple[Ulid, ...]
    sorted_runs: tuple[int, ...]
    destination: int
    segment: bytes = b""
    """The prefix of the segment; empty for the root tree."""


@dataclass(frozen=True, slots=True)
class DrainSpec:
    """Take these views and runs out of a segment, without reading them: the segment's data has expired."""

    segment: bytes
    l0_views: tuple[Ulid, ...]
    sorted_runs: tuple[int, ...]


Spec: TypeAlias = TieredSpec | DrainSpec


@dataclass(frozen=True, slots=True)
class Worker:
    """Who has claimed a compaction, and when it was last heard of."""

    id: str
    last_heartbeat_ms: int


@dataclass(frozen=True)
class Subcompaction:
    """A part of a compaction, by range of keys, and what it has written so far."""

    range: KeyRange
    outputs: Ssts = field(default_factory=lambda: NO_SSTS)
    status: SubcompactionStatus = SubcompactionStatus.IN_PROGRESS


@dataclass(frozen=True)
class Context:
    """What another worker needs in order to go on with a compaction."""

    subcompactions: tuple[Subcompaction, ...] = ()
    retention_min_seq: int = 0


@dataclass(frozen=True)
class Compaction:
    """One job. ``outputs`` counts from ``COMPACTED`` on; before that, progress is in ``context``."""

    id: Ulid
    spec: Spec
    status: CompactionStatus = CompactionStatus.SUBMITTED
    outputs: Ssts = field(default_factory=lambda: NO_SSTS)
    worker: Worker | None = None
    context: Context | None = None

    @property
    def is_active(self) -> bool:
        return self.status not in (CompactionStatus.COMPLETED, CompactionStatus.FAILED)

    def all_outputs(self) -> list[Ssts]:
        """What it has written, finally and so far."""
        parts = self.context.subcompactions if self.context is not None else ()
        return [self.outputs, *(part.outputs for part in parts)]


@dataclass(frozen=True)
class Compactions:
    """All jobs in the book, in ascending order of their ids, which is that of time."""

    compactor_epoch: int = 0
    jobs: tuple[Compaction, ...] = ()

    def job(self, id: Ulid) -> Compaction | None:
        return next((job for job in self.jobs if job.id == id), None)

    def with_job(self, job: Compaction) -> Compactions:
        """With this job, new or instead of the one of the same id."""
        others = [other for other in self.jobs if other.id != job.id]
        return replace(self, jobs=in_order([*others, job]))

    def pruned(self) -> Compactions:
        """Without finished jobs but the newest, which tells garbage collection how far it may go."""
        finished = [job for job in self.jobs if not job.is_active]
        return replace(self, jobs=tuple(job for job in self.jobs if job.is_active or job is finished[-1]))

    @property
    def oldest_ms(self) -> int | None:
        """No SST as young as this may be collected: a job may be about to publish it."""
        return self.jobs[0].id.ms if self.jobs else None


def in_order(jobs: Iterable[Compaction]) -> tuple[Compaction, ...]:
    """By id; where two have the same, the last one counts."""
    return tuple(sorted({job.id: job for job in jobs}.values(), key=lambda job: job.id))
