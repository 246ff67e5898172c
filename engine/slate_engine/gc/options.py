"""What is collected, how often, and how old it has to be. The defaults are SlateDB's."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from slate_engine.errors import InvalidError

DAY = 86_400.0


class Kind(enum.Enum):
    """The kinds of garbage, in the order in which one pass looks for them."""

    DESTROYED = "destroyed"
    CHECKPOINTS = "checkpoints"
    MANIFESTS = "manifests"
    WAL = "wal"
    FENCES = "fences"
    COMPACTED = "compacted"
    COMPACTIONS = "compactions"
    DETACH = "detach"
    TWO_PHASE = "two-phase"


@dataclass(frozen=True, slots=True)
class Task:
    """When to look for one kind, in seconds; what is younger than ``min_age`` is left alone. A dry run only says what it
    would delete."""

    interval: float = 600.0
    min_age: float = 300.0
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.interval <= 0 or self.min_age < 0:
            raise InvalidError(
                f"a task of garbage collection needs an interval above 0 s and a minimum age of 0 s or more, not "
                f"{self.interval:g} and {self.min_age:g}"
            )


@dataclass(frozen=True)
class GcOptions:
    """One task for each kind; None leaves that kind alone. Expired checkpoints and parents that a clone needs no more have
    no age: what counts is when they expire, and what the clone shows."""

    destroyed: Task | None = field(default_factory=lambda: Task(min_age=7 * DAY))
    """Softly destroyed databases. Their minimum age is RFC-0004's ``db_delete_grace``: for so long they can be undeleted.
    With an infinite one only what somebody began to delete for good is collected."""
    checkpoints: Task | None = field(default_factory=Task)
    manifests: Task | None = field(default_factory=Task)
    wal: Task | None = field(default_factory=Task)
    fences: Task | None = field(default_factory=lambda: Task(dry_run=True))
    """Empty WAL files that keep stalled writers out. They cost nothing, so they are only counted unless told otherwise."""
    compacted: Task | None = field(default_factory=Task)
    compactions: Task | None = field(default_factory=Task)
    detach: Task | None = field(default_factory=Task)
    two_phase: Task | None = field(default_factory=lambda: Task(min_age=DAY))
    """What writers left behind on a store whose conditional writes are decided elsewhere."""
    boundary_files: bool = True
    """Without them, nothing stops a writer that stalls for longer than ``min_age``. Only for stores that cannot update an
    object conditionally."""
    sweep_interval: float = 6 * 3600.0
    """How often a long-running collector lists everything; in between it goes by what has changed."""

    def task(self, kind: Kind) -> Task | None:
        found: Task | None = getattr(self, kind.name.lower())
        return found

    @property
    def only_dry(self) -> bool:
        """Whether nothing at all may be changed."""
        return all(task.dry_run for kind in Kind if (task := self.task(kind)) is not None)


def dry(options: GcOptions) -> GcOptions:
    """The same, but nothing is deleted and nothing changed."""
    tasks = {kind.name.lower(): options.task(kind) for kind in Kind}
    dry_tasks = {name: replace(task, dry_run=True) for name, task in tasks.items() if task is not None}
    return replace(options, **dry_tasks)  # type: ignore[arg-type]
