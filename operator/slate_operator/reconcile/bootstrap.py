"""How a database comes to be: it is claimed, and then it is there, or is made, adopted, cloned or brought back."""

from __future__ import annotations

from slate_operator import names
from slate_operator.admin.database import DatabaseFacts, OperationFacts
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.conditions import holds
from slate_operator.api.database import SlateDatabase
from slate_operator.api.duration import seconds
from slate_operator.api.model import Metadata
from slate_operator.build.place import Place
from slate_operator.clock import seconds_of, stamp
from slate_operator.names import Role
from slate_operator.reconcile.draft import Draft, problem_of
from slate_operator.reconcile.observed import UNFINISHED, Answer, Claim, Observed

SOON = 1.0
UNAVAILABLE = 503
"""The status of a problem that time may solve."""


def claim_path(seen: Observed, draft: Draft) -> None:
    """Only whose path it is runs anything but a collector there; and that one collects nothing before the claim either."""
    if Role.GC not in seen.deployments:
        draft.say(names.OWNED, None, "NotAsked", "the collector, which answers for the database, is being started")
        draft.hold("Starting", "the collector is being started, which comes before all others")
        return
    if not _is_as_before(seen, draft):
        return
    answer = _in_the_way_of_a_clone(seen, draft) or draft.ask(claim_of(seen.database))
    if answer.problem in _REFUSALS:
        draft.foreign = True
        draft.status["destroyedAt"] = None  # whatever is marked there is not ours
    if answer.good:
        draft.say(names.OWNED, True, "Claimed", f"{seen.database.spec.store.url} is marked as belonging to this object")
    elif answer.problem == "no-database" and seen.database.status.manifest_id is not None:
        _lost(seen, draft)
    elif answer.problem in _REFUSALS:
        reason, advice = _REFUSALS[answer.problem]
        draft.say(names.OWNED, False, reason, f"{answer.words}. {advice}")
        draft.hold(reason, f"{answer.words}. {advice}", stalled=True)
    else:
        _unsure(seen, draft, answer)


def _is_as_before(seen: Observed, draft: Draft) -> bool:
    """Looked at before the claim, which would mark another database as this object's: one of which the policy Destroy would
    delete the bytes. Whether the path may be claimed."""
    if seen.database.status.manifest_id is None:
        return True
    answer, facts = draft.look()
    if not answer.good:
        _unsure(seen, draft, answer)
        return False
    if facts is None or not seen.is_another(facts):
        return True
    _replaced(seen, draft, facts)
    return False


def _in_the_way_of_a_clone(seen: Observed, draft: Draft) -> Answer | None:
    """A path that an object of this name gave back may be claimed again with the database in it. That is no new clone: it
    shows what its source was when the earlier object was made."""
    database = seen.database
    if database.spec.bootstrap.clone is None or database.status.manifest_id is not None:
        return None
    answer, owner = draft.whose()
    if not answer.good:
        return answer
    if owner is not None:
        return None  # it is ours, and the clone was made already; or the claim is refused
    answer, facts = draft.look()
    if not answer.good:
        return answer
    if facts is None or facts.state != "alive":
        return None
    return Answer(
        problem="database-exists",
        words=f"there is a database at {database.spec.store.url} already, so no clone can be made there",
    )


def claim_of(database: SlateDatabase) -> Claim:
    """How it was to begin matters until it has begun; from then on there is a database."""
    begins = database.spec.bootstrap
    if database.status.manifest_id is not None or begins.adopt is not None:
        expect = "database"
    else:
        expect = "destroyed" if begins.recover is not None else "empty"
    return Claim(expect, database.metadata.annotations.get(names.ANNOTATION_TAKE))


_REFUSALS = {
    "owned-by-another": (
        "OwnedByAnother",
        f"If that object is gone for good, put its uid into the annotation {names.ANNOTATION_TAKE}",
    ),
    "database-exists": ("DatabaseExists", "Set bootstrap.adopt to have it, or choose another url"),
    "no-database": ("NoDatabase", "Set bootstrap.empty for a new one, or correct the url"),
    "not-destroyed": ("NotDestroyed", "Set bootstrap.adopt instead of bootstrap.recover"),
    "destroyed": ("Destroyed", "Set bootstrap.recover to bring it back"),
    "wal-missing": (
        "WalMissing",
        "If the WAL is in a store of its own, put the URL of that store as SLATE_STORE__WAL_URL into the Secret that "
        "store.secretRef names",
    ),
}
"""The problems that nothing but a change by the user solves. Every other one is a matter of time."""


def _unsure(seen: Observed, draft: Draft, answer: Answer) -> None:
    """What was ours is taken to be ours still: a collector that does not answer stops nobody else."""
    was = holds(seen.database.status.conditions, names.OWNED)
    draft.say(names.OWNED, True if was else None, "Claimed" if was else "NotAsked", f"at this time: {answer.words}")
    if not was:
        draft.hold("NotClaimed", f"nothing is started before the path is claimed, and {answer.words}")
    draft.come_back(10.0)


def come_to_be(seen: Observed, draft: Draft) -> None:
    """Hold everything else until there is a database; or at least nothing in the way of a new one."""
    if Role.GC not in seen.deployments or draft.halt is not None:
        return
    answer, facts = draft.look()
    if not answer.good:
        if answer.problem == "store-unavailable":
            draft.say(names.STORAGE_AVAILABLE, False, "NotAnswering", answer.words)
        elif seen.database.status.manifest_id is None and Role.WRITER not in seen.deployments:
            draft.hold("NotAnswering", answer.words)
        draft.come_back(10.0)
        return
    if not seen.missing_secrets:
        draft.say(names.STORAGE_AVAILABLE, True, "Answering", "the object store answers")
    if facts is None:
        _begin(seen, draft)
    elif facts.state == UNFINISHED:
        _clone(seen, draft)
    elif facts.state == "destroyed":
        _bring_back(seen, draft, facts)
    elif facts.state != "alive":
        draft.hold("BeingDeleted", "the database is being deleted for good; delete this object too", stalled=True)


def _begin(seen: Observed, draft: Draft) -> None:
    database = seen.database
    if database.status.manifest_id is not None:
        _lost(seen, draft)
    elif database.spec.bootstrap.clone is not None:
        _clone(seen, draft)
    elif database.spec.bootstrap.adopt is not None or database.spec.bootstrap.recover is not None:
        draft.hold("NoDatabase", f"there is no database at {database.spec.store.url} any more", stalled=True)


def _lost(seen: Observed, draft: Draft) -> None:
    """A writer would make a new, empty database here, and nobody would notice the loss for a while."""
    database = seen.database
    draft.hold(
        "DataMissing",
        f"at {database.spec.store.url} there was a database (manifest {database.status.manifest_id}), and nothing is "
        "left of it. Restore its objects; or delete this object and make it anew to begin with an empty database",
        stalled=True,
    )


def _replaced(seen: Observed, draft: Draft, facts: DatabaseFacts) -> None:
    """A writer that starts where all objects were deleted makes an empty database, in which nothing looks wrong."""
    known = seen.database.status
    draft.hold(
        "DataMissing",
        f"at {seen.database.spec.store.url} there was a database at manifest {known.manifest_id}, writer epoch "
        f"{known.writer_epoch}; now there is another one at manifest {facts.manifest_id}, writer epoch "
        f"{facts.writer_epoch}. These numbers never go back, so the objects of the database were deleted, or older ones put "
        "in their place. Restore the bucket; or, if the database that is there now is the wanted one, set "
        "deletionPolicy to Retain, delete this object, and create it again with bootstrap.adopt",
        stalled=True,
    )


def _bring_back(seen: Observed, draft: Draft, facts: DatabaseFacts) -> None:
    """What was destroyed before this object was made is recovered, if it asks for that; what was destroyed since then was
    meant to be, until somebody asks for it back. What is protected is always brought back: a reaper, which knows nothing
    but the bucket, deletes in time whatever is left marked as destroyed."""
    metadata, destroyed_at = seen.database.metadata, facts.destroyed_at_s or 0
    protected, wish = seen.database.spec.deletion_protection, metadata.annotations.get(names.ANNOTATION_BRING_BACK)
    before = not metadata.creation_timestamp or destroyed_at <= seconds_of(metadata.creation_timestamp)
    if wish is None and not protected and (seen.database.spec.bootstrap.recover is None or not before):
        draft.hold("Destroyed", _destroyed(seen.database, destroyed_at), stalled=True)
        return
    name = "recover" if wish is None else f"bring back {wish}"
    if protected:
        # Every destruction takes an epoch, so that each is undone. What has failed is tried again by itself, and on demand.
        name = f"protect {facts.writer_epoch} {int(seen.now // 3600)} {wish or ''}"
    answer, operation = draft.work(name, "undelete")
    if _took_too_long(operation):
        # Nothing is wrong with the database, so nobody has to ask for it once more: there is a new attempt every minute.
        answer, operation = draft.work(f"{name} {int(seen.now // 60)}", "undelete")
    if _took_too_long(operation):
        draft.hold("Recovering", f"it is not back yet, and tried again in a minute: {problem_of(operation)}")
        draft.come_back(60.0)
        return
    if operation.state == "failed":
        told = (
            f"it cannot be brought back: {problem_of(operation)}. Mend that, and try again with {_undelete(metadata)}"
        )
        draft.hold("NotRecovered", told, stalled=True)
        return
    if operation.state == "succeeded" and not protected:
        # That wish was fulfilled, and the database destroyed again: or it was so a moment ago, which the next look shows.
        draft.hold("Destroyed", _destroyed(seen.database, destroyed_at), stalled=True)
    draft.hold("Recovering", answer.words or f"what was destroyed at {stamp(destroyed_at)} is being brought back")
    draft.come_back(SOON)


def _took_too_long(operation: OperationFacts) -> bool:
    return operation.state == "failed" and operation.problem.get("status") == UNAVAILABLE


def _destroyed(database: SlateDatabase, destroyed_at: int) -> str:
    told = f"the database was destroyed at {stamp(destroyed_at)}; bring it back with {_undelete(database.metadata)}"
    deadline = stamp(destroyed_at + seconds(database.spec.delete_grace))
    return (
        f"{told}, or delete this object. As long as it stays, the operator deletes no bytes; with the policy SoftDestroy "
        f"they go with it, but not before {deadline}"
    )


def _undelete(metadata: Metadata) -> str:
    return f"`kubectl slate undelete {metadata.name} -n {metadata.namespace}`"


def _clone(seen: Observed, draft: Draft) -> None:
    origin, database = seen.origin, seen.database
    if origin is None:
        draft.hold("UnderConstruction", "somebody else is making a clone here; wait for that, or destroy it")
        return
    if origin.missing or origin.database is None:
        draft.hold("SourceMissing", f"{origin.missing} to clone is not there; create it, or delete this object")
        draft.come_back(30.0)
        return
    source, target = origin.database, Place.of(database.spec.store.url)
    if Place.of(source.spec.store.url).root != target.root:
        draft.hold(
            "OtherStore",
            f"a clone shares its bytes with its source, so it is in the same bucket: {source.metadata.name} is in "
            f"{Place.of(source.spec.store.url).root}. Use a copy to have it in another",
            stalled=True,
        )
        return
    if (wait := _not_yet(origin.checkpoint, source)) is not None:
        draft.hold("SourceNotReady", wait)
        draft.come_back(30.0)
        return
    at = {"checkpoint": origin.checkpoint.status.id} if origin.checkpoint and origin.checkpoint.status.id else {}
    answer, operation = draft.work("", "clone", of_source=True, target=target.path, **at)
    if operation.state == "failed":
        draft.hold(
            "CloneFailed",
            f"{problem_of(operation)}. Mend that, delete this object, and make it anew",
            stalled=True,
        )
    elif not answer.good:
        draft.hold("SourceNotReady", f"{source.metadata.name}: {answer.words}")
        draft.come_back(10.0)
    else:
        draft.hold("Cloning", f"it is being cloned from {source.metadata.name}")
        draft.come_back(SOON)


def _not_yet(checkpoint: Checkpoint | None, source: SlateDatabase) -> str | None:
    if checkpoint is not None and not holds(checkpoint.status.conditions, names.READY):
        return f"Checkpoint {checkpoint.metadata.name} is not ready yet"
    conditions = source.status.conditions
    if not holds(conditions, names.READY) and not holds(conditions, names.HIBERNATED):
        return f"SlateDatabase {source.metadata.name} is not ready yet"
    return None
