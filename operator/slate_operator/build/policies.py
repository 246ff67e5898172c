"""NetworkPolicies: who may reach the pods. Where they may go is not limited: a bucket may be anywhere."""

from __future__ import annotations

from typing import Any

from slate_operator import names
from slate_operator.api.database import SlateDatabase
from slate_operator.build.naming import Family
from slate_operator.kube.cluster import NETWORK_POLICIES, Body
from slate_operator.names import Port, Role

_HTTP = [{"port": Port.HTTP, "protocol": "TCP"}]


def network_policy(database: SlateDatabase, role: str, operator_namespace: str) -> Body:
    """Clients reach the Redis protocol. The admin API answers the operator; the metrics, whoever watches."""
    family = Family.of(database)
    rules: list[dict[str, Any]] = []
    if role in (Role.WRITER, Role.READER):
        rules.append({**_clients(database, role), "ports": _client_ports(database, role)})
    # Every path of this port but health and metrics wants a token, and who gathers metrics sits in a namespace of its own.
    from_outside = [_in_namespace(operator_namespace), {"podSelector": {}}]
    rules.append({"from": from_outside, "ports": _HTTP})
    if database.spec.monitoring.pod_monitor:
        rules.append({"from": [{"namespaceSelector": {}}], "ports": _HTTP})
    spec = {"podSelector": {"matchLabels": family.selector(role)}, "policyTypes": ["Ingress"], "ingress": rules}
    return family.object(NETWORK_POLICIES, family.workload(role), {"spec": spec}, role=role)


def _clients(database: SlateDatabase, role: str) -> dict[str, Any]:
    """Whoever is named; else the pods of the namespace, or everybody where the Service is for those outside."""
    if named := database.spec.network_policies.allow_from:
        return {"from": list(named)}
    if role == Role.WRITER and database.spec.writer.service.type != "ClusterIP":
        return {}
    return {"from": [{"podSelector": {}}]}


def _client_ports(database: SlateDatabase, role: str) -> list[dict[str, Any]]:
    """All ports of a user's own image: which it has is his business."""
    if role == Role.WRITER and database.spec.writer.mode == "Image":
        return [{"port": 1, "endPort": 65535, "protocol": "TCP"}]
    return [{"port": Port.RESP, "protocol": "TCP"}]


def _in_namespace(name: str) -> dict[str, Any]:
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        "podSelector": {"matchLabels": {names.LABEL_NAME: names.MANAGED_BY}},
    }
