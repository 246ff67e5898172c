"""The pods: what a process of the database needs, under the strictest Pod Security level."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from slate_operator import names
from slate_operator.api.database import Pods, SlateDatabase
from slate_operator.api.store import Store
from slate_operator.build import config
from slate_operator.build.naming import CONTAINER, Family
from slate_operator.build.overlay import laid_over
from slate_operator.build.place import Place
from slate_operator.names import Port, Role

NOBODY = 65532
"""The user of our image."""
GC_LINGERS = 15
"""Seconds that the collector goes on answering when its pod is deleted: when a whole namespace goes, it is the one that can
still mark the database as destroyed."""
OTHERS_LINGER = 2
"""Seconds until everybody has heard that the pod takes no more connections."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What pods are made of besides the spec."""

    image: str
    secret_version: str | None = None
    """Of the Secrets that pods take in at their start, so that a new version needs new pods."""


def pods_of(database: SlateDatabase, role: str) -> Pods:
    spec = database.spec
    return {Role.WRITER: spec.writer, Role.READER: spec.readers, Role.COMPACTOR: spec.compactor, Role.GC: spec.gc}[role]


def is_own_image(database: SlateDatabase, role: str) -> bool:
    """Whether the container is the user's."""
    return role == Role.WRITER and database.spec.writer.mode == "Image"


def pod_template(database: SlateDatabase, role: str, circumstances: Circumstances) -> dict[str, Any]:
    """The template of the role's Deployment, with the user's laid over it. The labels that select the pods stay."""
    family = Family.of(database)
    made = {
        "metadata": {
            "labels": family.role_labels(role),
            "annotations": _annotations(database, role, circumstances),
        },
        "spec": _spec(database, role, circumstances),
    }
    template: dict[str, Any] = laid_over(made, pods_of(database, role).pod_template)
    template["metadata"]["labels"] = {**template["metadata"].get("labels", {}), **family.role_labels(role)}
    return template


def _annotations(database: SlateDatabase, role: str, circumstances: Circumstances) -> dict[str, str]:
    """What is not in the template but makes the pods old when it changes. Nothing of the operator's version is here."""
    told = _environment(database) if is_own_image(database, role) else config.config_of(database, role)
    versions = {names.ANNOTATION_CONFIG: config.digest(told)}
    if circumstances.secret_version:
        versions[names.ANNOTATION_SECRET] = circumstances.secret_version
    return versions


def _spec(database: SlateDatabase, role: str, circumstances: Circumstances) -> dict[str, Any]:
    family = Family.of(database)
    own_image = is_own_image(database, role)
    security: dict[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if not own_image:
        security |= {"runAsUser": NOBODY, "runAsGroup": NOBODY, "fsGroup": NOBODY}
    return {
        "serviceAccountName": database.spec.store.service_account_name or family.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": security,
        "terminationGracePeriodSeconds": config.DRAIN_SECONDS + _lingers(role) + 10,
        "containers": [_container(database, role, circumstances)],
        "volumes": [{"name": "tmp", "emptyDir": {}}, *([] if own_image else _volumes(database, role))],
    }


def _lingers(role: str) -> int:
    return GC_LINGERS if role == Role.GC else OTHERS_LINGER


def _container(database: SlateDatabase, role: str, circumstances: Circumstances) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": CONTAINER,
        "image": circumstances.image,
        "env": store_environment(database.spec.store),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    if database.spec.store.secret_ref is not None:
        made["envFrom"] = [{"secretRef": {"name": database.spec.store.secret_ref.name}}]
    if resources := pods_of(database, role).resources:
        made["resources"] = dict(resources)
    if is_own_image(database, role):
        made["env"] = [
            *made["env"],
            *({"name": name, "value": value} for name, value in _environment(database).items()),
        ]
        return made
    return made | {
        "args": ["slate", "serve", role, "--config", f"{config.FOLDER}/{config.FILE}"],
        "ports": _ports(role),
        # HTTP comes up first, whatever the store does; then liveness is a matter of pulses, and readiness of the work.
        "startupProbe": _probe("/livez", period=1, failures=180),
        "livenessProbe": _probe("/livez", period=10, failures=3),
        "readinessProbe": _probe("/readyz", period=1 if role == Role.WRITER else 5, failures=2),
        "lifecycle": {"preStop": {"sleep": {"seconds": _lingers(role)}}},
        "volumeMounts": [*made["volumeMounts"], *_mounts(role)],
    }


def _environment(database: SlateDatabase) -> dict[str, str]:
    """What a user's own image is told."""
    place, options = Place.of(database.spec.store.url), database.spec.store.options
    told = {
        "SLATE_STORE": place.root,
        "SLATE_PATH": place.path,
        "SLATE_SETTINGS": json.dumps(config.writer_settings(database), sort_keys=True),
    }
    return told | ({"SLATE_STORE__OPTIONS": json.dumps(options, sort_keys=True)} if options else {})


def store_environment(store: Store) -> list[dict[str, Any]]:
    """The url of the transactional store holds a password, so it goes from its Secret straight to the pod."""
    if store.cas is None:
        return []
    secret = store.cas.secret_ref
    source = {"secretKeyRef": {"name": secret.name, "key": secret.key}}
    return [{"name": "SLATE_STORE__OPTIONS__CAS", "valueFrom": source}]


def _ports(role: str) -> list[dict[str, Any]]:
    ports = [{"name": "http", "containerPort": Port.HTTP}]
    if role in (Role.WRITER, Role.READER):
        ports.insert(0, {"name": "resp", "containerPort": Port.RESP})
    return ports


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http", "scheme": "HTTPS"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _volumes(database: SlateDatabase, role: str) -> list[dict[str, Any]]:
    family, auth = Family.of(database), database.spec.writer.auth.secret_ref
    volumes = [
        {"name": "config", "configMap": {"name": family.workload(role)}},
        {"name": "tls", "secret": {"secretName": family.tls_secret, "defaultMode": 0o440}},
        _secret_file("admin", family.admin_secret, "tokens", "tokens"),
    ]
    if role in (Role.WRITER, Role.READER):
        name, key = (family.auth_secret, "passwords") if auth is None else (auth.name, auth.key)
        volumes.append(_secret_file("auth", name, key, "passwords"))
    return volumes


def _secret_file(volume: str, secret: str, key: str, path: str) -> dict[str, Any]:
    source = {"secretName": secret, "defaultMode": 0o440, "items": [{"key": key, "path": path}]}
    return {"name": volume, "secret": source}


def _mounts(role: str) -> list[dict[str, Any]]:
    mounts = {"config": config.FOLDER, "tls": config.TLS, "admin": config.TOKENS.rpartition("/")[0]}
    if role in (Role.WRITER, Role.READER):
        mounts["auth"] = config.PASSWORDS.rpartition("/")[0]
    return [{"name": name, "mountPath": path, "readOnly": True} for name, path in mounts.items()]
