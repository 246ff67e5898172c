"""How the pods of a role are: what the Deployment tells, and when that is not good, what the pods tell."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slate_operator.api.conditions import Condition, said
from slate_operator.kube.cluster import Body
from slate_operator.logs import scrubbed

ROLLING_OUT = "RollingOut"
"""The reason of a condition that is not good yet, without anything having gone wrong."""

_IN_ORDER = ("ContainerCreating", "PodInitializing")
FENCED = 6
"""The exit code of a process that was replaced by a newer one."""


def role_condition(type: str, deployment: Body | None, pods: Sequence[Body], wanted: int) -> Condition:
    """True if as many pods as wanted are available, and all of them are of the newest template."""
    if deployment is None:
        return said(type, False, ROLLING_OUT, "its Deployment is being made")
    if rolled_out(deployment, wanted):
        return said(type, True, "Available" if wanted else "Stopped", _count(wanted))
    status = deployment.get("status") or {}
    available, updated = status.get("availableReplicas", 0), status.get("updatedReplicas", 0)
    trouble = explained(pods) or _of_deployment(status)
    if trouble is not None:
        return said(type, False, *trouble)
    return said(
        type,
        False,
        ROLLING_OUT,
        f"{available} of {wanted} are available, {updated} of them as wanted" if wanted else "its pods are ending",
    )


def rolled_out(deployment: Body, wanted: int) -> bool:
    status = deployment.get("status") or {}
    return bool(
        status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 1)
        and status.get("replicas", 0) == wanted
        and status.get("updatedReplicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
    )


def explained(pods: Sequence[Body]) -> tuple[str, str] | None:
    """The reason and the words of the newest pod that has trouble."""
    living = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    for pod in sorted(living, key=lambda each: str(each["metadata"].get("creationTimestamp", "")), reverse=True):
        for reason, words in _troubles(pod):
            return reason, f"pod {pod['metadata']['name']}: {words}"
    return None


def _troubles(pod: Body) -> Iterator[tuple[str, str]]:
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield condition.get("reason") or "Unschedulable", condition.get("message") or "no node takes it"
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for container in statuses:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting and waiting.get("reason", "ContainerCreating") not in _IN_ORDER:
            yield waiting["reason"], _sentence(waiting.get("message", ""), _last_words(container))
        elif not container.get("ready") and container.get("restartCount"):
            yield (
                "Restarting",
                _sentence(f"it was started {container['restartCount'] + 1} times", _last_words(container)),
            )
    if status.get("phase") == "Failed":
        yield status.get("reason") or "Failed", status.get("message") or "it failed"


def _last_words(container: Mapping[str, Any]) -> str:
    """What the container wrote before it ended. More people read a status than a log, so nothing that looks like a secret
    goes along: who wrote it may be an image of the user's."""
    for state in ("state", "lastState"):
        ended = (container.get(state) or {}).get("terminated")
        if ended:
            if ended.get("exitCode") == FENCED:
                return "it was replaced by another writer or compactor (exit code 6)"
            written = (ended.get("message") or "").strip().splitlines()
            words = _of_log(written[-1]) if written else ended.get("reason", "")
            return f"it ended with code {ended.get('exitCode')}: {scrubbed(words)}"
    return ""


def _of_log(line: str) -> str:
    """Our pods log in JSON; what a person wants of a line is its message."""
    with contextlib.suppress(ValueError, AttributeError):
        return str(json.loads(line).get("message", line))
    return line


def _of_deployment(status: Mapping[str, Any]) -> tuple[str, str] | None:
    """A Deployment that cannot make pods says so: a quota, or a policy."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return condition.get("reason") or "ReplicaFailure", condition.get("message") or "no pods can be made"
    return None


def _sentence(*parts: str) -> str:
    return "; ".join(part for part in parts if part) or "see its log"


def _count(wanted: int) -> str:
    return {0: "none is wanted", 1: "it runs"}.get(wanted, f"{wanted} run")
