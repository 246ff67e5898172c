"""A plan while it is being made: the steps write into it what is to be done and what is to be said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

from slate_operator.admin.database import DatabaseFacts, OperationFacts, Owner
from slate_operator.api.conditions import Condition, said
from slate_operator.api.database import Blocker
from slate_operator.kube.cluster import Body, Key, Kind
from slate_operator.reconcile.observed import Answer, Ask, Look, Observed, Whose, Work
from slate_operator.reconcile.outcome import Happening


class Unanswered(Exception):
    """The plan depends on something that the database has not been asked yet."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        self.ask = ask


@dataclass(frozen=True, slots=True)
class Halt:
    """Why the writer, the compactor and the readers do not run."""

    reason: str
    message: str
    stalled: bool = False
    """Nothing but a change by the user helps."""


@dataclass(slots=True)
class Draft:
    """What is to be done, in this order: finalizer, applies, removals, end."""

    seen: Observed
    keep_finalizer: bool = False
    applies: list[tuple[Kind, Body]] = field(default_factory=list)
    removals: list[tuple[Kind, Key]] = field(default_factory=list)
    release: bool = False
    """Take our finalizer off, last of all."""
    replicas: dict[str, int] = field(default_factory=dict)
    """How many pods of each role there should be, for those that are to be reported on."""
    conditions: list[Condition] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    events: list[Happening] = field(default_factory=list)
    blockers: list[Blocker] = field(default_factory=list)
    deadline: float | None = None
    """The end of a grace period, as it was known before until somebody knows better."""
    halt: Halt | None = None
    foreign: bool = False
    """The path belongs to another object, so that nothing of what is there goes into the status."""
    again_in: float | None = None

    # --- asking --------------------------------------------------------------------------------------------------

    def ask(self, ask: Ask) -> Answer:
        answer = self.seen.answers.get(ask)
        if answer is None:
            raise Unanswered(ask)
        return answer

    def look(self) -> tuple[Answer, DatabaseFacts | None]:
        answer = self.ask(Look())
        return answer, answer.value if isinstance(answer.value, DatabaseFacts) else None

    def whose(self) -> tuple[Answer, Owner | None]:
        answer = self.ask(Whose())
        return answer, answer.value if isinstance(answer.value, Owner) else None

    def work(
        self, name: str, kind: str, *, of_source: bool = False, **arguments: str | int | None
    ) -> tuple[Answer, OperationFacts]:
        """Have something done under an id that follows from ``name``; without one it is the database's own uid."""
        uid = self.seen.database.metadata.uid
        id = str(uuid5(UUID(uid), name)) if name else uid
        given = {name: value for name, value in arguments.items() if value is not None}
        answer = self.ask(Work(id, kind, tuple(sorted(given.items())), of_source))
        if isinstance(answer.value, OperationFacts):
            return answer, answer.value
        return answer, OperationFacts(id, "unknown")

    # --- doing ---------------------------------------------------------------------------------------------------

    def apply(self, kind: Kind, body: Body | None) -> None:
        if body is not None:
            self.applies.append((kind, body))

    def remove(self, kind: Kind, name: str) -> None:
        self.removals.append((kind, Key(self.seen.database.metadata.namespace, name)))

    def come_back(self, seconds: float | None) -> None:
        """No later than after so long."""
        if seconds is not None:
            soon = max(0.5, seconds)
            self.again_in = soon if self.again_in is None else min(self.again_in, soon)

    # --- saying --------------------------------------------------------------------------------------------------

    def say(self, type: str, status: bool | None, reason: str, message: str = "") -> None:
        self.conditions = [each for each in self.conditions if each.type != type]
        self.conditions.append(said(type, status, reason, message))

    def hold(self, reason: str, message: str, *, stalled: bool = False) -> None:
        """Nothing but the collector runs, for this reason; the first one counts."""
        if self.halt is None:
            self.halt = Halt(reason, message, stalled)

    def block(self, kind: str, name: str, message: str) -> None:
        self.blockers.append(Blocker(kind=kind, name=name, message=message))

    def happened(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.events.append(Happening(reason, message, warning))


@dataclass(frozen=True, slots=True)
class Plan:
    """What comes of it: either a question to ask first, or all that is to be done."""

    ask: Ask | None = None
    draft: Draft | None = None


def problem_of(operation: OperationFacts) -> str:
    """In words."""
    problem: Mapping[str, Any] = operation.problem
    return str(problem.get("detail") or problem.get("title") or "it failed without a word")
