"""Objects as the operator leaves them, and what tools that watch them should make of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slate_operator import names
from slate_operator.api.conditions import Condition, merged, said

Body = dict[str, Any]
NOW = "2026-11-18T11:06:40Z"


@dataclass(frozen=True)
class Situation:
    """``argo`` is Argo CD's health, ``kstatus`` what Flux and kpt see without being told more, ``flux`` what Flux sees with
    our expressions (of databases only)."""

    what: str
    body: Body
    argo: str
    message: str
    kstatus: str
    flux: str | None = None

    @property
    def ready(self) -> bool:
        """What `kubectl wait --for=condition=Ready` waits for."""
        found = self.body.get("status", {}).get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in found)


def thing(
    kind: str = "SlateDatabase",
    *conditions: Condition,
    generation: int = 1,
    observed: int | None = None,
    spec: Body | None = None,
    **metadata: Any,
) -> Body:
    observed = generation if observed is None else observed
    told = merged((), conditions, generation=observed, now=NOW)
    body = {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "metadata": {"name": "it", "namespace": "shop", "generation": generation, **metadata},
        "spec": spec or {},
        "status": {"observedGeneration": observed},
    }
    if told:
        body["status"]["conditions"] = [each.model_dump(by_alias=True, mode="json") for each in told]
    return body


def bad(reason: str, message: str, follow: str | None = None) -> list[Condition]:
    """Not ready, and whether it goes on by itself or needs the user."""
    return [said(names.READY, False, reason, message), *([said(follow, True, reason, message)] if follow else [])]


READY = said(names.READY, True, "Ready", "all that is wanted runs")

SITUATIONS = (
    Situation(
        "nobody has looked", thing(observed=-1), "Progressing", "not looked at it yet", "InProgress", "InProgress"
    ),
    Situation(
        "a controller that is not there",
        {"metadata": {"name": "it", "generation": 1}, "spec": {}, "kind": "SlateDatabase"},
        "Progressing",
        "not looked at it yet",
        "Current",  # which is why the CRD gives every object a status at once
    ),
    Situation("all is well", thing("SlateDatabase", READY), "Healthy", "all that is wanted runs", "Current", "Current"),
    Situation(
        "ready, but for an older spec",
        thing("SlateDatabase", READY, generation=2, observed=1),
        "Progressing",
        "not looked at it yet",
        "InProgress",
        "InProgress",
    ),
    Situation(
        "pods are being started",
        thing("SlateDatabase", *bad("RollingOut", "0 of 1 pods are ready", names.RECONCILING)),
        "Progressing",
        "0 of 1 pods are ready",
        "InProgress",
        "InProgress",
    ),
    Situation(
        "an image that cannot be pulled",
        thing("SlateDatabase", *bad("ImagePullBackOff", "WriterReady: Back-off pulling image")),
        "Degraded",
        "Back-off pulling image",
        "InProgress",
        "InProgress",
    ),
    Situation(
        "a path of another's",
        thing("SlateDatabase", *bad("OwnedByAnother", "it belongs to shop2/orders", names.STALLED)),
        "Degraded",
        "belongs to shop2",
        "Failed",
        "Failed",
    ),
    Situation(
        "hibernated",
        thing(
            "SlateDatabase",
            said(names.HIBERNATED, True, "Asked", "nothing but the collector runs until spec.hibernated is false"),
            *bad("Hibernated", "nothing but the collector runs, as asked"),
        ),
        "Suspended",
        "until spec.hibernated is false",
        "InProgress",
        "Current",
    ),
    Situation(
        "paused, with a change that waits",
        thing(
            "SlateDatabase",
            said(names.PAUSED, True, "Asked", "nothing is changed until spec.paused is false"),
            generation=3,
            observed=2,
        ),
        "Suspended",
        "until spec.paused is false",
        "InProgress",
        "Current",
    ),
    Situation(
        "being deleted",
        thing(
            "SlateDatabase",
            said(names.DELETION_BLOCKED, True, "Grace", "until then it can be brought back"),
            *bad("Deleting", "it is being deleted", names.RECONCILING),
            deletionTimestamp=NOW,
        ),
        "Progressing",
        "until then it can be brought back",
        "Terminating",
    ),
    Situation(
        "a checkpoint that is kept",
        thing("Checkpoint", said(names.READY, True, "Kept", "manifest 42 is kept")),
        "Healthy",
        "manifest 42 is kept",
        "Current",
    ),
    Situation(
        "a checkpoint that was lost",
        thing("Checkpoint", *bad("Lost", "the checkpoint was deleted in the database", names.STALLED)),
        "Degraded",
        "was deleted in the database",
        "Failed",
    ),
    Situation(
        "a clone under way",
        thing("Clone", *bad("Cloning", "it is being cloned from orders", names.RECONCILING)),
        "Progressing",
        "being cloned from orders",
        "InProgress",
    ),
    Situation(
        "a clone that shares nothing any more",
        thing(
            "Clone",
            said(names.ATTACHED, False, "Detached", "nothing is shared"),
            said(names.READY, True, "Ready", "SlateDatabase staging is ready"),
        ),
        "Healthy",
        "staging is ready",
        "Current",
    ),
    Situation(
        "a schedule that rests",
        thing(
            "CheckpointSchedule",
            said(names.READY, True, "Suspended", "no checkpoints are made"),
            spec={"suspend": True},
        ),
        "Suspended",
        "no checkpoints are made",
        "Current",
    ),
    Situation(
        "a schedule that runs",
        thing("CheckpointSchedule", said(names.READY, True, "Scheduled", "the next is at 3"), spec={"suspend": False}),
        "Healthy",
        "the next is at 3",
        "Current",
    ),
    Situation(
        "a state that is not known",
        thing("Clone", said(names.READY, None, "NotAsked", "")),
        "Progressing",
        "not known yet",
        "InProgress",
    ),
)
