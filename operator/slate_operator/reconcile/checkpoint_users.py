"""What needs a Checkpoint at the moment, and so keeps it from being deleted."""

from __future__ import annotations

from collections.abc import Mapping

from slate_operator import names
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.clone import Clone
from slate_operator.api.conditions import holds
from slate_operator.api.database import SlateDatabase
from slate_operator.kube.cluster import BULK_READS, CHECKPOINTS, CLONES, DATABASES, Body, Cluster


async def users_of(cluster: Cluster, checkpoint: Checkpoint) -> tuple[str, ...]:
    """As kind/name, sorted. A clone needs it until it has a checkpoint of its own in its parent."""
    namespace, name = checkpoint.metadata.namespace, checkpoint.metadata.name
    databases = {body["metadata"]["name"]: body for body in await cluster.list(DATABASES, namespace)}
    found = [
        f"Clone/{body['metadata']['name']}"
        for body in await cluster.list(CLONES, namespace)
        if _names(body, name, "source") and _is_to_be_made(Clone.of(body), databases)
    ]
    found += [
        f"SlateDatabase/{body['metadata']['name']}"
        for body in databases.values()
        if _names(body, name, "bootstrap", "clone") and _begins(SlateDatabase.of(body))
    ]
    for body in await cluster.list(CHECKPOINTS, namespace):
        if not _names(body, name, "source"):
            continue
        other = Checkpoint.of(body)
        ref = None if other.spec.source is None else other.spec.source.checkpoint_ref
        if ref is not None and ref.name == name and other.status.created_at is None and not other.metadata.deleting:
            found.append(f"Checkpoint/{other.metadata.name}")
    found += [
        f"BulkRead/{body['metadata']['name']}"
        for body in await cluster.list(BULK_READS, namespace)
        if _names(body, name) and (body.get("status") or {}).get("state") not in ("Succeeded", "Failed")
    ]
    return tuple(sorted(found))


def _is_to_be_made(clone: Clone, databases: Mapping[str, Body]) -> bool:
    """What was made has begun, or is gone for good; and what nothing but a change by the user helps needs nothing now."""
    status = clone.status
    if clone.metadata.deleting or status.parent_checkpoint_id is not None:
        return False
    made = databases.get(status.database_ref or "")
    if made is not None:
        return _begins(SlateDatabase.of(made))
    return status.database_ref is None and not holds(status.conditions, names.STALLED)


def _begins(database: SlateDatabase) -> bool:
    """Whether it has yet to become a database."""
    stalled = holds(database.status.conditions, names.STALLED)
    return database.status.manifest_id is None and not database.metadata.deleting and not stalled


def _names(body: Body, checkpoint: str, *path: str) -> bool:
    """Whether the object names this Checkpoint at all. Few do, and reading a thousand of them whole takes a while."""
    part = body["spec"]
    for name in (*path, "checkpointRef"):
        part = part.get(name) or {}
    return bool(part.get("name") == checkpoint)
