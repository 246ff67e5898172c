"""Pods: what every one of them must have, and what a change of the spec changes."""

from __future__ import annotations

from typing import Any

import pytest

from slate_operator import names
from slate_operator.build import config
from slate_operator.build.overlay import laid_over
from slate_operator.build.place import Place
from slate_operator.build.pod import Circumstances, pod_template
from slate_operator.build.services import writer_service
from slate_operator.names import Role
from tests.operator.build.samples import FULL, IMAGE, SMALL, database_of

HERE = Circumstances(IMAGE, "1")


def templates(spec: dict[str, Any], circumstances: Circumstances = HERE) -> dict[str, Any]:
    return {role: pod_template(database_of(spec), role, circumstances) for role in Role.ALL}


def changed(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {role for role in Role.ALL if one[role] != other[role]}


@pytest.mark.parametrize("role", Role.ALL)
def test_every_pod_is_hardened(role: str) -> None:
    spec = pod_template(database_of(SMALL), role, HERE)["spec"]
    container = spec["containers"][0]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    lingers = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert spec["terminationGracePeriodSeconds"] >= lingers + config.DRAIN_SECONDS + 5


def test_no_pod_has_the_key_of_the_authority() -> None:
    assert "orders-ca" not in repr(templates(FULL))


def test_a_change_rolls_only_what_it_touches() -> None:
    before = templates(SMALL)
    assert changed(before, templates(SMALL)) == set()
    assert changed(before, templates(SMALL | {"gc": {"interval": "1m"}})) == {Role.GC}
    assert changed(before, templates(SMALL | {"readers": {"replicas": 2, "pollInterval": "5s"}})) == {Role.READER}
    assert changed(before, templates(SMALL | {"readers": {"replicas": 2}})) == set()
    assert changed(before, templates(SMALL | {"compactor": {"settings": {"poll_interval": "1s"}}})) == {Role.COMPACTOR}
    assert changed(before, templates(SMALL | {"writer": {"resources": {"requests": {"cpu": "1"}}}})) == {Role.WRITER}
    for nothing in (
        {"deletionPolicy": "Destroy"},
        {"deleteGrace": "1d"},
        {"deletionProtection": True},
        {"monitoring": {"podMonitor": True}},
    ):
        assert changed(before, templates(SMALL | nothing)) == set()
    assert changed(before, templates(SMALL | {"writer": {"settings": {"flush_interval": "50ms"}}})) == {Role.WRITER}
    # How SSTs are written concerns those who write and compact; the keys to the bucket concern all.
    assert changed(before, templates(SMALL | {"writer": {"settings": {"compression_codec": "Zstd"}}})) == {
        Role.WRITER,
        Role.COMPACTOR,
    }
    assert changed(before, templates(SMALL, Circumstances(IMAGE, "2"))) == set(Role.ALL)
    assert changed(before, templates(SMALL, Circumstances("other", "1"))) == set(Role.ALL)


def test_the_writer_leaves_compaction_and_collection_to_our_pods() -> None:
    told = config.config_of(database_of(SMALL), Role.WRITER)["settings"]
    assert told == {"compactor_options": None, "garbage_collector_options": None}
    own = SMALL | {
        "compactor": {"enabled": False},
        "writer": {"settings": {"compactor_options": {"poll_interval": "1s"}}},
    }
    told = config.config_of(database_of(own), Role.WRITER)["settings"]
    assert told == {"compactor_options": {"poll_interval": "1s"}, "garbage_collector_options": None}


def test_an_image_of_the_users_is_told_by_its_environment() -> None:
    ports = {"spec": {"containers": [{"name": "slate", "ports": [{"name": "grpc", "containerPort": 9000}]}]}}
    writer = {"mode": "Image", "image": "mine:1", "settings": {"flush_interval": "10ms"}, "podTemplate": ports}
    database = database_of(SMALL | {"writer": writer})
    spec = pod_template(database, Role.WRITER, Circumstances("mine:1"))["spec"]
    container = spec["containers"][0]
    told = {each["name"]: each["value"] for each in container["env"]}
    assert told == {
        "SLATE_STORE": "s3://shop",
        "SLATE_PATH": "orders",
        "SLATE_SETTINGS": '{"compactor_options": null, "flush_interval": "10ms", "garbage_collector_options": null}',
    }
    assert container["image"] == "mine:1"
    assert "readinessProbe" not in container
    assert "runAsUser" not in spec["securityContext"]
    service = writer_service(database)
    assert service is not None
    assert service["spec"]["ports"][0]["targetPort"] == 9000
    assert writer_service(database_of(SMALL | {"writer": {"mode": "Image", "image": "mine:1"}})) is None


def test_the_users_template_is_laid_over_ours_by_name() -> None:
    spec = pod_template(database_of(FULL), Role.WRITER, HERE)
    ours, sidecar = spec["spec"]["containers"]
    assert ours["args"][:3] == ["slate", "serve", "writer"]
    assert {"name": "RUST_LOG", "value": "info"} in ours["env"]
    assert "SLATE_STORE__OPTIONS__CAS" in [each["name"] for each in ours["env"]]
    assert sidecar["name"] == "sidecar"
    assert spec["metadata"]["labels"]["team"] == "shop"
    assert spec["metadata"]["annotations"]["note"] == "hello"
    assert names.ANNOTATION_CONFIG in spec["metadata"]["annotations"]


def test_a_template_cannot_take_pods_away_from_their_deployment() -> None:
    stolen = {"metadata": {"labels": {names.LABEL_ROLE: "gc", names.LABEL_DATABASE: "other"}}}
    template = pod_template(database_of(SMALL | {"writer": {"podTemplate": stolen}}), Role.WRITER, HERE)
    assert template["metadata"]["labels"][names.LABEL_ROLE] == Role.WRITER
    assert template["metadata"]["labels"][names.LABEL_DATABASE] == "orders"


def test_laying_over() -> None:
    assert laid_over({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}, "a": None}) == {"b": {"c": 2, "d": 3}}
    assert laid_over({"args": [1, 2]}, {"args": [3]}) == {"args": [3]}
    ours, more = {"secretRef": {"name": "bucket"}}, {"configMapRef": {"name": "more"}}
    assert laid_over({"envFrom": [ours]}, {"envFrom": [more]}) == {"envFrom": [ours, more]}, "the bucket's keys stay"
    assert laid_over({"envFrom": [ours]}, {"envFrom": [ours, more]}) == {"envFrom": [ours, more]}
    base = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    over = {"env": [{"name": "C", "value": "3"}, {"name": "A", "value": "0"}]}
    assert [each["value"] for each in laid_over(base, over)["env"]] == ["0", "2", "3"]


@pytest.mark.parametrize(
    ("url", "root", "path"),
    [
        ("s3://shop/orders", "s3://shop", "orders"),
        ("s3://shop/a/b", "s3://shop", "a/b"),
        ("file:///tmp/a", "file:///", "tmp/a"),
        ("abfss://c@account.dfs.core.windows.net/x", "abfss://c@account.dfs.core.windows.net", "x"),
    ],
)
def test_places(url: str, root: str, path: str) -> None:
    place = Place.of(url)
    assert (place.root, place.path) == (root, path)
    assert place.url == url
