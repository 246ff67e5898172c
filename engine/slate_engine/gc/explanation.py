"""Why each object of a database is there: the live state, a checkpoint, a clone, its age, or nothing at all."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from uuid import UUID

from slate_engine.gc.report import dollars_a_month
from slate_engine.state.manifest import Checkpoint
from slate_engine.state.tombstone import show_second
from slate_engine.store.cost import PriceList

MOST_HOLDERS = 8
"""So many holders of one object are named; the others are counted."""


class Verdict(enum.Enum):
    HELD = "held"
    YOUNG = "too young"
    """Nothing is known to need it, but it may be about to be published, or somebody may still be reading it."""
    GARBAGE = "garbage"
    UNKNOWN = "unknown"
    """Not an object of a database; nobody touches it."""


@dataclass(frozen=True)
class Holder:
    """Somebody who needs objects of ``database``: its live state, or a checkpoint of it; ``clone`` is the database for which
    the checkpoint was made. Of one whose manifest is ``missing`` nobody knows what it needs."""

    database: str
    checkpoint: Checkpoint | None = None
    clone: str | None = None
    missing: bool = False

    def describe(self, now_ms: int) -> str:
        """For people: whose it is, its name, its age, and until when it holds on."""
        if self.checkpoint is None:
            return f"the live state of {self.database!r}"
        named = f" ({self.checkpoint.name})" if self.checkpoint.name else ""
        clone = f", for clone {self.clone!r}" if self.clone is not None else ""
        age = max(0, now_ms // 1000 - self.checkpoint.create_time_s)
        if self.checkpoint.expire_time_s is None:
            until = "never expires"
        elif self.checkpoint.is_expired(now_ms / 1000):
            until = f"expired {show_second(self.checkpoint.expire_time_s)}"
        else:
            until = f"expires {show_second(self.checkpoint.expire_time_s)}"
        return f"checkpoint {self.checkpoint.id}{named} of {self.database!r}{clone}, {age} s old, {until}"


@dataclass(frozen=True)
class Holding:
    """What one holder costs: the objects that it needs, and those among them that would go if only it went."""

    holder: Holder
    objects: int
    size: int
    alone: int

    def dollars_a_month(self, prices: PriceList) -> float:
        """What storing the bytes costs that nobody else needs."""
        return dollars_a_month(self.alone, prices)


@dataclass(frozen=True, slots=True)
class Explained:
    """One object: who needs it, and if nobody does, what becomes of it."""

    name: str
    kind: str
    size: int
    age_s: int
    verdict: Verdict
    holders: tuple[Holder, ...] = ()
    more_holders: int = 0
    why: str = ""


@dataclass(frozen=True)
class Borrowed:
    """SSTs of a parent that this clone shows, and the checkpoint by which the parent keeps them. Their size is estimated
    from the manifest."""

    path: str
    final_checkpoint_id: UUID | None
    ssts: int
    size: int


@dataclass(frozen=True)
class Explanation:
    """All objects in the order of their names; who holds them, the dearest first; and what lies with parents."""

    path: str
    now_ms: int
    objects: list[Explained]
    holdings: list[Holding] = field(default_factory=list)
    borrowed: list[Borrowed] = field(default_factory=list)

    def size(self, verdict: Verdict | None = None) -> int:
        """Bytes in all, or of those objects of which this is said."""
        return sum(each.size for each in self.objects if verdict in (None, each.verdict))
