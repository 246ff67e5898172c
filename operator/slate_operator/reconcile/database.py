"""A SlateDatabase: observe, plan, apply, report."""

from __future__ import annotations

from slate_operator.admin.database import Databases
from slate_operator.api.database import SlateDatabase
from slate_operator.clock import Clock
from slate_operator.kube.cluster import (
    CONFIG_MAPS,
    DATABASES,
    DEPLOYMENTS,
    SERVICE_ACCOUNTS,
    Body,
    Cluster,
    Key,
    Kind,
    LeftBehind,
    NameTaken,
    Refused,
)
from slate_operator.kube.ownership import belongs
from slate_operator.names import FINALIZER_DATABASE, LABEL_ROLE
from slate_operator.reconcile.deletion import known_deadline
from slate_operator.reconcile.draft import Draft
from slate_operator.reconcile.observe import asked, observe
from slate_operator.reconcile.observed import Observed
from slate_operator.reconcile.outcome import Outcome
from slate_operator.reconcile.report import Named, reported
from slate_operator.reconcile.secrets import tend_secrets
from slate_operator.reconcile.spark_compaction import SparkCompactions
from slate_operator.reconcile.steps import planned
from slate_operator.settings import Settings

MOST_QUESTIONS = 16
"""A plan that asks for more than this goes round in circles."""


class DatabaseReconciler:
    """Has no memory: what it does depends on what it finds, and not on what it did before."""

    kind = DATABASES

    def __init__(self, cluster: Cluster, databases: Databases, clock: Clock, settings: Settings) -> None:
        self._cluster = cluster
        self._databases = databases
        self._clock = clock
        self._settings = settings
        self._spark = SparkCompactions(cluster, databases, clock, settings)

    async def reconcile(self, body: Body) -> Outcome:
        database = SlateDatabase.of(body)
        if database.metadata.deleting and FINALIZER_DATABASE not in database.metadata.finalizers:
            return Outcome(gone=True)
        seen = await observe(self._cluster, database, self._clock.now(), self._settings)
        tended = None
        if needs_secrets(seen):
            tended = await tend_secrets(self._cluster, database, self._clock, self._settings.cluster_domain)
        draft = await self._plan(seen)
        if tended is not None:
            draft.status["rotated"] = tended.rotated or None
            draft.come_back(tended.next_change)
        if not database.spec.paused:
            await self._spark.tend(database, draft)
        applied, refused = await self._apply(draft, body)
        return reported(draft, applied, refused, self._settings.cluster_domain)

    async def _plan(self, seen: Observed) -> Draft:
        """Ask the database what the plan depends on, one thing after the other."""
        for _ in range(MOST_QUESTIONS):
            plan = planned(seen)
            if plan.draft is not None:
                return plan.draft
            assert plan.ask is not None
            seen = seen.after(plan.ask, await asked(self._databases, seen, plan.ask))
        raise AssertionError(f"the plan of {seen.database.metadata.name} asks for ever: {list(seen.answers)}")

    async def _apply(self, draft: Draft, body: Body) -> tuple[dict[str, Body], dict[Named, Refused]]:
        """The Deployments as they are then, by role, and what could not be made. One that is refused does not keep the
        others from being applied, but for pods that would run with what is somebody else's, or about to go."""
        if draft.keep_finalizer:
            finalizers = [*draft.seen.database.metadata.finalizers, FINALIZER_DATABASE]
            await self._cluster.set_finalizers(DATABASES, body, finalizers)
        applied, refused = dict(draft.seen.deployments), dict[Named, Refused]()
        taken = set[Named]()
        for kind, wanted in draft.applies:
            named = (kind, wanted["metadata"]["name"])
            if kind == DEPLOYMENTS and taken.intersection(needs(wanted)):
                continue
            try:
                made = await self._cluster.apply(kind, wanted)
            except (NameTaken, LeftBehind) as refusal:
                taken.add(named)
                refused[named] = refusal
                continue
            except Refused as refusal:
                told = f"the API server does not take it: {kind.kind} {named[1]}: {refusal}"
                refused[named] = Refused(told, "Refused")
                continue
            if kind == DEPLOYMENTS:
                applied[made["metadata"]["labels"][LABEL_ROLE]] = made
        for kind, key in draft.removals:
            await self._remove(kind, key, draft.seen.owner.uid)
        if draft.release:
            left = [each for each in draft.seen.database.metadata.finalizers if each != FINALIZER_DATABASE]
            await self._cluster.set_finalizers(DATABASES, body, left)
        return applied, refused

    async def _remove(self, kind: Kind, key: Key, ours: str) -> None:
        """Where nothing of ours is wanted, somebody may have put something of his own under that name."""
        found = await self._cluster.get(kind, key)
        if found is not None and belongs(found, ours):
            await self._cluster.delete(kind, key, uid=found["metadata"]["uid"])


def needs(deployment: Body) -> tuple[Named, ...]:
    """What its pods read, and who they are."""
    account = deployment["spec"]["template"]["spec"].get("serviceAccountName") or "default"
    return (CONFIG_MAPS, deployment["metadata"]["name"]), (SERVICE_ACCOUNTS, account)


def needs_secrets(seen: Observed) -> bool:
    """Whether a collector is to run, and so to be spoken to."""
    database = seen.database
    if database.spec.paused or seen.namespace_terminating:
        return False
    if not database.metadata.deleting or database.spec.deletion_protection:
        return True
    return seen.held and (database.spec.deletion_policy != "Retain" or known_deadline(seen) is not None)
