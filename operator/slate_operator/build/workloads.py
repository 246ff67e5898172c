"""The Deployments of the roles, each with the ConfigMap that its pods read."""

from __future__ import annotations

from slate_operator.api.database import SlateDatabase
from slate_operator.build import config
from slate_operator.build.naming import Family
from slate_operator.build.pod import Circumstances, is_own_image, pod_template
from slate_operator.kube.cluster import CONFIG_MAPS, DEPLOYMENTS, Body


def config_map(database: SlateDatabase, role: str) -> Body:
    family = Family.of(database)
    data = {config.FILE: config.as_file(config.config_of(database, role))}
    return family.object(CONFIG_MAPS, family.workload(role), {"data": data}, role=role)


def deployment(database: SlateDatabase, role: str, circumstances: Circumstances, replicas: int) -> Body:
    """A new pod comes before the old one goes, also where there may be only one: it takes over by the next epoch, and the
    old one notices. So clients wait for as long as opening takes, and not for as long as a pod takes to start."""
    family = Family.of(database)
    spec = {
        "replicas": replicas,
        "revisionHistoryLimit": 3,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "selector": {"matchLabels": family.selector(role)},
        "template": pod_template(database, role, circumstances),
    }
    return family.object(DEPLOYMENTS, family.workload(role), {"spec": spec}, role=role)


def needs_config(database: SlateDatabase, role: str) -> bool:
    """A user's own image is told what it needs by its environment."""
    return not is_own_image(database, role)
