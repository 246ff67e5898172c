"""What a cluster can have besides: one command each, and safe to repeat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cluster.tool import images, programs, spark_operator
from tests.cluster.tool.kubectl import Manifest
from tests.cluster.tool.names import PROJECT
from tests.cluster.tool.provider import Provider
from tests.cluster.tool.report import run, say
from tests.servers.versitygw import ACCESS_KEY, REGION, SECRET_KEY

S3_NAMESPACE = "s3"
S3_ENDPOINT = f"http://s3.{S3_NAMESPACE}.svc.cluster.local:7070"
S3_FOLDER = "/data"  # a bucket is a folder in it
SPARK_NAMESPACE = "spark-operator"
SLATEKEEPER_NAMESPACE = "slatekeeper-system"

_LABELS = {"app.kubernetes.io/name": "s3"}
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def restricted_namespace(name: str) -> Manifest:
    """A namespace that lets no pod in that would not be let in by the strictest Pod Security level."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def s3(cluster: Provider) -> None:
    """The S3 server of the contract suite as a Deployment, with a Service and a volume of the default StorageClass."""
    cluster.load([images.build("s3")])
    kubectl = cluster.kubectl()
    kubectl.apply([restricted_namespace(S3_NAMESPACE)])
    kubectl.apply(_s3_objects(), namespace=S3_NAMESPACE)
    kubectl("rollout", "status", "deployment/s3", "-n", S3_NAMESPACE, "--timeout=90s")
    say(f"S3 is at {S3_ENDPOINT} inside the cluster, region {REGION}, access key {ACCESS_KEY}, secret key {SECRET_KEY}")


def _s3_objects() -> list[Manifest]:
    container = {
        "name": "s3",
        "image": images.tag("s3"),
        "env": [
            {"name": "ROOT_ACCESS_KEY", "value": ACCESS_KEY},
            {"name": "ROOT_SECRET_KEY", "value": SECRET_KEY},
        ],
        "ports": [{"name": "s3", "containerPort": 7070}],
        "readinessProbe": {"tcpSocket": {"port": "s3"}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": _RESTRICTED,
        "volumeMounts": [{"name": "data", "mountPath": S3_FOLDER}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    pod = {
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "s3"}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": "s3", "labels": _LABELS}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {
                "replicas": 1,
                "strategy": {"type": "Recreate"},  # two servers on one folder would not know of each other's locks
                "selector": {"matchLabels": _LABELS},
                "template": {"metadata": {"labels": _LABELS}, "spec": pod},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"selector": _LABELS, "ports": [{"name": "s3", "port": 7070, "targetPort": "s3"}]},
        },
    ]


def spark(cluster: Provider) -> None:
    """Kubeflow's Spark operator from its own chart, watching every namespace."""
    cluster.load([images.build("spark"), images.build("spark-operator")])
    kubectl = cluster.kubectl()
    registry, repository = images.tag("spark-operator").rsplit(":", 1)[0].split("/", 1)
    values = {
        "image.registry": registry,
        "image.repository": repository,
        "image.tag": images.tag("spark-operator").rsplit(":", 1)[1],
        "spark.jobNamespaces": "{}",  # all of them
        "webhook.enable": "true",  # without it the operator silently drops `env`, volumes and other fields of pods
        "controller.resources.requests.cpu": "50m",
        "webhook.resources.requests.cpu": "50m",
    }
    chosen = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    command: list[str | Path] = [
        programs.helm(),
        "upgrade",
        "--install",
        "spark-operator",
        spark_operator.home() / "chart",
    ]
    place = ["--namespace", SPARK_NAMESPACE, "--create-namespace", "--wait", "--timeout", "180s"]
    run("install the Spark operator", [*command, *place, *chosen], env=kubectl.environment, timeout=240)
    kubectl.apply(_network_policy_rights())
    say(f"the Spark operator {spark_operator.VERSION} is ready; Spark jobs use the image {images.tag('spark')}")


def slatekeeper(cluster: Provider, *more: str) -> None:
    """Our own operator from our own chart, watching every namespace. ``more`` are words for helm."""
    built = images.build("operator")
    cluster.load([images.build("slate"), built])
    kubectl = cluster.kubectl()
    kubectl.apply([restricted_namespace(SLATEKEEPER_NAMESPACE)])
    repository, tag = images.tag("operator").rsplit(":", 1)
    values = {
        "image.repository": repository,
        "image.tag": tag,
        "engine.image": images.tag("slate"),
        "spark.image": images.tag("spark"),
        "podAnnotations.built": built.stem,  # the tag is always the same: this replaces a pod of another build
    }
    chosen = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    command: list[str | Path] = [
        programs.helm(),
        "upgrade",
        "--install",
        "slatekeeper",
        PROJECT / "charts" / "slatekeeper",
    ]
    place = ["--namespace", SLATEKEEPER_NAMESPACE, "--wait", "--timeout", "180s"]
    run("install Slatekeeper", [*command, *place, *chosen, *more], env=kubectl.environment, timeout=240)
    say("Slatekeeper is ready: apply a SlateDatabase in any namespace")


def _network_policy_rights() -> list[Manifest]:
    """Spark 4.3 makes a NetworkPolicy for each application when it is submitted; this chart does not know that yet."""
    group, name = "rbac.authorization.k8s.io", "spark-operator-network-policies"
    rules = [{"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["*"]}]
    account = {"kind": "ServiceAccount", "name": "spark-operator-controller", "namespace": SPARK_NAMESPACE}
    return [
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [account],
        },
    ]


ADDONS: Mapping[str, Callable[[Provider], None]] = {"s3": s3, "slatekeeper": slatekeeper, "spark": spark}
