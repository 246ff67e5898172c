"""The end of a database's object together with its bytes: the policies SoftDestroy and Destroy. See the table in
docs/reference/kinds.md, and for the others :mod:`~slate_operator.reconcile.retention`.

Whether a database is destroyed, and since when, is read from the bucket each time, so that an operator that was away for a
day goes on where things are. Bytes are deleted only if the mark on the path is ours, and only by this: the collector does
not do it by itself, so that protection, a pause and Retain hold to the last moment. An error never releases an object; the
user does, by the policy Retain.
"""

from __future__ import annotations

from slate_operator.admin.database import CheckpointFacts, DatabaseFacts
from slate_operator.api.conditions import find, holds
from slate_operator.api.database import SlateDatabase
from slate_operator.api.duration import seconds
from slate_operator.build.naming import Family
from slate_operator.build.place import Place
from slate_operator.clock import seconds_of, stamp
from slate_operator.kube.cluster import DEPLOYMENTS, Body
from slate_operator.names import OWNED, READY, Role
from slate_operator.reconcile.draft import Draft, problem_of
from slate_operator.reconcile.observed import Observed, Release
from slate_operator.reconcile.rollout import explained

SERVING = (Role.WRITER, Role.COMPACTOR, Role.READER)
WRITER_PATIENCE = 60.0
"""A writer has so long to end in order before the tombstone fences it."""
LONGEST_LOOK = 300.0
ASK_AGAIN = 15.0
"""When a collector did not answer, or did not take what it was asked."""
READS = "bulk read "
"""What the name of a checkpoint begins with that a BulkRead holds."""
CLONE = "clone "
"""And of one that a clone holds: its path follows."""
NOT_UNDERSTOOD = "invalid-document"
"""What a collector has against a request with a field that it does not know."""
LOOK_AT_BLOCKERS = 20.0
"""How often it is asked whether something still needs the bytes, once nothing else holds them."""


def requested_at(seen: Observed) -> float:
    return seconds_of(seen.database.metadata.deletion_timestamp or stamp(seen.now))


def waited(seen: Observed) -> float:
    return seen.now - requested_at(seen)


def grace_of(database: SlateDatabase) -> float:
    return 0.0 if database.spec.deletion_policy == "Destroy" else seconds(database.spec.delete_grace)


def known_deadline(seen: Observed) -> float | None:
    """The end of the grace, as it is known without asking. While there is one, the bytes may be marked as destroyed."""
    status = seen.database.status
    if status.deletion is not None and status.deletion.deadline is not None:
        return seconds_of(status.deletion.deadline)
    if status.destroyed_at is not None:
        return seconds_of(status.destroyed_at) + grace_of(seen.database)
    ready = find(status.conditions, READY)
    # An older operator did not write down since when.
    if ready is not None and ready.reason == "Destroyed" and holds(status.conditions, OWNED):
        return seen.now + grace_of(seen.database)  # somebody else did it; when, only the bucket knows
    return None


def destroy(seen: Observed, draft: Draft) -> None:
    """Stop whoever uses the database, mark it, wait for the grace and for those who need it, and delete the bytes. The
    collector runs until then: it is to be kept up by whoever calls this."""
    stop(seen, draft, SERVING)
    if Role.GC not in seen.deployments:
        told = f"the collector, which does the work in the bucket, is being started; wait, or {LET_GO}"
        draft.block("Pods", Family.of(seen.database).workload(Role.GC), told)
        return
    answer, owner = draft.whose()
    if not answer.good:
        wait_for_collector(seen, draft, answer.words, LET_GO)
        return
    if owner is None or owner.uid != seen.owner.uid:
        # What is not ours is not destroyed: perhaps it never was, perhaps it was given back under another policy.
        if draft.look()[1] is not None:
            whose = "nobody" if owner is None else f"{owner.namespace}/{owner.name} ({owner.uid})"
            draft.happened(
                "BytesStay", f"{seen.database.spec.store.url} belongs to {whose}, so nothing is deleted there"
            )
        finish(seen, draft)
        return
    answer, facts = draft.look()
    if not answer.good:
        wait_for_collector(seen, draft, answer.words, LET_GO)
    elif facts is None:
        _nothing_left(seen, draft)
    elif facts.state == "alive":
        _mark(seen, draft, facts)
    elif facts.state == "destroyed":
        _wait(seen, draft, facts)
    elif facts.state == "being deleted":
        # The collector goes on with that by itself, whoever began.
        draft.block("Storage", seen.database.spec.store.url, "the bytes are being deleted")
        draft.come_back(3.0)
    else:
        # Half a clone: there is nothing in it that one could want back.
        _delete(seen, draft, facts)


def _mark(seen: Observed, draft: Draft, facts: DatabaseFacts) -> None:
    if seen.pods.get(Role.WRITER) and waited(seen) < WRITER_PATIENCE:
        draft.block("Pods", Family.of(seen.database).workload(Role.WRITER), "the writer finishes what it has begun")
        draft.come_back(2.0)
        return
    known = seen.database.status.deletion
    if known is None or known.deadline is None:
        draft.deadline = seen.now + grace_of(seen.database)
        # Written down before it is done: who changes his mind meanwhile gets his bytes back, whatever happens to us.
        draft.block("Storage", seen.database.spec.store.url, "the database is about to be marked as destroyed")
        draft.come_back(0.5)
        return
    answer, operation = draft.work(destruction(seen, facts), "destroy", mode="soft")
    if operation.state == "failed":
        draft.block("Storage", seen.database.spec.store.url, f"it cannot be destroyed: {problem_of(operation)}")
        draft.come_back(60.0)
        return
    draft.block("Storage", seen.database.spec.store.url, answer.words or "the database is being marked as destroyed")
    draft.come_back(1.0 if answer.good else ASK_AGAIN)


def destruction(seen: Observed, facts: DatabaseFacts) -> str:
    """Whoever brings it back leaves the epoch higher: then this is another one. What has failed is tried again later."""
    return f"destroy {facts.writer_epoch} {int(seen.now // 600)}"


def _wait(seen: Observed, draft: Draft, facts: DatabaseFacts) -> None:
    draft.deadline = (facts.destroyed_at_s or 0) + grace_of(seen.database)
    left = draft.deadline - seen.now
    if left > 0:
        draft.block(
            "Grace",
            stamp(draft.deadline),
            f"until then it can be brought back: set deletionPolicy to Retain, or to Destroy not to wait. It was "
            f"destroyed at {stamp(facts.destroyed_at_s or 0)}",
        )
        draft.come_back(min(left + 1.0, LONGEST_LOOK))
    for checkpoint in facts.checkpoints:
        if checkpoint.expires_at_s is None or checkpoint.expires_at_s > seen.now:
            _block_by(seen, draft, checkpoint)
    if draft.blockers:
        # What is let go in a bucket wakes nobody here: a clone that has rewritten its bytes, or was destroyed elsewhere.
        draft.come_back(LONGEST_LOOK if left > 0 else LOOK_AT_BLOCKERS)
    else:
        _delete(seen, draft, facts)


def _block_by(seen: Observed, draft: Draft, checkpoint: CheckpointFacts) -> None:
    until = ""
    if checkpoint.expires_at_s is not None:
        until = f"; it expires at {stamp(checkpoint.expires_at_s)}"
        draft.come_back(min(checkpoint.expires_at_s - seen.now + 1.0, LONGEST_LOOK))
    called = checkpoint.name or ""
    if called.startswith(CLONE):
        kind, name = _cloned_at(seen, called.removeprefix(CLONE))
        draft.block(kind, name, "it shares bytes of this database until it has rewritten them, or is destroyed" + until)
        return
    if called.startswith(READS):
        draft.block(
            "BulkRead", called.removeprefix(READS), "it is being read; that ends, or delete the BulkRead" + until
        )
        return
    name = next((each["metadata"]["name"] for each in seen.relatives.checkpoints if _is(each, checkpoint.id)), "")
    said = f" ({called})" if called else ""
    if name:
        draft.block("Checkpoint", name, f"delete it if nobody needs it{until}")
    else:
        draft.block(
            "Checkpoint", checkpoint.id, f"no object here stands for it{said}; delete it in the database{until}"
        )


def _is(checkpoint: Body, id: str) -> bool:
    return id in (checkpoint["metadata"].get("uid"), (checkpoint.get("status") or {}).get("id"))


def _cloned_at(seen: Observed, path: str) -> tuple[str, str]:
    """The object that stands for the clone at a path, as kind and name."""
    root = Place.of(seen.database.spec.store.url).root
    for body in seen.relatives.databases:
        if Place.of(body["spec"]["store"]["url"]) == Place(root, path):
            name = body["metadata"]["name"]
            for clone in seen.relatives.clones:
                if (clone.get("status") or {}).get("databaseRef") == name:
                    return "Clone", clone["metadata"]["name"]
            return "SlateDatabase", name
    return "Clone", path


def _delete(seen: Observed, draft: Draft, facts: DatabaseFacts) -> None:
    # An attempt that was refused stays refused under its id, so there is a new one every minute.
    attempt = f"delete {facts.destroyed_at_s} {int(seen.now // 60)}"
    # The collector may come to it much later. What was brought back until then is not what we saw.
    answer, operation = draft.work(attempt, "destroy", mode="hard", destroyed_at_s=facts.destroyed_at_s)
    if answer.problem == NOT_UNDERSTOOD:
        _wait_for_newer_image(seen, draft)
        return
    match operation.state:
        case "succeeded":
            _nothing_left(seen, draft)
        case "failed":
            draft.block("Storage", seen.database.spec.store.url, problem_of(operation))
            draft.come_back(60.0)
        case _:
            draft.block("Storage", seen.database.spec.store.url, answer.words or "the bytes are being deleted")
            draft.come_back(2.0 if answer.good else ASK_AGAIN)


def _wait_for_newer_image(seen: Observed, draft: Draft) -> None:
    """Databases keep the image that they began with, so a collector may be older than what we ask of it."""
    newer = (
        f"such as {seen.default_image}" if seen.default_image not in ("", seen.image) else "of this operator's version"
    )
    draft.block(
        "Image",
        seen.image,
        "this image is older than the operator, and cannot delete a database only if nobody has brought it back meanwhile: "
        f"set spec.image to a newer one, {newer}, and the deletion goes on; or {LET_GO}",
    )
    draft.come_back(60.0)


def _nothing_left(seen: Observed, draft: Draft) -> None:
    draft.ask(Release())  # of a path that was claimed, but where no database came to be
    finish(seen, draft)


LET_GO = "set deletionPolicy to Retain to leave the bytes there"


def wait_for_collector(seen: Observed, draft: Draft, words: str, otherwise: str) -> None:
    """Nothing can be promised about bytes that nobody can reach. The way out is the user's: ``otherwise`` tells it."""
    if seen.missing_secrets:
        name = seen.missing_secrets[0]
        message = (
            f"Secret {name} is missing, without which the bucket cannot be reached: create it again, or {otherwise}"
        )
        draft.block("Storage", name, message)
    else:
        trouble = explained(seen.pods.get(Role.GC, ()))
        told = f"{trouble[0]}: {trouble[1]}" if trouble else words
        draft.block(
            "Pods",
            Family.of(seen.database).workload(Role.GC),
            f"the collector, which does the work in the bucket, does not answer ({told}); wait, mend that, or {otherwise}",
        )
    draft.come_back(ASK_AGAIN)


# --- pods ---------------------------------------------------------------------------------------------------------


def stop(seen: Observed, draft: Draft, roles: tuple[str, ...]) -> None:
    family = Family.of(seen.database)
    for role in roles:
        if role in seen.deployments:
            draft.remove(DEPLOYMENTS, family.workload(role))


def finish(seen: Observed, draft: Draft) -> None:
    """Nothing is left to be done in the bucket. The collector, and all else that we made, goes with the object: deleted
    before it, it would be missed and made again."""
    draft.release = True
