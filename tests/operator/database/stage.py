"""A database's whole world as values: the object, its Deployments and pods, the bucket. No cluster and no store, so that a
life with all its accidents takes a millisecond. What the real ones do is tested elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from slate_operator.admin.database import CheckpointFacts, DatabaseFacts, OperationFacts, Owner
from slate_operator.api.conditions import Condition, merged
from slate_operator.api.database import SlateDatabase
from slate_operator.build.naming import Family
from slate_operator.clock import stamp
from slate_operator.kube.cluster import DEPLOYMENTS
from slate_operator.names import FINALIZER_DATABASE, LABEL_ROLE, Role
from slate_operator.reconcile.draft import Draft
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
from slate_operator.reconcile.outcome import Outcome
from slate_operator.reconcile.report import reported
from slate_operator.reconcile.steps import planned
from tests.operator.build.samples import IMAGE, NOW, UID, body_of

OURS = Owner(UID, "shop", "orders")
STRANGER = Owner("00000000-0000-4000-8000-000000000000", "else", "where")


@dataclass
class Bucket:
    """What is at the database's path, and whether its collector can get at it."""

    owner: Owner | None = None
    state: str | None = None
    destroyed_at: int | None = None
    epoch: int = 1
    manifest_id: int = 7
    checkpoints: list[CheckpointFacts] = field(default_factory=list)
    reached: bool = True
    problem: str = ""
    log_trouble: str | None = None
    """What its collector says of a log of which files are missing."""
    failing: str = ""
    """What every operation fails with."""
    failing_status: int = 400
    done: list[str] = field(default_factory=list)
    operations: dict[str, OperationFacts] = field(default_factory=dict)

    def answer(self, ask: Ask, now: float) -> Answer:
        if not self.reached:
            return Answer(unreached=True, words="nobody is there")
        if self.problem:
            return Answer(problem=self.problem, words="the store does not answer")
        match ask:
            case Look():
                return Answer() if self.state is None else Answer(self.facts)
            case Whose():
                return Answer(self.owner)
            case Claim():
                return self._claim(ask)
            case Release():
                if self.owner == OURS:
                    self.done.append("release")
                    self.owner = None
                return Answer()
            case Destroying():
                return Answer(any(each.state == "running" for each in self.operations.values()))
            case Work():
                if ask.id not in self.operations:
                    self.operations[ask.id] = self._work(ask, now)
                return Answer(self.operations[ask.id])

    @property
    def facts(self) -> DatabaseFacts:
        assert self.state is not None
        return DatabaseFacts(
            "orders",
            self.state,
            self.destroyed_at,
            self.manifest_id,
            self.epoch,
            1,
            0,
            1,
            2048,
            0.0,
            tuple(self.checkpoints),
            log_trouble=self.log_trouble,
        )

    def _claim(self, claim: Claim) -> Answer:
        if self.owner == OURS:
            return Answer()
        if self.owner is not None and self.owner.uid != claim.instead_of:
            return Answer(problem="owned-by-another", words=f"the database belongs to {self.owner.uid}")
        expected = {"empty": None, "database": "alive", "destroyed": "destroyed"}[claim.expect]
        if self.state != expected:
            problem = {None: "no-database", "destroyed": "destroyed"}.get(self.state, "database-exists")
            return Answer(problem=problem, words="that is not what is there")
        if self.log_trouble is not None:
            return Answer(problem="wal-missing", words=self.log_trouble)
        self.owner = OURS
        return Answer()

    def _work(self, work: Work, now: float) -> OperationFacts:
        what = " ".join([work.kind, *(str(value) for name, value in work.arguments if name == "mode")])
        self.done.append(what)
        if self.failing:
            return OperationFacts(work.id, "failed", problem={"detail": self.failing, "status": self.failing_status})
        match what:
            case "destroy soft":
                self.state, self.destroyed_at, self.epoch = "destroyed", int(now), self.epoch + 1
            case "destroy hard":
                if any(each.expires_at_s is None or each.expires_at_s > now for each in self.checkpoints):
                    return OperationFacts(work.id, "failed", problem={"detail": "checkpoints need it"})
                self.state = self.owner = None
            case "undelete":
                self.state, self.destroyed_at = "alive", None
            case "clone":
                self.state = "alive"
        return OperationFacts(work.id, "succeeded")


@dataclass
class Stage:
    """The object and its surroundings."""

    spec: dict[str, Any]
    bucket: Bucket = field(default_factory=Bucket)
    now: float = NOW
    generation: int = 1
    annotations: dict[str, str] = field(default_factory=dict)
    finalizers: list[str] = field(default_factory=list)
    deleted_at: float | None = None
    status: dict[str, Any] = field(default_factory=dict)
    deployments: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    missing_secrets: Sequence[str] = ()
    secret_versions: Sequence[str] = ()
    namespace_terminating: bool = False
    origin: Origin | None = None
    relatives: Relatives = field(default_factory=Relatives)
    default_image: str = IMAGE
    outcome: Outcome = field(default_factory=Outcome)
    draft: Draft | None = None
    asked: list[Ask] = field(default_factory=list)
    applied: list[str] = field(default_factory=list)
    pods_start: bool = True

    # --- the object ----------------------------------------------------------------------------------------------

    @property
    def database(self) -> SlateDatabase:
        metadata: dict[str, Any] = {
            "annotations": self.annotations,
            "finalizers": self.finalizers,
            "creationTimestamp": stamp(NOW),
        }
        if self.deleted_at is not None:
            metadata["deletionTimestamp"] = stamp(self.deleted_at)
        made = body_of(self.spec, **metadata)
        made["metadata"]["generation"] = self.generation
        return SlateDatabase.of({**made, "status": self.status})

    def edit(self, **spec: Any) -> Stage:
        self.spec = {**self.spec, **spec}
        self.generation += 1
        return self

    def delete(self) -> Stage:
        self.deleted_at = self.now
        return self

    @property
    def gone(self) -> bool:
        return self.deleted_at is not None and FINALIZER_DATABASE not in self.finalizers

    def condition(self, type: str) -> Condition | None:
        return next((each for each in self.outcome.conditions if each.type == type), None)

    @property
    def blocked_by(self) -> list[str]:
        return [each["kind"] for each in self.status.get("deletion", {}).get("blockedBy", ())]

    def runs(self, role: str) -> bool:
        return bool(self.pods.get(role))

    # --- one reconcile -------------------------------------------------------------------------------------------

    def observed(self) -> Observed:
        return Observed(
            self.database,
            self.now,
            namespace_terminating=self.namespace_terminating,
            default_image=self.default_image,
            missing_secrets=self.missing_secrets,
            secret_versions=self.secret_versions,
            deployments=self.deployments,
            pods=self.pods,
            origin=self.origin,
            relatives=self.relatives,
        )

    def look(self, times: int = 1) -> Stage:
        for _ in range(times):
            if not self.gone:
                self._look()
        return self

    def _look(self) -> None:
        seen = self.observed()
        self.asked = []
        while (plan := planned(seen)).draft is None:
            assert plan.ask is not None
            assert len(self.asked) < 12, f"it asks for ever: {self.asked}"
            self.asked.append(plan.ask)
            seen = seen.after(plan.ask, self.bucket.answer(plan.ask, self.now))
        draft = self.draft = plan.draft
        if draft.keep_finalizer:
            self.finalizers = [FINALIZER_DATABASE]
        self.applied = [f"{kind.kind} {body['metadata']['name']}" for kind, body in draft.applies]
        for kind, body in draft.applies:
            if kind == DEPLOYMENTS:
                self._deploy(body)
        family = Family.of(self.database)
        for role in list(self.deployments):
            if (DEPLOYMENTS, family.key(family.workload(role))) in draft.removals:
                del self.deployments[role]
        self.outcome = reported(draft, self.deployments, {}, "cluster.local")
        if draft.release:
            self.finalizers = []
        elif not self.outcome.gone:
            self._tell(self.outcome)
        self._let_pods_follow()
        self.now += self.outcome.again_in or 5.0

    def _tell(self, outcome: Outcome) -> None:
        known = self.database.status.conditions
        found = merged(known, outcome.conditions, generation=self.generation, now=stamp(self.now))
        self.status = {
            **outcome.status,
            "conditions": [each.model_dump(by_alias=True) for each in found],
            "observedGeneration": self.generation,
        }

    def _deploy(self, body: dict[str, Any]) -> None:
        role = body["metadata"]["labels"][LABEL_ROLE]
        before = self.deployments.get(role, {})
        same = before.get("spec") == body["spec"]
        generation = before.get("metadata", {}).get("generation", 0) + (0 if same else 1)
        self.deployments[role] = {
            **body,
            "metadata": {**body["metadata"], "generation": generation},
            "status": before.get("status", {}),
        }

    def _let_pods_follow(self) -> None:
        """What the Deployment controller and kubelet would have done by the next look."""
        for role in Role.ALL:
            deployment = self.deployments.get(role)
            wanted = deployment["spec"]["replicas"] if deployment else 0
            if not self.pods_start and wanted:
                continue
            self.pods[role] = [_pod(role, number) for number in range(wanted)]
            if deployment:
                deployment["status"] = {
                    "observedGeneration": deployment["metadata"]["generation"],
                    **dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), wanted),
                }
        if self.runs(Role.WRITER) and self.bucket.state is None and self.bucket.owner == OURS:
            self.bucket.state = "alive"  # the first writer makes the database


def _pod(role: str, number: int) -> dict[str, Any]:
    return {"metadata": {"name": f"orders-{role}-{number}", "labels": {LABEL_ROLE: role}}, "status": {}}


def living(spec: dict[str, Any], **more: Any) -> Stage:
    """A database that has run for a while."""
    stage = Stage(spec, **more).look(4)
    assert stage.bucket.owner == OURS
    return stage
