"""The end of a database's object without its bytes: the policy Retain.

Who sets it during the grace of a deletion wants his bytes back. So an object whose database may be marked as destroyed is
not released before the mark is known to be gone: left behind, any collector would take the bytes in time. One that was
never marked does not wait long for a collector that does not answer, for its bytes stay anyway.
"""

from __future__ import annotations

from slate_operator.admin.database import DatabaseFacts
from slate_operator.names import FINALIZER_DATABASE, Role
from slate_operator.reconcile.deletion import SERVING, stop, wait_for_collector, waited
from slate_operator.reconcile.draft import Draft, problem_of
from slate_operator.reconcile.observed import Destroying, Observed, Release

PATIENCE = 60.0
"""How long a collector that does not answer may hold up an object whose bytes stay anyway."""
LAST_RESORT = (
    f"take the finalizer {FINALIZER_DATABASE} off this object if the bucket is gone for good: what is marked as destroyed "
    "is then left so"
)


def retain(seen: Observed, draft: Draft) -> None:
    """The pods go, the bytes stay, and the path is free for the next owner."""
    stop(seen, draft, SERVING)
    if (Role.GC in seen.deployments or draft.deadline is not None) and not _given_back(seen, draft):
        return
    stop(seen, draft, (Role.GC,))
    left = [pod["metadata"]["name"] for role in Role.ALL for pod in seen.pods.get(role, ())]
    # A Deployment that is deleted now has pods for a moment longer, whatever was seen of them.
    if left or seen.deployments:
        draft.block("Pods", ", ".join(left) or "all", "they are ending")
        draft.come_back(2.0)
        return
    draft.release = True


def _given_back(seen: Observed, draft: Draft) -> bool:
    """Whether the mark on the path is gone; or cannot be reached, where that does no harm."""
    answer, owner = draft.whose()
    if answer.good and (owner is None or owner.uid != seen.owner.uid):
        draft.deadline = draft.status["destroyedAt"] = None
        return True
    if answer.good:
        answer, facts = draft.look()
        if answer.good:
            if facts is not None and not _alive(seen, draft, facts):
                return False
            draft.deadline = None
            answer = draft.ask(Release())
            if answer.good:
                return True
    if draft.deadline is not None:
        wait_for_collector(seen, draft, answer.words, LAST_RESORT)
        return False
    if waited(seen) < PATIENCE:
        wait_for_collector(seen, draft, answer.words, "wait for a minute: then the object goes without it")
        draft.come_back(5.0)
        return False
    draft.happened(
        "NotReleased",
        f"the collector did not answer ({answer.words}), so the mark of ownership stays at {seen.database.spec.store.url}; "
        f"who takes the path next needs the annotation with the uid {seen.owner.uid}",
        warning=True,
    )
    return True


def _alive(seen: Observed, draft: Draft, facts: DatabaseFacts) -> bool:
    """Whether the bytes are as they should stay. What is marked as destroyed is brought back first."""
    url = seen.database.spec.store.url
    match facts.state:
        case "destroyed":
            if brought_back(seen, draft, facts):
                # Another destruction may have been asked for, too. The next look waits until there is none.
                draft.block("Storage", url, "the database was brought back, and is looked at once more")
                draft.come_back(0.5)
            return False
        case "being deleted":
            draft.block(
                "Storage",
                url,
                f"the bytes are being deleted already, and cannot be kept any more; wait, or {LAST_RESORT}",
            )
            draft.come_back(3.0)
            return False
        case "alive" if draft.deadline is not None:
            # A destruction that was asked for and has not ended would come after us, and nobody would undo it.
            answer = draft.ask(Destroying())
            if not answer.good or answer.value:
                draft.block("Storage", url, answer.words or "it is being destroyed, and is brought back after that")
                draft.come_back(1.0)
                return False
    return True


def brought_back(seen: Observed, draft: Draft, facts: DatabaseFacts) -> bool:
    """Whether the mark is off again. What has failed is tried again every minute, under another id."""
    url = seen.database.spec.store.url
    answer, operation = draft.work(f"keep {facts.destroyed_at_s} {int(seen.now // 60)}", "undelete")
    match operation.state:
        case "succeeded":
            draft.happened("Undeleted", "its bytes are to stay, so the database that was destroyed is brought back")
            return True
        case "failed":
            told = (
                f"it is destroyed, and could not be brought back: {problem_of(operation)}. Mend that, or {LAST_RESORT}"
            )
            draft.block("Storage", url, told)
            draft.come_back(60.0)
        case _:
            draft.block("Storage", url, answer.words or "the database is being brought back")
            draft.come_back(1.0)
    return False
