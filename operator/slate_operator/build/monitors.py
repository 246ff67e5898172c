"""The PodMonitor that tells Prometheus where the metrics are."""

from __future__ import annotations

from slate_operator import names
from slate_operator.api.database import SlateDatabase
from slate_operator.build.naming import Family
from slate_operator.kube.cluster import POD_MONITORS, Body


def pod_monitor(database: SlateDatabase) -> Body:
    family = Family.of(database)
    ca = {"secret": {"name": family.tls_secret, "key": "ca.crt"}}
    endpoint = {
        "port": "http",
        "path": "/metrics",
        "scheme": "https",
        # Pods are asked by their addresses, which are in no certificate; the name of the admin Service is.
        "tlsConfig": {"ca": ca, "serverName": f"{family.admin_service}.{family.namespace}.svc"},
    }
    spec = {
        "selector": {"matchLabels": {names.LABEL_DATABASE: family.name}},
        "podMetricsEndpoints": [endpoint],
        "podTargetLabels": [names.LABEL_DATABASE, names.LABEL_ROLE],
    }
    made = family.object(POD_MONITORS, family.pod_monitor, {"spec": spec})
    made["metadata"]["labels"] = {**made["metadata"]["labels"], **database.spec.monitoring.labels}
    return made
