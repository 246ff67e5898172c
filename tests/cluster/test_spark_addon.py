"""Kubeflow's Spark operator runs a job in a namespace under the restricted Pod Security level."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.fixtures import Namespace
from tests.cluster.tool import images
from tests.cluster.tool.kubectl import until

pytestmark = pytest.mark.cluster

# The driver makes and removes its executors.
DRIVER_RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["configmaps", "services", "persistentvolumeclaims"], "verbs": ["*"]},
]
PROGRAM = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("the sum is", spark.sparkContext.parallelize(range(1000), 2).map(lambda number: 2 * number).sum())
spark.stop()
"""
RESTRICTED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("spark_operator")
def test_a_spark_application_runs_to_its_end(namespace: Namespace) -> None:
    program = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "program"}, "data": {"sum.py": PROGRAM}}
    namespace.apply(*driver_account(), program, application())

    def state() -> str:
        return namespace("get", "sparkapplication/sum", "-o", "jsonpath={.status.applicationState.state}")

    over = {"COMPLETED", "FAILED", "SUBMISSION_FAILED"}
    assert until(lambda: state() in over, timeout=240, every=1), f"still {state()}"
    message = namespace("get", "sparkapplication/sum", "-o", "jsonpath={.status.applicationState.errorMessage}")
    assert state() == "COMPLETED", message[:2000]
    assert "the sum is 999000" in namespace("logs", "sum-driver")


def application() -> dict[str, Any]:
    small = {"cores": 1, "coreRequest": "200m", "memory": "512m", "securityContext": RESTRICTED}
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "sum"},
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "sparkVersion": "4.3.0",
            "image": images.tag("spark"),
            "imagePullPolicy": "Never",
            "mainApplicationFile": "local:///opt/program/sum.py",
            "restartPolicy": {"type": "Never"},
            "driver": {
                **small,
                "serviceAccount": "driver",
                "configMaps": [{"name": "program", "path": "/opt/program"}],
            },
            "executor": {**small, "instances": 1},
        },
    }


def driver_account() -> list[dict[str, Any]]:
    group, meta = "rbac.authorization.k8s.io", {"name": "driver"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": DRIVER_RULES},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "driver"},
            "subjects": [{"kind": "ServiceAccount", "name": "driver"}],
        },
    ]
