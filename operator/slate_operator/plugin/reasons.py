"""Why something is not as it should be: everything that is known, the cause before its consequences.

Whoever asks has seen that an object is not ready or does not go away. The answer is scattered: over conditions, what holds
a deletion, the state of pods and events. Here it is gathered, each thing once, with what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from slate_operator import names
from slate_operator.api.bulk_read import BulkRead
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.clone import Clone
from slate_operator.api.conditions import Condition, find, holds
from slate_operator.api.database import SlateDatabase
from slate_operator.api.schedule import CheckpointSchedule
from slate_operator.clock import seconds_of
from slate_operator.plugin.view import View, Warned
from slate_operator.plugin.words import ago, when

Object = SlateDatabase | Checkpoint | Clone | CheckpointSchedule | BulkRead

RECENT_SECONDS = 3600
"""Events that are older say nothing about the present."""

_BAD_IF_TRUE = (
    names.STALLED,
    names.CONTENDED,
    names.DELETION_BLOCKED,
    names.PAUSED,
    names.HIBERNATED,
    names.RECONCILING,
)
_NEVER_BAD = (names.ATTACHED,)
_SETTLES = (names.RECONCILING, names.HIBERNATED)
"""What is wanted, or passes by itself."""
_SUMS = (names.READY, names.RECONCILING, names.STALLED)
"""These speak of the whole, in words that another condition has said before."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is in the way, or that one should know of."""

    about: str
    reason: str
    message: str
    blocks: bool = True
    """False if it only explains."""


def reasons(view: View, thing: Object, now: float) -> list[Finding]:
    """What keeps an object from being as it should be."""
    found = [*_deletion(thing, now), *_unseen(thing), *_conditions(thing)]
    if isinstance(thing, SlateDatabase):
        found += _pods(view, thing)
        found += _dependants(view, thing)
        # What was the matter with a pod that is ready now is over.
        sick = (("Pod", pod.name) for pod in view.pods_of(thing) if not pod.ready)
        about = {("SlateDatabase", thing.metadata.name), *sick}
    else:
        if found:
            found += _database_of(view, thing)
        about = {(thing.definition.kind, thing.metadata.name)}
    found += list(_events(_about(view.warnings, thing.metadata.namespace, about), now, found))
    return _each_once(found)


def troubled(view: View, now: float) -> list[tuple[Object, list[Finding]]]:
    """All objects with something in their way."""
    everything: list[Object] = [*view.databases, *view.checkpoints, *view.clones, *view.schedules, *view.reads]
    told = [(thing, reasons(view, thing, now)) for thing in everything]
    return [(thing, found) for thing, found in told if any(each.blocks for each in found)]


def name_of(thing: Object) -> str:
    return f"{thing.definition.kind} {thing.metadata.name}"


def _deletion(thing: Object, now: float) -> Iterator[Finding]:
    if thing.metadata.deletion_timestamp is None:
        return
    asked = when(thing.metadata.deletion_timestamp, now)
    if not isinstance(thing, SlateDatabase):
        held = ", ".join(thing.metadata.finalizers) or "nothing"
        yield Finding(name_of(thing), "Deleting", f"its deletion was asked for {asked}; {held} holds it", blocks=False)
        return
    progress = thing.status.deletion
    words = f"its deletion was asked for {asked}, with the policy {thing.spec.deletion_policy}"
    if progress is not None and progress.deadline is not None:
        words += f"; the grace ends {when(progress.deadline, now)}"
    words += ". `kubectl slate undelete` brings it back"
    yield Finding(name_of(thing), "Deleting", words, blocks=False)
    for blocker in progress.blocked_by if progress is not None else ():
        yield Finding(f"{blocker.kind} {blocker.name}".strip(), "BlocksDeletion", blocker.message)


def _unseen(thing: Object) -> Iterator[Finding]:
    """An operator that does not look is the cause of everything else that is wrong."""
    seen, wanted = thing.status.observed_generation, thing.metadata.generation
    if seen >= wanted or holds(thing.status.conditions, names.PAUSED):
        return
    said = "the operator has not looked at it yet" if seen < 0 else "the operator has not looked at its last change yet"
    yield Finding(
        name_of(thing),
        "NotObserved",
        f"{said}. If this lasts, see whether the operator runs and watches this namespace: "
        f"kubectl get pods -A -l {names.LABEL_NAME}={names.MANAGED_BY}",
    )


def _conditions(thing: Object) -> Iterator[Finding]:
    """The particular ones before Ready, which is their sum and repeats the worst of them. What is under way passes."""
    conditions = thing.status.conditions
    under_way = holds(conditions, names.RECONCILING) and not holds(conditions, names.STALLED)
    for condition in sorted(conditions, key=lambda each: (each.type in _SUMS, each.type)):
        if condition.type in _NEVER_BAD or not _is_bad(condition) or _is_of_deletion(thing, condition):
            continue
        said = condition.message or f"it is {condition.status}"
        told = said if condition.type in _SUMS else f"{condition.type}: {said}"
        yield Finding(name_of(thing), condition.reason, told, blocks=not under_way and condition.type not in _SETTLES)


def _pods(view: View, database: SlateDatabase) -> Iterator[Finding]:
    for pod in view.pods_of(database):
        if pod.trouble:
            yield Finding(f"Pod {pod.name}", pod.role, pod.trouble)
        elif not pod.ready and pod.phase != "Terminating":
            yield Finding(f"Pod {pod.name}", pod.role, f"not ready yet ({pod.phase})", blocks=False)


def _dependants(view: View, database: SlateDatabase) -> Iterator[Finding]:
    dependants: list[Checkpoint | Clone | BulkRead] = [
        *view.checkpoints_of(database),
        *view.clones_of(database),
        *view.reads_of(database),
    ]
    for thing in dependants:
        ready = find(thing.status.conditions, names.READY)
        if ready is not None and ready.status == "False":
            yield Finding(name_of(thing), ready.reason, ready.message, blocks=False)


def _database_of(view: View, thing: Checkpoint | Clone | CheckpointSchedule | BulkRead) -> Iterator[Finding]:
    """A checkpoint waits for its database: what that says is the reason that counts."""
    match thing:
        case Checkpoint():
            name: str | None = thing.spec.database_ref.name
        case Clone():
            name = view.source_of(thing)
        case CheckpointSchedule():
            name = thing.spec.template.spec.database_ref.name
        case BulkRead():
            name = view.read_by(thing)
    for database in view.databases:
        if (database.metadata.namespace, database.metadata.name) == (thing.metadata.namespace, name):
            yield from (each for each in _conditions(database) if each.blocks)


def _events(events: Iterable[Warned], now: float, told: Iterable[Finding]) -> Iterator[Finding]:
    """The newest of each sort, unless it is about what was told already: a condition that changes is an event as well."""
    known = {(each.about, each.reason) for each in told}
    newest = {(f"{event.kind} {event.name}", event.reason): event for event in events}
    for (about, reason), event in newest.items():
        if (about, reason) not in known and event.last and now - seconds_of(event.last) <= RECENT_SECONDS:
            times = f", {event.count} times" if event.count > 1 else ""
            yield Finding(about, reason, f"{event.message} ({ago(event.last, now)} ago{times})", blocks=False)


def _about(warnings: Sequence[Warned], namespace: str, about: set[tuple[str, str]]) -> list[Warned]:
    return [each for each in warnings if each.namespace == namespace and (each.kind, each.name) in about]


def _is_of_deletion(thing: Object, condition: Condition) -> bool:
    """Whether it says again what the deletion's own account has said, blocker by blocker."""
    listed = isinstance(thing, SlateDatabase) and thing.status.deletion is not None and thing.status.deletion.blocked_by
    return condition.reason == "Deleting" or bool(listed and condition.type == names.DELETION_BLOCKED)


def _is_bad(condition: Condition) -> bool:
    return condition.status == "True" if condition.type in _BAD_IF_TRUE else condition.status != "True"


def _each_once(findings: Iterable[Finding]) -> list[Finding]:
    """Ready says again what another condition said, and a condition what a pod said: the first to say it is enough."""
    kept: list[Finding] = []
    for each in findings:
        if not any(each.message == other.message or (each.message and each.message in other.message) for other in kept):
            kept.append(each)
    return kept
