"""The objects of a Spark job: what it needs, and the two kinds that can start it.

Both start the same pods, from the same templates, and the driver's pod has the same name; so how a job goes is seen by that
pod, whoever started it.
"""

from __future__ import annotations

from typing import Any

from slate_operator import names
from slate_operator.api.spark import SparkPod
from slate_operator.build.config import as_file
from slate_operator.build.spark_pods import (
    DRIVER,
    EXECUTOR,
    FOLDER,
    POD_SECURITY,
    SECURITY,
    WRITABLE,
    driver_template,
    executor_template,
)
from slate_operator.build.spark_run import SETTINGS, SparkRun
from slate_operator.kube.cluster import (
    CONFIG_MAPS,
    JOBS,
    NETWORK_POLICIES,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    SPARK_APPLICATIONS,
    Body,
    Kind,
)

SOME_SPARK = "4.1.0"
"""Kubeflow's operator only wants to know whether it is new enough for pod templates."""
SUBMIT_SECONDS = 600
MASTER = "k8s://https://kubernetes.default.svc"
NO_POLICY = "org.apache.spark.deploy.k8s.features.NetworkPolicyFeatureStep"
"""Spark's own NetworkPolicy needs a right that Kubeflow's chart does not give; there is one of ours instead."""


def foundation(run: SparkRun, role: str) -> list[tuple[Kind, Body]]:
    """What has to be there before the job. ``role`` is what a driver's service account is bound to, as Role/NAME."""
    made = [(CONFIG_MAPS, config_map(run)), (NETWORK_POLICIES, network_policy(run))]
    if run.service_account == run.family:
        rest = {"automountServiceAccountToken": False}
        annotations = dict(run.store.service_account_annotations)
        made.append((SERVICE_ACCOUNTS, run.object(SERVICE_ACCOUNTS, run.family, rest, annotations=annotations)))
    if role and run.spark.service_account_name is None:
        made.append((ROLE_BINDINGS, role_binding(run, role)))
    return made


def config_map(run: SparkRun) -> Body:
    """The settings of the job, and the templates of its pods for spark-submit, which reads them from files."""
    data = {
        SETTINGS.rpartition("/")[2]: as_file(run.settings),
        "driver.yaml": as_file(driver_template(run)),
        "executor.yaml": as_file(executor_template(run)),
    }
    return run.object(CONFIG_MAPS, run.name, {"data": data})


def network_policy(run: SparkRun) -> Body:
    """Drivers and executors speak to each other only. Their ports have no password."""
    ours = {"matchLabels": {names.LABEL_SPARK: run.name}}
    spec = {"podSelector": ours, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": ours}]}]}
    return run.object(NETWORK_POLICIES, run.name, {"spec": spec})


def role_binding(run: SparkRun, role: str) -> Body:
    kind, _, name = role.partition("/")
    rest = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": run.service_account, "namespace": run.namespace}],
    }
    return run.object(ROLE_BINDINGS, run.family, rest)


def spark_application(run: SparkRun) -> Body:
    """For Kubeflow's operator. What is tried again, and when, is decided by ours."""
    driver, executor = run.spark.driver, run.spark.executor
    spec = {
        "type": "Python",
        "mode": "cluster",
        "sparkVersion": SOME_SPARK,
        "image": run.image,
        "mainApplicationFile": run.main_file,
        "arguments": list(run.arguments),
        "restartPolicy": {"type": "Never"},
        "sparkConf": _conf(run),
        "driver": {**_shape(run, driver), "podName": run.driver_pod, "template": _pod(driver_template(run))},
        "executor": {
            **_shape(run, executor),
            "instances": executor.instances,
            "template": _pod(executor_template(run)),
        },
    }
    return run.object(SPARK_APPLICATIONS, run.name, {"spec": spec})


def _shape(run: SparkRun, pod: SparkPod) -> dict[str, Any]:
    shape: dict[str, Any] = {"cores": pod.cores, "memory": pod.memory, "memoryOverhead": pod.memory_overhead}
    if pod.core_request is not None:
        shape["coreRequest"] = pod.core_request
    return {**shape, "serviceAccount": run.service_account}


def _pod(template: Body) -> Body:
    return {name: template[name] for name in ("metadata", "spec")}


def submit_job(run: SparkRun) -> Body:
    """A pod that runs spark-submit once, and ends as soon as the driver's pod is made."""
    confs = {**_conf(run), **_submit_conf(run)}
    command = ["spark-submit", "--master", MASTER, "--deploy-mode", "cluster", "--name", run.name]
    for name, value in sorted(confs.items()):
        command += ["--conf", f"{name}={value}"]
    command += [run.main_file, *run.arguments]
    container = {
        "name": "submit",
        "image": run.image,
        "args": command,
        "securityContext": SECURITY,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"requests": {"cpu": "100m", "memory": "384Mi"}},
        "volumeMounts": [
            *({"name": name, "mountPath": path} for name, path in WRITABLE.items()),
            {"name": "job", "mountPath": FOLDER, "readOnly": True},
        ],
    }
    spec = {
        "serviceAccountName": run.service_account,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": POD_SECURITY,
        "containers": [container],
        "volumes": [
            *({"name": name, "emptyDir": {}} for name in WRITABLE),
            {"name": "job", "configMap": {"name": run.name}},
        ],
    }
    labels = {**run.pod_labels, names.LABEL_COMPONENT: "spark-submit"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    rest = {"backoffLimit": 0, "activeDeadlineSeconds": SUBMIT_SECONDS, "template": template}
    return run.object(JOBS, run.name, {"spec": rest})


def _conf(run: SparkRun) -> dict[str, str]:
    """What is asked of Spark however it is started. The user's word counts more."""
    made = {
        "spark.kubernetes.driver.pod.excludedFeatureSteps": NO_POLICY,
        "spark.kubernetes.authenticate.executor.serviceAccountName": run.service_account,
    }
    return {**made, **run.spark.conf}


def _submit_conf(run: SparkRun) -> dict[str, str]:
    """What a SparkApplication has fields for."""
    driver, executor = run.spark.driver, run.spark.executor
    return {
        "spark.kubernetes.namespace": run.namespace,
        "spark.kubernetes.container.image": run.image,
        "spark.kubernetes.driver.pod.name": run.driver_pod,
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.kubernetes.authenticate.driver.serviceAccountName": run.service_account,
        "spark.kubernetes.driver.podTemplateFile": f"{FOLDER}/driver.yaml",
        "spark.kubernetes.driver.podTemplateContainerName": DRIVER,
        "spark.kubernetes.executor.podTemplateFile": f"{FOLDER}/executor.yaml",
        "spark.kubernetes.executor.podTemplateContainerName": EXECUTOR,
        "spark.executor.instances": str(executor.instances),
        **_sizes("driver", driver),
        **_sizes("executor", executor),
    }


def _sizes(role: str, pod: SparkPod) -> dict[str, str]:
    return {
        f"spark.{role}.cores": str(pod.cores),
        f"spark.{role}.memory": pod.memory,
        f"spark.{role}.memoryOverhead": pod.memory_overhead,
        f"spark.kubernetes.{role}.request.cores": pod.core_request or str(pod.cores),
    }
