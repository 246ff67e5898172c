"""What is said of a database when everything that could be done has been done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slate_operator import names
from slate_operator.admin.database import DatabaseFacts
from slate_operator.api.amount import size
from slate_operator.api.conditions import Condition, find, holds, said
from slate_operator.api.database import Deletion, Endpoints
from slate_operator.build.naming import Family
from slate_operator.clock import stamp
from slate_operator.kube.cluster import SERVICES, Body, Kind, LeftBehind, NameTaken, Refused
from slate_operator.names import Port, Role
from slate_operator.reconcile.deletion import requested_at
from slate_operator.reconcile.draft import Draft
from slate_operator.reconcile.observed import UNFINISHED, Answer, Look
from slate_operator.reconcile.outcome import Happening, Outcome
from slate_operator.reconcile.rollout import ROLLING_OUT, role_condition

TYPES = {
    Role.GC: names.GC_READY,
    Role.WRITER: names.WRITER_READY,
    Role.COMPACTOR: names.COMPACTOR_READY,
    Role.READER: names.READERS_READY,
}
TOLD = (names.READY, names.OWNED, names.CONTENDED, names.DELETION_BLOCKED, names.STORAGE_AVAILABLE)
"""Conditions whose changes are events as well."""
LOOK_FOR_LEFTOVERS = 5.0
"""How often it is looked whether what is in the way has gone."""

Named = tuple[Kind, str]
"""An object of the database's namespace."""


def reported(
    draft: Draft, applied: Mapping[str, Body], refusals: Mapping[Named, Refused], cluster_domain: str
) -> Outcome:
    """``applied`` are the Deployments, by role, as they are now; ``refusals`` is what could not be made, and why."""
    seen, database = draft.seen, draft.seen.database
    if draft.release:
        return Outcome(events=draft.events, gone=True)
    refused = list(refusals.values())
    conditions = {each.type: each for each in draft.conditions}
    for role, wanted in draft.replicas.items():
        conditions[TYPES[role]] = role_condition(TYPES[role], applied.get(role), seen.pods.get(role, ()), wanted)
    if draft.blockers:
        words = "; ".join(f"{each.kind} {each.name}: {each.message}" for each in draft.blockers)
        conditions[names.DELETION_BLOCKED] = said(names.DELETION_BLOCKED, True, _blocked_by(draft), words)
    paused = database.spec.paused
    if not paused:
        _conclude(draft, conditions, refused)
    if refused or draft.halt is not None or any(each.reason == ROLLING_OUT for each in conditions.values()):
        draft.come_back(60.0)
    if any(isinstance(each, LeftBehind) for each in refused):
        draft.come_back(LOOK_FOR_LEFTOVERS)
    found = tuple(conditions.values())
    status = _status(draft, applied, refusals, cluster_domain) | {"phase": phase(found, deleting=_leaves(draft))}
    return Outcome(
        conditions=found,
        status=status,
        events=[*draft.events, *_events(database.status.conditions, found)],
        again_in=draft.again_in,
        keep_generation=paused,
    )


def _blocked_by(draft: Draft) -> str:
    """The kind of the first blocker; or that what is to go at once may not, because somebody needs it."""
    kind = draft.blockers[0].kind
    at_once = draft.seen.database.spec.deletion_policy == "Destroy"
    return "InvalidDeletion" if at_once and kind in ("Checkpoint", "Clone", "SlateDatabase", "BulkRead") else kind


def _leaves(draft: Draft) -> bool:
    """Whether the object is being deleted, or will be with its namespace."""
    return draft.seen.database.metadata.deleting or draft.seen.namespace_terminating


def _conclude(draft: Draft, conditions: dict[str, Condition], refused: Sequence[Refused]) -> None:
    """One Ready of all that was said; and whether it will become better by itself."""
    deleting = _leaves(draft)
    ready, reconciling, stalled = _verdict(draft, conditions, refused)
    conditions[names.READY] = ready
    if stalled:
        conditions[names.STALLED] = said(names.STALLED, True, ready.reason, ready.message)
    elif reconciling or deleting:
        conditions[names.RECONCILING] = said(names.RECONCILING, True, ready.reason, ready.message)


def _verdict(
    draft: Draft, conditions: Mapping[str, Condition], refused: Sequence[Refused]
) -> tuple[Condition, bool, bool]:
    database = draft.seen.database
    if refused:
        # What needs the user comes before what goes by itself.
        first = min(refused, key=lambda each: isinstance(each, LeftBehind))
        left = isinstance(first, LeftBehind)
        return said(names.READY, False, first.reason, str(first)), left, not left
    if _leaves(draft) and names.OWNED not in conditions:
        blocked = conditions.get(names.DELETION_BLOCKED)
        words = "it is being deleted" + (f" and waits for {blocked.message}" if blocked is not None else "")
        return said(names.READY, False, "Deleting", words), True, False
    if draft.halt is not None:
        halt = draft.halt
        # A collector that does not come up is the nearer cause of what waits for it.
        gc = conditions.get(names.GC_READY)
        if not halt.stalled and gc is not None and gc.status != "True" and gc.reason != ROLLING_OUT:
            return said(names.READY, False, gc.reason, f"the collector does not run: {gc.message}"), False, False
        return said(names.READY, False, halt.reason, halt.message), not halt.stalled, halt.stalled
    for type in (names.STORAGE_AVAILABLE, names.CONTENDED):
        found = conditions.get(type)
        if found is not None and found.status == ("True" if type == names.CONTENDED else "False"):
            return said(names.READY, False, found.reason, found.message), False, False
    answer = draft.seen.answers.get(Look())
    if answer is not None and isinstance(answer.value, DatabaseFacts) and answer.value.log_trouble:
        return said(names.READY, False, "WalMissing", answer.value.log_trouble), False, True
    for type in TYPES.values():
        found = conditions.get(type)
        if found is not None and found.status != "True":
            return (
                said(names.READY, False, found.reason, f"{type}: {found.message}"),
                found.reason == ROLLING_OUT,
                False,
            )
    if database.spec.hibernated:
        stopped = holds(conditions.values(), names.HIBERNATED)
        return said(names.READY, False, "Hibernated", "nothing but the collector runs, as asked"), not stopped, False
    if answer is not None and not answer.good:
        return said(names.READY, False, "NotAnswering", answer.words), False, False
    if answer is not None and answer.value is None:
        return said(names.READY, False, "NoDatabase", "the first writer that opens it makes the database"), True, False
    return said(names.READY, True, "Ready", "all that is wanted runs"), False, False


def phase(conditions: Sequence[Condition], *, deleting: bool) -> str:
    """The conditions in one word."""
    if deleting:
        return "Deleting"
    for type in (names.PAUSED, names.HIBERNATED, names.CONTENDED, names.READY, names.STALLED, names.RECONCILING):
        if holds(conditions, type):
            return type
    return "NotReady"


# --- the other fields ---------------------------------------------------------------------------------------------


def _status(
    draft: Draft, applied: Mapping[str, Body], refusals: Mapping[Named, Refused], cluster_domain: str
) -> dict[str, Any]:
    """What is not known this time stays as it was."""
    database = draft.seen.database
    kept = database.status.model_dump(
        by_alias=True, exclude_none=True, exclude={"conditions", "observed_generation", "deletion", "phase"}
    )
    for name, value in draft.status.items():
        kept.pop(name, None)
        if value is not None:
            kept[name] = value.model_dump(by_alias=True, exclude_none=True) if hasattr(value, "model_dump") else value
    answer = _look_at_ours(draft)
    if answer is not None and answer.good:
        _remember_mark(answer.value, kept)
    # Half a clone is no database yet: what is known of one says that it has begun.
    if answer is not None and isinstance(answer.value, DatabaseFacts) and answer.value.state != UNFINISHED:
        kept |= facts_of(answer.value)
    if _leaves(draft):
        kept["deletion"] = _deletion(draft).model_dump(by_alias=True, exclude_none=True)
    elif draft.replicas:
        endpoints = _endpoints(draft, refusals, cluster_domain)
        kept["endpoints"] = endpoints.model_dump(by_alias=True, exclude_none=True)
    family = Family.of(database)
    readers = (applied.get(Role.READER) or {}).get("status") or {}
    kept["readerReplicas"] = readers.get("replicas", 0)
    kept["selector"] = ",".join(f"{name}={value}" for name, value in sorted(family.selector(Role.READER).items()))
    return kept


def _look_at_ours(draft: Draft) -> Answer | None:
    """What was answered about this object's database, and not about another one that is at its path. What is known of ours
    stays in the status: by it the other one is told apart."""
    answer = draft.seen.answers.get(Look())
    if answer is None or draft.foreign:
        return None
    replaced = isinstance(answer.value, DatabaseFacts) and draft.seen.is_another(answer.value)
    return None if replaced else answer


def _remember_mark(found: object, kept: dict[str, Any]) -> None:
    """Whether the bytes are marked as destroyed. As long as nobody says otherwise, they are: see :func:`known_deadline`."""
    state = found.state if isinstance(found, DatabaseFacts) else None
    if isinstance(found, DatabaseFacts) and state == "destroyed":
        kept["destroyedAt"] = stamp(found.destroyed_at_s or 0)
    elif state != "being deleted":
        kept.pop("destroyedAt", None)


def facts_of(facts: DatabaseFacts) -> dict[str, Any]:
    return {
        "manifestId": facts.manifest_id,
        "writerEpoch": facts.writer_epoch,
        "compactorEpoch": facts.compactor_epoch,
        "l0": facts.l0_ssts,
        "sortedRuns": facts.sorted_runs,
        "sizeBytes": facts.size_bytes,
        "size": size(facts.size_bytes),
        "checkpoints": len(facts.checkpoints),
        "estimatedMonthlyCost": f"${facts.dollars_a_month:.2f}",
    }


def _deletion(draft: Draft) -> Deletion:
    return Deletion(
        requested_at=stamp(requested_at(draft.seen)),
        deadline=None if draft.deadline is None else stamp(draft.deadline),
        blocked_by=tuple(draft.blockers),
    )


def _endpoints(draft: Draft, refusals: Mapping[Named, Refused], cluster_domain: str) -> Endpoints:
    """Behind a Service that is not ours is somebody else."""
    database = draft.seen.database
    family = Family.of(database)

    def of(service: str, port: int, scheme: str = "") -> str | None:
        if isinstance(refusals.get((SERVICES, service)), NameTaken | LeftBehind):
            return None
        return f"{scheme}{service}.{family.namespace}.svc.{cluster_domain}:{port}"

    serves = database.spec.writer.mode == "Server" and Role.WRITER in draft.replicas
    return Endpoints(
        writer=of(family.writer_service, Port.RESP) if serves else None,
        readers=of(family.readers_service, Port.RESP) if database.spec.readers.replicas else None,
        admin=of(family.admin_service, Port.HTTP, "https://"),
    )


def _events(before: Sequence[Condition], now: Sequence[Condition]) -> list[Happening]:
    """What has changed, once: who watches the events need not compare conditions. What is on its way is no event."""
    told = []
    under_way = holds(now, names.RECONCILING)
    for condition in now:
        known = find(before, condition.type)
        if condition.type not in TOLD or condition.status == "Unknown":
            continue
        if known is not None and (known.status, known.reason) == (condition.status, condition.reason):
            continue
        bad = condition.status == ("True" if condition.type == names.CONTENDED else "False")
        if bad and under_way:
            continue
        if known is not None or bad or condition.type in (names.READY, names.DELETION_BLOCKED):
            warning = bad and condition.reason != "Hibernated"
            told.append(Happening(condition.reason, f"{condition.type}: {condition.message}", warning))
    return told
