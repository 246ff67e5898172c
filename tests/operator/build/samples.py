"""Two databases: one that says as little as possible, and one that says everything; and all that is built for them."""

from __future__ import annotations

import base64
from typing import Any

from slate_operator.api.database import SlateDatabase
from slate_operator.build.accounts import service_account
from slate_operator.build.monitors import pod_monitor
from slate_operator.build.pod import Circumstances
from slate_operator.build.policies import network_policy
from slate_operator.build.secrets import admin_secret, auth_secret, authority_secret, tls_secret
from slate_operator.build.services import admin_service, readers_service, writer_service
from slate_operator.build.workloads import config_map, deployment, needs_config
from slate_operator.names import API_VERSION, Role

NOW = 1_800_000_000.0
UID = "6f1c7f6e-27b0-4b0a-9a3b-6b3f6a6f8a01"
IMAGE = "registry.example/slate:1"

SMALL: dict[str, Any] = {"store": {"url": "s3://shop/orders"}}

FULL: dict[str, Any] = {
    "store": {
        "url": "s3://shop/team/orders",
        "secretRef": {"name": "bucket"},
        "serviceAccountAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/orders"},
        "options": {"region": "eu-central-1"},
        "cas": {"secretRef": {"name": "cas", "key": "url"}},
    },
    "image": "registry.example/slate:2",
    "writer": {
        "settings": {"flush_interval": "50ms", "compression_codec": "Zstd"},
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        "service": {"type": "LoadBalancer", "annotations": {"lb.example/internal": "true"}},
        "podTemplate": {
            "metadata": {"labels": {"team": "shop"}, "annotations": {"note": "hello"}},
            "spec": {
                "nodeSelector": {"disk": "fast"},
                "tolerations": [{"key": "db", "operator": "Exists"}],
                "containers": [
                    {"name": "slate", "env": [{"name": "RUST_LOG", "value": "info"}]},
                    {
                        "name": "sidecar",
                        "image": "registry.example/sidecar:1",
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "runAsUser": 1000,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    },
                ],
            },
        },
    },
    "readers": {"replicas": 3, "pollInterval": "500ms"},
    "compactor": {"settings": {"max_concurrent_compactions": 2}, "resources": {"requests": {"cpu": "1"}}},
    "gc": {"interval": "1m", "minAge": "10m"},
    "deletionPolicy": "SoftDestroy",
    "deleteGrace": "30d",
    "monitoring": {"podMonitor": True, "labels": {"prometheus": "main"}},
    "networkPolicies": {"allowFrom": [{"namespaceSelector": {"matchLabels": {"shop": "yes"}}}]},
}


def body_of(spec: dict[str, Any], name: str = "orders", namespace: str = "shop", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "SlateDatabase",
        "metadata": {"name": name, "namespace": namespace, "uid": UID, "generation": 1, **more},
        "spec": spec,
    }


def database_of(spec: dict[str, Any], **more: Any) -> SlateDatabase:
    return SlateDatabase.of(body_of(spec, **more))


def random_bytes(n: int) -> bytes:
    return bytes(range(n))


def workloads_of(database: SlateDatabase) -> list[dict[str, Any]]:
    """All that is built for a database but its Secrets."""
    circumstances = Circumstances(database.spec.image or IMAGE, "77" if database.spec.store.secret_ref else None)
    replicas = {Role.READER: database.spec.readers.replicas}
    made: list[dict[str, Any] | None] = [service_account(database)]
    for role in Role.ALL:
        if needs_config(database, role):
            made.append(config_map(database, role))
        made.append(deployment(database, role, circumstances, replicas.get(role, 1)))
        made.append(network_policy(database, role, "operators"))
    made += [admin_service(database), writer_service(database), readers_service(database)]
    if database.spec.monitoring.pod_monitor:
        made.append(pod_monitor(database))
    return [each for each in made if each is not None]


def secrets_of(database: SlateDatabase, now: float = NOW) -> list[dict[str, Any]]:
    authority, authorities = authority_secret(database, None, now)
    auth = auth_secret(database, None, now, random_bytes)
    made = [
        authority,
        tls_secret(database, None, authorities, now, "cluster.local"),
        admin_secret(database, None, authorities, now, random_bytes),
        *([auth] if auth is not None else []),
    ]
    return [each.body for each in made]


def plain(secret: dict[str, Any]) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in secret["data"].items()}
