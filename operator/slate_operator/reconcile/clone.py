"""A Clone: makes a SlateDatabase that begins with another's state, and follows how much they still share.

The work itself is the new database's: its ``bootstrap.clone`` says where it comes from. So a Clone that is deleted midway
harms nothing, and what it made lives on without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slate_operator import names
from slate_operator.admin.database import Databases, NotReached, Problem
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.clone import Clone
from slate_operator.api.conditions import Condition, find, said
from slate_operator.api.database import SlateDatabase
from slate_operator.build.overlay import laid_over
from slate_operator.build.place import Place
from slate_operator.clock import Clock
from slate_operator.kube.cluster import CHECKPOINTS, DATABASES, Body, Cluster, Conflict, Key, Refused
from slate_operator.reconcile.outcome import Happening, Outcome, Unfit

FOLLOW_EVERY = 60.0
"""How often it is asked what is still shared, while something is."""

_NOT_INHERITED = ("bootstrap", "readers", "deletionPolicy", "deleteGrace", "deletionProtection", "paused", "hibernated")
"""Of the source's spec: what is said of that very database, and not of how such databases are run."""


@dataclass
class CloneReconciler:
    cluster: Cluster
    databases: Databases
    clock: Clock

    async def reconcile(self, body: Body) -> Outcome:
        clone = Clone.of(body)
        if clone.metadata.deleting:
            return Outcome(gone=True)
        key = Key(clone.metadata.namespace, database_name(clone))
        made = await self.cluster.get(DATABASES, key)
        events: list[Happening] = []
        try:
            if made is None:
                if clone.status.database_ref is not None:
                    raise Unfit(
                        "DatabaseDeleted", f"SlateDatabase {key.name} was made and is deleted; so is this clone"
                    )
                made = await self._make(clone)
                events.append(Happening("Created", f"SlateDatabase {key.name} was made"))
            elif clone.status.database_ref is None:
                await self._check_own(clone, made)
            else:
                _check_same_place(clone, made)
        except Unfit as trouble:
            return _unfit(clone, trouble)
        return await self._followed(clone, SlateDatabase.of(made), events)

    async def _check_own(self, clone: Clone, made: Body) -> None:
        """Of a database that is found when the clone is first looked at: it may be of another one of the same name."""
        name, ours = made["metadata"]["name"], (made["metadata"].get("labels") or {}).get(names.LABEL_CLONE)
        if ours != clone.metadata.name:
            raise Unfit(
                "NameTaken", f"there is a SlateDatabase {name} already that is not of this clone; give databaseName"
            )
        begins, url = _source_of(clone), made["spec"]["store"]["url"]
        same = (made["spec"].get("bootstrap") or {}).get("clone") == begins
        if same and (wanted := await self._wanted_url(clone)) is not None:
            same = Place.of(wanted) == Place.of(url)
        if not same:
            raise Unfit(
                "NameTaken",
                f"there is a SlateDatabase {name} already, at {url}, that another Clone of this name has made of another "
                "source or at another place; give databaseName, or delete it",
            )

    async def _wanted_url(self, clone: Clone) -> str | None:
        """None if that is beside a source that is gone."""
        try:
            source = await self._source(clone)
        except Unfit:
            return clone.spec.target.url
        return target_url(clone, source["spec"]["store"]["url"])

    # --- making --------------------------------------------------------------------------------------------------

    async def _make(self, clone: Clone) -> Body:
        source = await self._source(clone)
        wanted = database_of(clone, source)
        try:
            if not await self.cluster.create(DATABASES, wanted):
                raise Conflict(f"SlateDatabase {wanted['metadata']['name']} has just come to be; look whose it is")
        except Refused as refusal:
            raise Unfit("TemplateRefused", f"the API server refuses the SlateDatabase: {refusal}") from None
        found = await self.cluster.get(DATABASES, Key(clone.metadata.namespace, database_name(clone)))
        return found or wanted

    async def _source(self, clone: Clone) -> Body:
        """The object of the database that is cloned."""
        namespace, source = clone.metadata.namespace, clone.spec.source
        if source.checkpoint_ref is not None:
            name = source.checkpoint_ref.name
            checkpoint = await self.cluster.get(CHECKPOINTS, Key(namespace, name))
            if checkpoint is None:
                raise Unfit("SourceMissing", f"there is no Checkpoint {name!r} in this namespace; make it")
            database = Checkpoint.of(checkpoint).spec.database_ref.name
        else:
            assert source.database_ref is not None
            database = source.database_ref.name
        body = await self.cluster.get(DATABASES, Key(namespace, database))
        if body is None:
            raise Unfit("SourceMissing", f"there is no SlateDatabase {database!r} in this namespace; make it")
        return body

    # --- following -----------------------------------------------------------------------------------------------

    async def _followed(self, clone: Clone, database: SlateDatabase, events: list[Happening]) -> Outcome:
        ready = find(database.status.conditions, names.READY)
        status: dict[str, Any] = {
            **_former(clone),
            "databaseRef": database.metadata.name,
            "sourceDatabase": clone.status.source_database or await self._source_name(clone),
            "url": database.spec.store.url,
        }
        conditions: list[Condition] = []
        if database.status.manifest_id is not None:
            status |= await self._shared(database)
            attached = status.get("attached")
            if attached is not None:
                conditions.append(_attachment(attached, status))
                if clone.status.attached and not attached:
                    events.append(Happening("Detached", "the clone shares nothing with its source any more"))
        if ready is not None and ready.status == "True":
            conditions.append(said(names.READY, True, "Ready", f"SlateDatabase {database.metadata.name} is ready"))
            status["phase"] = "Ready"
        else:
            why = "it was made a moment ago" if ready is None else ready.message
            reason = "Starting" if ready is None else ready.reason
            told = f"SlateDatabase {database.metadata.name} is not ready: {why}"
            conditions.append(said(names.READY, False, reason, told))
            stalled = find(database.status.conditions, names.STALLED)
            kind = names.STALLED if stalled is not None and stalled.status == "True" else names.RECONCILING
            conditions.append(said(kind, True, reason, told))
            status["phase"] = "Failed" if kind == names.STALLED else "Pending"
        return Outcome(conditions, status, events, again_in=FOLLOW_EVERY if status.get("attached") else None)

    async def _source_name(self, clone: Clone) -> str | None:
        try:
            return str((await self._source(clone))["metadata"]["name"])
        except Unfit:
            return None

    async def _shared(self, database: SlateDatabase) -> dict[str, Any]:
        """What it still needs of its parents, if its pod answers."""
        try:
            facts = await self.databases.admin(database).status()
        except (NotReached, Problem):
            return {}
        held = [parent.final_checkpoint_id for parent in facts.parents if parent.final_checkpoint_id]
        return {
            "attached": bool(facts.parents),
            "sharedBytes": sum(parent.size_bytes for parent in facts.parents),
            "parentCheckpointId": held[0] if held else None,
        }


def _check_same_place(clone: Clone, made: Body) -> None:
    """Names are given again: the database that the clone made may be gone, and another one have its name."""
    known, url = clone.status.url, made["spec"]["store"]["url"]
    if known is not None and Place.of(known) != Place.of(url):
        name = made["metadata"]["name"]
        raise Unfit(
            "DatabaseDeleted",
            f"SlateDatabase {name} was made at {known} and is deleted; the one that has its name now is at {url}, and is "
            "not of this clone. Delete this Clone",
        )


def database_name(clone: Clone) -> str:
    return clone.spec.database_name or clone.metadata.name


def database_of(clone: Clone, source: Body) -> Body:
    """The SlateDatabase that is made: run as its source is, at a place of its own, with what the template changes. Nothing
    owns it: it outlives the Clone."""
    inherited = {name: value for name, value in source["spec"].items() if name not in _NOT_INHERITED}
    if "writer" in inherited:
        # A name in a DNS, or a load balancer, that the annotations of the source's Service ask for, can be of one only.
        inherited["writer"] = {name: value for name, value in inherited["writer"].items() if name != "service"}
    spec = laid_over(inherited, clone.spec.template.spec)
    spec["store"] = {**spec["store"], "url": target_url(clone, source["spec"]["store"]["url"])}
    spec["bootstrap"] = {"clone": _source_of(clone)}
    template = clone.spec.template.metadata
    return {
        "apiVersion": DATABASES.api_version,
        "kind": DATABASES.kind,
        "metadata": {
            "name": database_name(clone),
            "namespace": clone.metadata.namespace,
            "labels": {**template.labels, names.LABEL_CLONE: clone.metadata.name},
            "annotations": dict(template.annotations),
        },
        "spec": spec,
    }


def _source_of(clone: Clone) -> dict[str, Any]:
    return clone.spec.source.model_dump(mode="json", by_alias=True, exclude_none=True)


def target_url(clone: Clone, source_url: str) -> str:
    """Where the new database is: as said, or beside its source."""
    source, target = Place.of(source_url), clone.spec.target
    if target.url is not None:
        wanted = Place.of(target.url)
        if wanted.root != source.root:
            raise Unfit(
                "TargetElsewhere",
                f"a clone shares bytes with its source, so it is in the same bucket: {target.url} is not in {source.root}. "
                "To have it elsewhere, make a copy",
            )
        return wanted.url
    path = target.path
    if path is None:
        folder = source.path.rpartition("/")[0]
        path = f"{folder}/{database_name(clone)}" if folder else database_name(clone)
    wanted = Place(source.root, path.strip("/"))
    if wanted.path == source.path:
        raise Unfit("TargetTaken", f"the clone would be where its source is, at {wanted.url}; give target.path")
    return wanted.url


def _attachment(attached: bool, status: Mapping[str, Any]) -> Condition:
    if attached:
        return said(names.ATTACHED, True, "Shares", f"{status['sharedBytes']} bytes are shared with its source")
    return said(names.ATTACHED, False, "Detached", "nothing is shared with its source any more")


def _former(clone: Clone) -> dict[str, Any]:
    return clone.status.model_dump(mode="json", by_alias=True, exclude={"observed_generation", "conditions"})


def _unfit(clone: Clone, trouble: Unfit) -> Outcome:
    conditions = [
        said(names.READY, False, trouble.reason, str(trouble)),
        said(names.STALLED, True, trouble.reason, str(trouble)),
    ]
    before = find(clone.status.conditions, names.READY)
    known = before is not None and before.reason == trouble.reason
    events = [] if known else [Happening(trouble.reason, str(trouble), warning=True)]
    return Outcome(conditions, {**_former(clone), "phase": "Failed"}, events)
