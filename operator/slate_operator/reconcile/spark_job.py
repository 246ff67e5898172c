"""A Spark job while it runs: it is started, looked at, and stopped, whoever starts it for us.

How it goes is seen by its driver's pod. The object that starts it matters as long as there is no such pod.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from slate_operator import names
from slate_operator.api.spark import Spark
from slate_operator.build.spark_objects import foundation, spark_application, submit_job
from slate_operator.build.spark_pods import DRIVER
from slate_operator.build.spark_run import RunId, SparkRun
from slate_operator.clock import seconds_of
from slate_operator.kube.cache import has_labels
from slate_operator.kube.cluster import (
    CONFIG_MAPS,
    JOBS,
    NETWORK_POLICIES,
    PODS,
    SPARK_APPLICATIONS,
    Body,
    Cluster,
    Kind,
    LeftBehind,
    Refused,
)
from slate_operator.kube.ownership import belongs, check_own
from slate_operator.logs import scrubbed
from slate_operator.reconcile.rollout import explained

SPARK_OPERATOR, SUBMIT = "SparkOperator", "Submit"
STARTERS: Mapping[str, Kind] = {SPARK_OPERATOR: SPARK_APPLICATIONS, SUBMIT: JOBS}
"""What starts a job, by launcher."""
IGNORED_FOR = 120.0
"""Kubeflow's operator says something about a SparkApplication in a few seconds, if it looks at it at all."""
LONGEST = 600
FORBIDDEN = "Forbidden"
"""What the API server calls it if our role does not have the right."""

_ENDED_BADLY = ("FAILED", "SUBMISSION_FAILED", "FAILING")


@dataclass(frozen=True, slots=True)
class Course:
    """How a job goes. ``Missing`` is one that was not started yet."""

    state: Literal["Missing", "Submitted", "Running", "Succeeded", "Failed"]
    message: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)
    """What it told at its end."""

    @property
    def over(self) -> bool:
        return self.state in ("Succeeded", "Failed")


async def chosen(cluster: Cluster, spark: Spark) -> str:
    """Who starts it."""
    if spark.launcher != "Auto":
        return spark.launcher
    return SPARK_OPERATOR if await cluster.serves(SPARK_APPLICATIONS) else SUBMIT


async def start(cluster: Cluster, run: SparkRun, launcher: str, role: str) -> None:
    """Made once: an attempt that was begun is never begun again under the same name."""
    await _clear(cluster, run)
    for kind, body in foundation(run, role):
        await cluster.apply(kind, body)
    make = spark_application if launcher == SPARK_OPERATOR else submit_job
    kind, wanted = STARTERS[launcher], make(run)
    if not await cluster.create(kind, wanted):
        found = await cluster.get(kind, run.key(run.name))
        if found is not None:
            check_own(kind, found, wanted)


async def _clear(cluster: Cluster, run: RunId) -> None:
    """Spark makes the driver's pod without an owner. One that an owner of the same name has left would keep ours
    from starting."""
    pod = await _pod(cluster, run)
    if pod is None or _is_of(pod, run):
        return
    if not pod["metadata"].get("deletionTimestamp"):
        await cluster.delete(PODS, run.key(run.driver_pod), uid=pod["metadata"]["uid"])
    raise LeftBehind(
        f"Pod {run.driver_pod} is still there of a {run.owner['kind']} of this name that is gone; it is being deleted, and "
        "Spark is started after that"
    )


async def look(cluster: Cluster, run: RunId, launcher: str, now: float) -> Course:
    driver = await _driver(cluster, run)
    if driver is not None:
        return await _of_driver(cluster, run, driver)
    kind = STARTERS[launcher]
    starter = await cluster.get(kind, run.key(run.name))
    if starter is None:
        return Course("Missing")
    check_own(kind, starter, run.object(kind, run.name, {}))
    return _of_application(starter, now) if launcher == SPARK_OPERATOR else await _of_submit(cluster, run, starter)


async def stop(cluster: Cluster, run: RunId) -> bool:
    """End it and take away what was made for this attempt; whether its driver is gone. Executors go with their driver.

    Whoever started it: an operator that died then may not have come to write that down.
    """
    try:
        for kind in (*STARTERS.values(), CONFIG_MAPS, NETWORK_POLICIES):
            found = await cluster.get(kind, run.key(run.name))
            if found is not None and belongs(found, run.owner["uid"]):
                await cluster.delete(kind, run.key(run.name), uid=found["metadata"]["uid"])
        driver = await _driver(cluster, run)
    except Refused as refusal:
        if refusal.reason != FORBIDDEN:
            raise
        # Spark is switched off in the chart. What was started before goes with its owner, which is not to wait for us.
        return True
    if driver is None:
        return True
    if not driver["metadata"].get("deletionTimestamp"):
        await cluster.delete(PODS, run.key(run.driver_pod), uid=driver["metadata"]["uid"])
    return False


# --- the driver's pod ---------------------------------------------------------------------------------------------


async def _driver(cluster: Cluster, run: RunId) -> Body | None:
    pod = await _pod(cluster, run)
    return pod if pod is not None and _is_of(pod, run) else None


async def _pod(cluster: Cluster, run: RunId) -> Body | None:
    """Spark makes it from our template, with our label: a pod of its name without that is somebody else's."""
    pod = await cluster.get(PODS, run.key(run.driver_pod))
    return pod if pod is not None and has_labels(pod, {names.LABEL_SPARK: run.name}) else None


def _is_of(pod: Body, run: RunId) -> bool:
    """And not of an owner of the same name that is gone. Older operators did not say whose it is."""
    uid = run.owner["uid"]
    return bool((pod["metadata"].get("labels") or {}).get(names.LABEL_OWNER, uid) == uid)


async def _of_driver(cluster: Cluster, run: RunId, pod: Body) -> Course:
    phase = (pod.get("status") or {}).get("phase")
    report = _report(pod)
    if phase == "Succeeded":
        return Course("Succeeded", _words(report) or "the driver ended well", report)
    if phase == "Failed":
        return Course("Failed", _why(pod, report), report)
    if phase == "Running":
        return Course("Running", await _executors(cluster, run))
    trouble = explained([pod])
    return Course("Submitted", trouble[1] if trouble else "the driver's pod is being started")


def _ended(pod: Body) -> Mapping[str, Any]:
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        if container.get("name") == DRIVER:
            return (container.get("state") or {}).get("terminated") or {}
    return {}


def _report(pod: Body) -> Mapping[str, Any]:
    """What the job wrote about itself. A program of the user's may write something else, or nothing."""
    with contextlib.suppress(ValueError):
        found = json.loads(_ended(pod).get("message") or "")
        if isinstance(found, dict):
            return found
    return {}


def _words(report: Mapping[str, Any]) -> str:
    if "error" in report:
        return scrubbed(str(report["error"]))[:LONGEST]
    if "rows" in report:
        return f"{report['rows']:,} rows in {report.get('seconds', 0):,.0f} s" if _is_number(report["rows"]) else ""
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _why(pod: Body, report: Mapping[str, Any]) -> str:
    """A job that told of its success, and ended badly after that, is told with both."""
    if "error" in report:
        return _words(report)
    ended, status = _ended(pod), pod.get("status") or {}
    said = (ended.get("message") or status.get("message") or "").strip().splitlines()
    how = ended.get("reason") or status.get("reason") or "Error"
    code = f" with code {ended['exitCode']}" if "exitCode" in ended else ""
    before = f"the work was done ({_words(report)}), but then " if report else ""
    tail = f": {scrubbed(said[-1])[:LONGEST]}" if said and not report else ""
    return f"{before}the driver ended{code} ({how}){tail}; see `kubectl logs {pod['metadata']['name']}`"


async def _executors(cluster: Cluster, run: RunId) -> str:
    """How many do the work; and if some cannot, why."""
    labels = {names.LABEL_SPARK: run.name, "spark-role": "executor"}
    pods = await cluster.list(PODS, run.namespace, labels)
    running = sum((pod.get("status") or {}).get("phase") == "Running" for pod in pods)
    waiting = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Pending"]
    trouble = explained(waiting)
    told = f"{running} of {len(pods)} executors run" if pods else "executors are being started"
    return f"{told}; {trouble[1]}" if trouble else told


# --- what starts it -----------------------------------------------------------------------------------------------


def _of_application(application: Body, now: float) -> Course:
    found = (application.get("status") or {}).get("applicationState") or {}
    state = found.get("state") or ""
    if state in _ENDED_BADLY:
        lines = (found.get("errorMessage") or "the Spark operator gives no reason").strip().splitlines()
        return Course("Failed", f"Spark could not be started: {scrubbed(lines[0])[:LONGEST]}")
    if state == "COMPLETED":
        return Course("Succeeded", "the driver ended well, and its pod is gone")
    if not state and now - seconds_of(application["metadata"]["creationTimestamp"]) > IGNORED_FOR:
        return Course(
            "Submitted",
            "Kubeflow's Spark operator does not look at the SparkApplication: does it run, and does it watch this "
            "namespace? spark.launcher: Submit does without it",
        )
    return Course("Submitted", "the Spark operator starts the driver")


async def _of_submit(cluster: Cluster, run: RunId, job: Body) -> Course:
    status = job.get("status") or {}
    pods = await cluster.list(PODS, run.namespace, {names.LABEL_SPARK: run.name, names.LABEL_COMPONENT: "spark-submit"})
    trouble = explained(pods)
    if status.get("failed"):
        return Course(
            "Failed", f"spark-submit failed: {_last_line(pods) or (trouble[1] if trouble else 'see its pod')}"
        )
    if status.get("succeeded"):
        return Course("Failed", "the driver's pod was deleted before it ended")
    return Course("Submitted", trouble[1] if trouble else "spark-submit starts the driver")


def _last_line(pods: Any) -> str:
    """Of an exception, which is what spark-submit ends with; the rest is where in Spark it happened."""
    for pod in pods:
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            message = ((container.get("state") or {}).get("terminated") or {}).get("message") or ""
            lines = [line for line in message.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
            if lines:
                return scrubbed(lines[-1].strip())[:LONGEST]
    return ""
