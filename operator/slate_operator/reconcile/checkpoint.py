"""A Checkpoint: the view of a checkpoint that the database's own manifest keeps.

Its id is this object's uid, so making it may be repeated without harm. What was made and is not there any more is never
made again: the state it kept is gone, and another one under its name would be a lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slate_operator import names
from slate_operator.admin.database import Admin, CheckpointFacts, Databases, NotReached, Problem
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.conditions import Condition, said
from slate_operator.api.database import SlateDatabase
from slate_operator.api.duration import seconds
from slate_operator.clock import Clock, seconds_of, stamp
from slate_operator.kube.cluster import CHECKPOINTS, DATABASES, NAMESPACES, Body, Cluster, Key
from slate_operator.reconcile.checkpoint_users import users_of
from slate_operator.reconcile.deletion import CLONE, READS
from slate_operator.reconcile.outcome import Happening, Outcome, Unfit
from slate_operator.reconcile.pinned import PinnedBytes

FOREVER = "forever"
ENDED = ("Expired", "Lost")
"""The reasons of a checkpoint that was there and is not any more."""
ASK_AGAIN = 15.0
"""When a database's pod did not answer, in seconds."""
ROUNDING = 2.0


@dataclass
class CheckpointReconciler:
    cluster: Cluster
    databases: Databases
    clock: Clock

    def __post_init__(self) -> None:
        self._pinned = PinnedBytes(self.clock)

    async def reconcile(self, body: Body) -> Outcome:
        checkpoint = Checkpoint.of(body)
        if checkpoint.metadata.deleting:
            return await self._finalize(checkpoint, body)
        if names.FINALIZER_CHECKPOINT not in checkpoint.metadata.finalizers:
            await self.cluster.set_finalizers(
                CHECKPOINTS, body, (*checkpoint.metadata.finalizers, names.FINALIZER_CHECKPOINT)
            )
        users = await users_of(self.cluster, checkpoint)
        try:
            await self._check_alone(checkpoint)
            database = await self._database(checkpoint)
            admin = self.databases.admin(database)
            facts, events = await self._settle(checkpoint, admin)
        except Unfit as trouble:
            return self._not_ready(checkpoint, users, trouble)
        except NotReached as trouble:
            return self._not_ready(checkpoint, users, Unfit("DatabaseUnreachable", str(trouble)))
        except Problem as problem:
            return self._not_ready(checkpoint, users, _unfit(problem))
        pinned = await self._pinned.of(database.metadata.uid, admin, facts.id)
        return self._ready(checkpoint, users, facts, pinned, events)

    # --- being -------------------------------------------------------------------------------------------------------

    async def _database(self, checkpoint: Checkpoint) -> SlateDatabase:
        name = checkpoint.spec.database_ref.name
        body = await self.cluster.get(DATABASES, Key(checkpoint.metadata.namespace, name))
        if body is None:
            raise Unfit("DatabaseMissing", f"there is no SlateDatabase {name!r} in this namespace; make it", final=True)
        return SlateDatabase.of(body)

    async def _check_alone(self, checkpoint: Checkpoint) -> None:
        """A checkpoint has one object: a second one would change how long it lives, and delete it under the first."""
        if not _adopted(checkpoint):
            return
        first = min([checkpoint, *await self._twins(checkpoint)], key=_claim)
        if first.metadata.uid != checkpoint.metadata.uid:
            raise Unfit(
                "HeldByAnother",
                f"checkpoint {id_of(checkpoint)} is the one of Checkpoint {first.metadata.name}; use that object, or delete "
                "it, and this one has the checkpoint",
                final=True,
            )

    async def _twins(self, checkpoint: Checkpoint) -> list[Checkpoint]:
        """Other objects that stand for the same checkpoint of the database."""
        id, ref = id_of(checkpoint), checkpoint.spec.database_ref.name
        return [
            Checkpoint.of(body)
            for body in await self.cluster.list(CHECKPOINTS, checkpoint.metadata.namespace)
            if id in (body["metadata"]["uid"], (body["spec"].get("source") or {}).get("id"))
            and body["spec"]["databaseRef"]["name"] == ref
            and body["metadata"]["uid"] != checkpoint.metadata.uid
        ]

    async def _settle(self, checkpoint: Checkpoint, admin: Admin) -> tuple[CheckpointFacts, Sequence[Happening]]:
        """The checkpoint as it is, made or prolonged if that is due."""
        found = await admin.checkpoint(id_of(checkpoint))
        if found is None:
            return await self._make(checkpoint, admin)
        if _is_held(checkpoint, found):
            raise Unfit(
                "HeldByAnother",
                f"checkpoint {found.id} is the one of {found.name!r}, which keeps what that needs and goes with it; "
                "adopt another one",
                final=True,
            )
        if found.expires_at_s is not None and found.expires_at_s <= self.clock.now():
            raise _expired(found.expires_at_s)
        if _lives_as_wanted(checkpoint, found):
            return found, ()
        fresh = await admin.refresh_checkpoint(found.id, _seconds(checkpoint.spec.lifetime))
        return fresh, (Happening("Refreshed", f"the checkpoint lives {_until(fresh)} now"),)

    async def _make(self, checkpoint: Checkpoint, admin: Admin) -> tuple[CheckpointFacts, Sequence[Happening]]:
        status = checkpoint.status
        if status.created_at is not None:
            if status.expires_at is not None and seconds_of(status.expires_at) <= self.clock.now():
                raise _expired(seconds_of(status.expires_at))
            raise Unfit(
                "Lost",
                "the checkpoint was deleted in the database, not by this object; the state it kept cannot be made again. "
                "Delete this object and make another",
                final=True,
            )
        if _adopted(checkpoint):
            raise Unfit(
                "NoSuchCheckpoint",
                f"the database has no checkpoint {id_of(checkpoint)}; see `kubectl slate status` for those it has",
                final=True,
            )
        scope = checkpoint.spec.scope
        if scope is not None and scope.all is not None:
            await admin.flush(to_ssts=scope.all.force_flush)
        made = await admin.put_checkpoint(
            id_of(checkpoint),
            lifetime_s=_seconds(checkpoint.spec.lifetime),
            name=checkpoint.metadata.name,
            source=await self._source(checkpoint),
        )
        return made, (Happening("Created", f"manifest {made.manifest_id} is kept, {_until(made)}"),)

    async def _source(self, checkpoint: Checkpoint) -> str | None:
        """The id of the checkpoint whose state is kept instead of the present one."""
        source = checkpoint.spec.source
        if source is None or source.checkpoint_ref is None:
            return None
        name = source.checkpoint_ref.name
        body = await self.cluster.get(CHECKPOINTS, Key(checkpoint.metadata.namespace, name))
        if body is None:
            raise Unfit("SourceMissing", f"there is no Checkpoint {name!r} to take the state of; make it", final=True)
        other = Checkpoint.of(body)
        if other.spec.database_ref != checkpoint.spec.database_ref:
            raise Unfit(
                "SourceElsewhere",
                f"Checkpoint {name!r} is one of SlateDatabase {other.spec.database_ref.name!r}, not of "
                f"{checkpoint.spec.database_ref.name!r}; a checkpoint is of one database",
                final=True,
            )
        if other.status.id is None:
            raise Unfit("SourceNotReady", f"Checkpoint {name!r} is not ready yet")
        return other.status.id

    # --- telling -----------------------------------------------------------------------------------------------------

    def _ready(
        self,
        checkpoint: Checkpoint,
        users: Sequence[str],
        facts: CheckpointFacts,
        pinned: int | None,
        events: Sequence[Happening],
    ) -> Outcome:
        expires = facts.expires_at_s
        conditions = [said(names.READY, True, "Kept", f"manifest {facts.manifest_id} is kept, {_until(facts)}")]
        status: dict[str, Any] = {
            "phase": "Ready",
            "id": facts.id,
            "manifestId": facts.manifest_id,
            "createdAt": stamp(facts.created_at_s),
            "expiresAt": None if expires is None else stamp(expires),
            "lifetime": self._given(checkpoint),
            "pinnedBytes": checkpoint.status.pinned_bytes if pinned is None else pinned,
            "usedBy": list(users),
        }
        soon = None if expires is None else max(expires - self.clock.now() + 1.0, 1.0)
        return Outcome(conditions, status, events, again_in=soon)

    @staticmethod
    def _given(checkpoint: Checkpoint) -> str | None:
        """The lifetime that it has from us; none while an adopted one has the one it came with."""
        if _adopted(checkpoint) and checkpoint.spec.lifetime is None and checkpoint.status.lifetime is None:
            return None
        return checkpoint.spec.lifetime or FOREVER

    def _not_ready(self, checkpoint: Checkpoint, users: Sequence[str], trouble: Unfit) -> Outcome:
        conditions = [said(names.READY, False, trouble.reason, trouble.message)]
        if trouble.final:
            conditions.append(said(names.STALLED, True, trouble.reason, trouble.message))
        else:
            conditions.append(said(names.RECONCILING, True, trouble.reason, trouble.message))
        status = checkpoint.status.model_dump(mode="json", by_alias=True, exclude={"observed_generation", "conditions"})
        phase = "Expired" if trouble.reason == "Expired" else "Failed" if trouble.final else "Pending"
        before = next((each.reason for each in checkpoint.status.conditions if each.type == names.READY), None)
        events = [] if before == trouble.reason else [Happening(trouble.reason, trouble.message, warning=trouble.final)]
        return Outcome(
            conditions,
            {**status, "phase": phase, "usedBy": list(users)},
            events,
            again_in=None if trouble.final else ASK_AGAIN,
        )

    # --- ending ------------------------------------------------------------------------------------------------------

    async def _finalize(self, checkpoint: Checkpoint, body: Body) -> Outcome:
        if names.FINALIZER_CHECKPOINT not in checkpoint.metadata.finalizers:
            return Outcome(gone=True)
        if checkpoint.spec.deletion_policy == "Retain":
            return await self._release(body, "the checkpoint itself stays, as deletionPolicy Retain has it")
        users = await users_of(self.cluster, checkpoint)
        if users:
            told = f"{', '.join(users)} still needs it; it goes when that is done"
            return self._held(checkpoint, users, said(names.DELETION_BLOCKED, True, "InUse", told), None)
        if heirs := [each.metadata.name for each in await self._twins(checkpoint) if not each.metadata.deleting]:
            return await self._release(body, f"the checkpoint itself stays: Checkpoint {heirs[0]} stands for it, too")
        database = await self.cluster.get(
            DATABASES, Key(checkpoint.metadata.namespace, checkpoint.spec.database_ref.name)
        )
        if database is None:
            return await self._release(
                body, "there is no SlateDatabase any more that could delete the checkpoint itself"
            )
        admin = self.databases.admin(SlateDatabase.of(database))
        try:
            found = await admin.checkpoint(id_of(checkpoint)) if _adopted(checkpoint) else None
            if found is not None and _is_held(checkpoint, found):
                return await self._release(body, f"the checkpoint itself stays, for {found.name!r} needs it")
            await admin.delete_checkpoint(id_of(checkpoint))
        except Problem as problem:
            if problem.kind != "no-database":
                return self._waiting(checkpoint, _unfit(problem))
        except NotReached as trouble:
            if await self._namespace_ends(checkpoint):
                return await self._release(
                    body, "the namespace is being deleted, and the database's pod is gone already"
                )
            return self._waiting(checkpoint, Unfit("DatabaseUnreachable", str(trouble)))
        return await self._release(body, None)

    async def _namespace_ends(self, checkpoint: Checkpoint) -> bool:
        namespace = await self.cluster.get(NAMESPACES, Key("", checkpoint.metadata.namespace))
        return namespace is None or "deletionTimestamp" in namespace["metadata"]

    def _waiting(self, checkpoint: Checkpoint, trouble: Unfit) -> Outcome:
        advice = "; to let this object go without it, set deletionPolicy to Retain"
        blocked = said(names.DELETION_BLOCKED, True, trouble.reason, trouble.message + advice)
        return self._held(checkpoint, (), blocked, ASK_AGAIN)

    @staticmethod
    def _held(checkpoint: Checkpoint, users: Sequence[str], blocked: Condition, again_in: float | None) -> Outcome:
        status = checkpoint.status.model_dump(mode="json", by_alias=True, exclude={"observed_generation", "conditions"})
        conditions = [said(names.READY, False, "Deleting", "the checkpoint is being deleted"), blocked]
        return Outcome(conditions, {**status, "phase": "Deleting", "usedBy": list(users)}, again_in=again_in)

    async def _release(self, body: Body, remark: str | None) -> Outcome:
        kept = [each for each in body["metadata"].get("finalizers", ()) if each != names.FINALIZER_CHECKPOINT]
        await self.cluster.set_finalizers(CHECKPOINTS, body, kept)
        return Outcome(events=() if remark is None else (Happening("Released", remark),), gone=True)


def id_of(checkpoint: Checkpoint) -> str:
    """The id in the database: this object's own, unless it is the view of one that was there before."""
    source = checkpoint.spec.source
    return source.id if source is not None and source.id is not None else checkpoint.metadata.uid


def _adopted(checkpoint: Checkpoint) -> bool:
    return checkpoint.spec.source is not None and checkpoint.spec.source.id is not None


def _claim(checkpoint: Checkpoint) -> tuple[bool, bool, str, str]:
    """Of several objects for one checkpoint, the smallest claim counts: of the one that made it, then of the one that has
    it already."""
    metadata = checkpoint.metadata
    return _adopted(checkpoint), checkpoint.status.created_at is None, metadata.creation_timestamp, metadata.uid


def _is_held(checkpoint: Checkpoint, found: CheckpointFacts) -> bool:
    """Whether it is what a clone or a bulk read of ours holds. Ended or prolonged by a view of it, it would take from a
    clone the bytes that it shares."""
    return _adopted(checkpoint) and (found.name or "").startswith((CLONE, READS))


def _lives_as_wanted(checkpoint: Checkpoint, found: CheckpointFacts) -> bool:
    wanted, given = checkpoint.spec.lifetime, checkpoint.status.lifetime
    if given is not None:
        return given == (wanted or FOREVER)
    if _adopted(checkpoint):
        return wanted is None  # it keeps the lifetime that it came with
    # We made it and did not come to write that down; meanwhile the user may have changed his mind.
    expected = None if wanted is None else found.created_at_s + seconds(wanted)
    if expected is None or found.expires_at_s is None:
        return expected == found.expires_at_s
    return abs(found.expires_at_s - expected) <= ROUNDING


def _seconds(lifetime: str | None) -> float | None:
    return None if lifetime is None else seconds(lifetime)


def _until(facts: CheckpointFacts) -> str:
    return "for ever" if facts.expires_at_s is None else f"until {stamp(facts.expires_at_s)}"


def _expired(at: float) -> Unfit:
    return Unfit(
        "Expired", f"the checkpoint ended at {stamp(at)}, as its lifetime has it; delete this object", final=True
    )


def _unfit(problem: Problem) -> Unfit:
    reason = "".join(word.capitalize() for word in problem.kind.split("-")) or "Refused"
    return Unfit(reason, problem.detail, final=problem.status in (400, 410, 422))
