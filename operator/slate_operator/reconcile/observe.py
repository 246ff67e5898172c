"""Looking: what stands in the cluster, and what a database answers. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from slate_operator import names
from slate_operator.admin.database import Admin, Databases, NotReached, Problem
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.database import SlateDatabase
from slate_operator.build.naming import Family
from slate_operator.kube.cluster import (
    CHECKPOINTS,
    CLONES,
    DATABASES,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    SECRETS,
    Body,
    Cluster,
    Key,
    Refused,
)
from slate_operator.kube.ownership import belongs
from slate_operator.names import FINALIZER_DATABASE, Role
from slate_operator.reconcile.observed import (
    Answer,
    Ask,
    Claim,
    Destroying,
    Look,
    Observed,
    Origin,
    Relatives,
    Release,
    Whose,
    Work,
)
from slate_operator.settings import Settings


async def observe(cluster: Cluster, database: SlateDatabase, now: float, settings: Settings) -> Observed:
    """The cluster's side. What has not been asked of the database yet is asked when a plan needs it."""
    family, deleting = Family.of(database), database.metadata.deleting
    deployments = {}
    for role in Role.ALL:
        found = await cluster.get(DEPLOYMENTS, family.key(family.workload(role)))
        # One of the same name that belongs to a database of before is not ours.
        if found is not None and belongs(found, family.uid) and not found["metadata"].get("deletionTimestamp"):
            deployments[role] = found
    pods: dict[str, list[Body]] = {role: [] for role in Role.ALL}
    for pod in await cluster.list(PODS, family.namespace, {names.LABEL_DATABASE: family.name}):
        pods.setdefault(pod["metadata"]["labels"].get(names.LABEL_ROLE, ""), []).append(pod)
    versions, missing = await _secrets(cluster, database)
    return Observed(
        database,
        now,
        namespace_terminating=_may_go(database, pods) and await _namespace_goes(cluster, family.namespace),
        default_image=settings.image,
        operator_namespace=settings.namespace,
        missing_secrets=missing,
        secret_versions=versions,
        deployments=deployments,
        pods=pods,
        origin=await _origin(cluster, database) if database.status.manifest_id is None else None,
        relatives=await _relatives(cluster, family.namespace) if deleting else Relatives(),
    )


def _may_go(database: SlateDatabase, pods: Mapping[str, Sequence[Body]]) -> bool:
    """Whether to look at the namespace. One that goes ends its pods before it deletes anything else: by them it is noticed
    in time. And whoever has no finalizer of ours is new, or has been taken leave of."""
    if database.metadata.deleting or FINALIZER_DATABASE not in database.metadata.finalizers:
        return True
    return any(pod["metadata"].get("deletionTimestamp") for role in pods for pod in pods[role])


async def _secrets(cluster: Cluster, database: SlateDatabase) -> tuple[list[str], list[str]]:
    """Of the Secrets that the spec names: versions of those whose contents pods take in, and the names of those missing."""
    store, auth = database.spec.store, database.spec.writer.auth.secret_ref
    read = [ref.name for ref in (store.secret_ref, store.cas.secret_ref if store.cas else None) if ref is not None]
    versions: list[str] = []
    missing: list[str] = []
    for name in dict.fromkeys(read):
        version = await cluster.version(SECRETS, Key(database.metadata.namespace, name))
        if version is None:
            missing.append(name)
        else:
            versions.append(version)
    # A file that is mounted follows its Secret without a new pod.
    if auth is not None and await cluster.version(SECRETS, Key(database.metadata.namespace, auth.name)) is None:
        missing.append(auth.name)
    return versions, missing


async def _namespace_goes(cluster: Cluster, namespace: str) -> bool:
    try:
        found = await cluster.get(NAMESPACES, Key("", namespace))
    except Refused:
        return False  # we may not look; then the patience for a collector that does not answer is all there is
    return found is not None and bool(found["metadata"].get("deletionTimestamp"))


async def _origin(cluster: Cluster, database: SlateDatabase) -> Origin | None:
    begins, namespace = database.spec.bootstrap.clone, database.metadata.namespace
    if begins is None:
        return None
    checkpoint = None
    if begins.checkpoint_ref is not None:
        found = await cluster.get(CHECKPOINTS, Key(namespace, begins.checkpoint_ref.name))
        if found is None:
            return Origin(missing=f"Checkpoint {begins.checkpoint_ref.name}")
        checkpoint = Checkpoint.of(found)
        name = checkpoint.spec.database_ref.name
    else:
        assert begins.database_ref is not None
        name = begins.database_ref.name
    found = await cluster.get(DATABASES, Key(namespace, name))
    if found is None:
        return Origin(checkpoint=checkpoint, missing=f"SlateDatabase {name}")
    return Origin(SlateDatabase.of(found), checkpoint)


async def _relatives(cluster: Cluster, namespace: str) -> Relatives:
    return Relatives(
        await cluster.list(CHECKPOINTS, namespace),
        await cluster.list(DATABASES, namespace),
        await cluster.list(CLONES, namespace),
    )


async def asked(databases: Databases, seen: Observed, ask: Ask) -> Answer:
    """Ask a database one thing."""
    database = seen.database
    if isinstance(ask, Work) and ask.of_source:
        assert seen.origin is not None
        assert seen.origin.database is not None
        database = seen.origin.database
    try:
        return await _answer(databases.admin(database), seen, ask)
    except NotReached as silence:
        return Answer(unreached=True, words=str(silence))
    except Problem as problem:
        if isinstance(ask, Look) and problem.kind == "no-database":
            return Answer()
        return Answer(problem=problem.kind, words=problem.detail)


async def _answer(admin: Admin, seen: Observed, ask: Ask) -> Answer:
    match ask:
        case Look():
            return Answer(await admin.status())
        case Whose():
            return Answer(await admin.owner())
        case Claim():
            await admin.claim(seen.owner, ask.expect, ask.instead_of)
            return Answer()
        case Release():
            await admin.release(seen.owner)
            return Answer()
        case Destroying():
            return Answer(await admin.is_destroying())
        case Work():
            return Answer(await admin.put_operation(ask.id, ask.document))
        case _:
            assert_never(ask)
