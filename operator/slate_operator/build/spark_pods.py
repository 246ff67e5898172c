"""The pods of a Spark job: templates that Spark fills in."""

from __future__ import annotations

import json
from typing import Any

from slate_operator.build.overlay import laid_over
from slate_operator.build.place import Place
from slate_operator.build.pod import store_environment
from slate_operator.build.spark_run import SETTINGS, SparkRun
from slate_operator.kube.cluster import Body

DRIVER, EXECUTOR = "spark-kubernetes-driver", "spark-kubernetes-executor"
"""What Spark calls the containers."""
FOLDER = SETTINGS.rpartition("/")[0]
REPORT = "/dev/termination-log"
"""What is written there becomes part of the pod's status."""
SINK_PREFIX = "SLATE_SINK_"

SECURITY = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
POD_SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
WRITABLE = {"tmp": "/tmp", "work": "/opt/spark/work-dir"}
"""Volumes and where they are; the rest of the file system is read-only."""


def driver_template(run: SparkRun) -> Body:
    made = _template(run, DRIVER, [{"name": "SLATE_REPORT", "value": REPORT}])
    made["spec"]["automountServiceAccountToken"] = True
    made["spec"]["containers"][0]["volumeMounts"].append({"name": "job", "mountPath": FOLDER, "readOnly": True})
    made["spec"]["volumes"].append({"name": "job", "configMap": {"name": run.name}})
    return _with_labels(run, laid_over(made, run.spark.driver.pod_template))


def executor_template(run: SparkRun) -> Body:
    made = _template(run, EXECUTOR, [])
    made["spec"]["automountServiceAccountToken"] = False
    return _with_labels(run, laid_over(made, run.spark.executor.pod_template))


def _with_labels(run: SparkRun, template: Body) -> Body:
    metadata = template["metadata"]
    return {**template, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **run.pod_labels}}}


def _template(run: SparkRun, container: str, more: list[dict[str, Any]]) -> Body:
    environment = [{"name": name, "value": value} for name, value in _told(run).items()]
    sources: list[dict[str, Any]] = []
    if run.store.secret_ref is not None:
        sources.append({"secretRef": {"name": run.store.secret_ref.name}})
    if run.sink_secret is not None:
        sources.append({"prefix": SINK_PREFIX, "secretRef": {"name": run.sink_secret}})
    spec = {
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "containers": [
            {
                "name": container,
                "image": run.image,
                "env": [*environment, *store_environment(run.store), *more],
                "envFrom": sources,
                "securityContext": SECURITY,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [{"name": name, "mountPath": path} for name, path in WRITABLE.items()],
            }
        ],
        "volumes": [{"name": name, "emptyDir": {}} for name in WRITABLE],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": run.pod_labels}, "spec": spec}


def _told(run: SparkRun) -> dict[str, str]:
    """Where the database is, as every image of a user's is told; so that a job needs no options for that."""
    place = Place.of(run.store.url)
    told = {"SLATE_STORE": place.root, "SLATE_PATH": place.path, **run.environment}
    if run.store.options:
        told["SLATE_STORE__OPTIONS"] = json.dumps(dict(run.store.options), sort_keys=True)
    return told
