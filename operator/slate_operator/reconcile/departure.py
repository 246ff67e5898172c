"""The end of a database whose whole namespace goes.

A Terminating namespace never hangs. Its pods end first, whatever we do; the collector lingers for some seconds, in which the
database can be marked, or a mark be taken off. The bytes are left to a reaper, or to whoever has the bucket. The object
itself is deleted when the pods are gone; whether that was asked for already makes no difference.
"""

from __future__ import annotations

from slate_operator.admin.database import DatabaseFacts
from slate_operator.build.naming import Family
from slate_operator.clock import seconds_of
from slate_operator.names import Role
from slate_operator.reconcile.deletion import destruction
from slate_operator.reconcile.draft import Draft
from slate_operator.reconcile.observed import Destroying, Observed, Release
from slate_operator.reconcile.retention import brought_back

PATIENCE = 20.0
"""How long a namespace waits for us, which the seconds that a collector lingers fit into."""

Word = tuple[str, str]
"""What became of the bytes: the reason and the message of an event."""


def depart(seen: Observed, draft: Draft) -> None:
    if seen.held:
        done = _farewell(seen, draft)
        if done is None:
            draft.blockers.clear()
            draft.block("Pods", Family.of(seen.database).workload(Role.GC), "the namespace goes; a last word to it")
            draft.come_back(1.0)
            return
        draft.happened(*done)
    draft.release = True


def _farewell(seen: Observed, draft: Draft) -> Word | None:
    """None if it is not known yet what became of the bytes."""
    spec, url = seen.database.spec, seen.database.spec.store.url
    late = _is_late(seen)
    answer, owner = draft.whose()
    if answer.good and (owner is None or owner.uid != seen.owner.uid):
        return "LeftAsIs", f"{url} does not belong to this object"
    facts = None
    if answer.good:
        answer, facts = draft.look()
    if not answer.good:
        return ("LeftAsIs", f"the bytes at {url} are as they were, because {answer.words}") if late else None
    if spec.deletion_policy == "Retain" or spec.deletion_protection or spec.paused:
        return _spared(seen, draft, facts, late)
    if facts is not None and facts.state == "alive":
        draft.work(destruction(seen, facts), "destroy", mode="soft")
        return ("LeftAsIs", f"the bytes at {url} could not be marked as destroyed in time") if late else None
    if facts is not None and facts.state == "destroyed":
        return "SoftlyDestroyed", f"the database at {url} is marked as destroyed; a reaper deletes it after its grace"
    return "LeftAsIs", f"the database at {url} is {'not there' if facts is None else facts.state}"


def _is_late(seen: Observed) -> bool:
    """Whether the collector cannot be waited for any more. Its pod tells when it began to end, with all others of the
    namespace: the object itself may have been deleted long before."""
    for pod in seen.pods.get(Role.GC, ()):
        ends, grace = (pod["metadata"].get(name) for name in ("deletionTimestamp", "deletionGracePeriodSeconds"))
        if ends is None or seen.now - (seconds_of(ends) - (grace or 0)) < PATIENCE:
            return False
    return True


def _spared(seen: Observed, draft: Draft, facts: DatabaseFacts | None, late: bool) -> Word | None:
    """What is to stay is not left marked as destroyed, if that can still be done."""
    url = seen.database.spec.store.url
    trouble = ""
    if facts is not None and facts.state == "destroyed":
        if not brought_back(seen, draft, facts):
            trouble = "are still marked as destroyed"
        elif not late:
            return None  # another destruction may have been asked for, too: the next look waits until there is none
    elif facts is not None and facts.state == "alive" and draft.deadline is not None:
        answer = draft.ask(Destroying())
        if not answer.good or answer.value:
            trouble = "may be marked as destroyed in a moment"
    if trouble:
        told = f"the bytes at {url} were to stay, but {trouble}: bring them back with `slate undelete`"
        return ("NotUndeleted", f"{told} before a reaper comes") if late else None
    return ("Released", f"the bytes stay at {url}") if draft.ask(Release()).good or late else None
