"""The Services: where the writer, the readers and the admin API are reached."""

from __future__ import annotations

from typing import Any

from slate_operator.api.database import SlateDatabase
from slate_operator.build.naming import CONTAINER, Family
from slate_operator.kube.cluster import SERVICES, Body
from slate_operator.names import Port, Role

_RESP: dict[str, Any] = {"name": "resp", "port": Port.RESP, "targetPort": "resp", "protocol": "TCP"}


def writer_service(database: SlateDatabase) -> Body | None:
    """Of the Redis protocol, or of the ports that the user's own image is said to have; none if it has none."""
    family, shape = Family.of(database), database.spec.writer.service
    ports = [_RESP] if database.spec.writer.mode == "Server" else _declared_ports(database)
    if not ports:
        return None
    spec = {"type": shape.type, "selector": family.selector(Role.WRITER), "ports": ports}
    return family.object(
        SERVICES, family.writer_service, {"spec": spec}, role=Role.WRITER, annotations=shape.annotations
    )


def readers_service(database: SlateDatabase) -> Body:
    family = Family.of(database)
    spec = {"type": "ClusterIP", "selector": family.selector(Role.READER), "ports": [_RESP]}
    return family.object(SERVICES, family.readers_service, {"spec": spec}, role=Role.READER)


def admin_service(database: SlateDatabase) -> Body:
    """Also a pod that is not ready answers, and says why it is not; and one that is being deleted can still be asked to
    mark the database."""
    family = Family.of(database)
    spec = {
        "type": "ClusterIP",
        "publishNotReadyAddresses": True,
        "selector": family.selector(Role.GC),
        "ports": [{"name": "http", "port": Port.HTTP, "targetPort": "http", "protocol": "TCP"}],
    }
    return family.object(SERVICES, family.admin_service, {"spec": spec}, role=Role.GC)


def _declared_ports(database: SlateDatabase) -> list[dict[str, Any]]:
    containers = database.spec.writer.pod_template.get("spec", {}).get("containers", [])
    declared: list[dict[str, Any]] = next(
        (each.get("ports", []) for each in containers if each.get("name") == CONTAINER), []
    )
    return [
        {
            "name": port.get("name", f"port-{port['containerPort']}"),
            "port": port["containerPort"],
            "targetPort": port["containerPort"],
            "protocol": port.get("protocol", "TCP"),
        }
        for port in declared
    ]
