"""What every local cluster holds from the start, as kind's does: DNS, the default StorageClass, and the rights of the
node's own controllers."""

from __future__ import annotations

import yaml

from tests.cluster.tool.kubectl import Manifest
from tests.cluster.tool.names import Addresses
from tests.cluster.tool.plan import KUBE, PAUSE_IMAGE

STORAGE_CLASS = "standard"

_DNS_LABELS = {"k8s-app": "kube-dns"}
_COREFILE = """.:53 {
    errors
    health :8080
    ready :8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
    }
    cache 5
}
"""


def manifests(addresses: Addresses) -> str:
    objects = [
        *_dns(str(addresses.dns)),
        *_storage(),
        *_rights("policies", _READ_POLICIES),
        *_rights("volumes", _PROVIDE),
    ]
    return str(yaml.safe_dump_all(objects))


def _dns(address: str) -> list[Manifest]:
    """CoreDNS as a pod, so that policies can select it as they do everywhere. It needs no image of its own: the binary
    comes from the node."""
    meta = {"name": "coredns", "namespace": "kube-system", "labels": _DNS_LABELS}
    container = {
        "name": "coredns",
        "image": PAUSE_IMAGE,
        "command": ["/kube", "coredns", "-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "170Mi"}},
        "securityContext": {
            "runAsUser": 0,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        },
        "volumeMounts": [
            {"name": "program", "mountPath": "/kube", "readOnly": True},
            {"name": "config", "mountPath": "/etc/coredns", "readOnly": True},
        ],
    }
    pod = {
        "serviceAccountName": "coredns",
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [
            {"name": "program", "hostPath": {"path": str(KUBE), "type": "File"}},
            {"name": "config", "configMap": {"name": "coredns"}},
        ],
    }
    read = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    account = {"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"Corefile": _COREFILE}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": _DNS_LABELS},
                "template": {"metadata": {"labels": _DNS_LABELS}, "spec": pod},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {**meta, "name": "kube-dns"},
            "spec": {"clusterIP": address, "selector": _DNS_LABELS, "ports": ports},
        },
        *_role("system:coredns", read, account),
    ]


def _storage() -> list[Manifest]:
    marks = {"storageclass.kubernetes.io/is-default-class": "true"}
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": STORAGE_CLASS, "annotations": marks},
            "provisioner": "slatekeeper.io/folder",
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    ]


_READ_POLICIES = [
    {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["list", "watch"]},
]
_PROVIDE = [
    {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["list", "watch", "create", "delete"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["list", "watch"]},
]


def _rights(component: str, rules: list[Manifest]) -> list[Manifest]:
    """For a controller that runs as a process of the node under a certificate of its own."""
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"slatekeeper:{component}"}
    return _role(f"slatekeeper:{component}", rules, user)


def _role(name: str, rules: list[Manifest], subject: Manifest) -> list[Manifest]:
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
    ]
