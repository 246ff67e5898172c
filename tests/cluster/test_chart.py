"""The chart on a whole cluster: what it lets in, what an upgrade and an end of the operator leave alone, and that the
operator works with the rights of one namespace."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.databases import SECRET, Database, bucket_secret, state_in
from tests.cluster.fixtures import Bucket, Namespace
from tests.cluster.tool import addons, images
from tests.cluster.tool.kubectl import Kubectl, until
from tests.cluster.tool.names import PROJECT
from tests.cluster.tool.provider import Provider
from tests.cluster.tool.report import ClusterError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

CHART = PROJECT / "charts" / "slatekeeper"
Helm = Callable[..., str]


def rendered(helm: Helm, *words: str) -> list[dict[str, Any]]:
    text = helm("template", "slatekeeper", CHART, "--namespace", "ops", "--kube-version", "1.34.0", *words)
    return [each for each in yaml.safe_load_all(text) if each]


def test_it_is_a_good_chart_and_says_what_is_wrong_with_values(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART)
    for wrong, words in [
        ("bogus=1", "bogus"),
        ("replicas=many", "replicas"),
        ("operator.logFormat=xml", "logFormat"),
        ("reaper.enabled=true", "reaper.store.url is needed"),
    ]:
        with pytest.raises(ClusterError, match=words):
            rendered(helm, "--set", wrong)


def test_in_chosen_namespaces_it_asks_for_nothing_outside_of_them(helm: Helm) -> None:
    everywhere = {each["kind"] for each in rendered(helm)}
    assert {"ClusterRole", "ClusterRoleBinding"} <= everywhere
    narrow = rendered(helm, "--set", "watchNamespaces={one,two}")
    assert not {each["kind"] for each in narrow} & {"ClusterRole", "ClusterRoleBinding"}
    roles = {each["metadata"]["namespace"]: each["rules"] for each in narrow if each["kind"] == "Role"}
    assert set(roles) == {"one", "two", "ops"}
    assert [rule["resources"] for rule in roles["ops"]] == [["leases"], ["leases"]]


def test_the_reaper_is_set_up_as_the_engine_reads_it(helm: Helm, tmp_path: Path) -> None:
    from slate_engine.server.config import load

    values = "reaper.enabled=true,reaper.store.url=s3://shop,reaper.prefix=databases,reaper.secretName=keys"
    made = {(each["kind"], each["metadata"]["name"]): each for each in rendered(helm, "--set", values)}
    file = tmp_path / "config.yaml"
    file.write_text(made["ConfigMap", "slatekeeper-reaper"]["data"]["config.yaml"])
    config = load(file, {}, {})
    assert (config.store.url, config.gc.prefix, config.gc.delete_grace) == ("s3://shop", "databases", 30 * 86400)
    [container] = made["Deployment", "slatekeeper-reaper"]["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]


def test_databases_outlive_an_upgrade_and_the_end_of_the_operator(
    operator: None, cluster: Provider, helm: Helm, namespace: Namespace, s3_bucket: Bucket
) -> None:
    orders = Database.made(namespace, s3_bucket, "orders").wait_ready()
    with orders.client() as client:
        client.set("kept", "yes")
    before = containers(namespace)
    kubectl = cluster.kubectl()

    addons.slatekeeper(cluster, "--set", "podAnnotations.test=upgraded", "--set", "engine.image=other/engine:2")
    orders.wait_ready()
    assert containers(namespace) == before, "an upgrade of the operator restarted a database"

    helm("uninstall", "slatekeeper", "--namespace", addons.SLATEKEEPER_NAMESPACE, "--wait")
    try:
        assert kubectl.answers("get", "crd/slatedatabases.slatekeeper.io")
        assert containers(namespace) == before
        with orders.client() as client:
            assert client.get("kept") == b"yes"
            client.set("meanwhile", "too")
    finally:
        addons.slatekeeper(cluster)
    orders.wait_ready()
    assert containers(namespace) == before, "an operator that came back restarted a database"


def test_with_the_rights_of_one_namespace_it_serves_that_one_and_no_other(
    operator: None, cluster: Provider, helm: Helm, namespace: Namespace, s3_bucket: Bucket
) -> None:
    kubectl = cluster.kubectl()
    other = f"{namespace.name}-other"
    with without_the_wide_one(cluster, helm), another_namespace(kubectl, other):
        repository, tag = images.tag("operator").rsplit(":", 1)
        values = {
            "image.repository": repository,
            "image.tag": tag,
            "engine.image": images.tag("slate"),
            "watchNamespaces[0]": namespace.name,
            "crds.install": "false",
        }
        chosen = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        place = ("--namespace", namespace.name, "--wait", "--timeout", "120s")
        helm("install", "narrow", CHART, *place, *chosen)
        try:
            Database.made(Namespace(other, kubectl), s3_bucket, "elsewhere")
            Database.made(namespace, s3_bucket, "here").wait_ready()
            assert not Database(Namespace(other, kubectl), "elsewhere").status.get("conditions")
            assert refusals(kubectl, namespace.name) == []
            account = f"system:serviceaccount:{namespace.name}:narrow-slatekeeper"
            for question in (
                ("get", "secrets", "-n", other),
                ("list", "secrets", "-n", namespace.name),
                ("list", "namespaces"),
                ("create", "pods", "-n", namespace.name),
            ):
                assert not kubectl.answers("auth", "can-i", *question, f"--as={account}"), question
        finally:
            helm("uninstall", "narrow", "--namespace", namespace.name, "--wait")


def test_the_reaper_ends_what_a_deleted_namespace_has_left(
    operator: None, cluster: Provider, namespace: Namespace, s3_bucket: Bucket, s3_from_here: dict[str, str]
) -> None:
    for name, policy in (("orders", "SoftDestroy"), ("kept", "Retain")):
        store = {"url": f"{s3_bucket.url}/databases/{name}", "secretRef": {"name": SECRET}}
        Database.made(namespace, s3_bucket, name, store=store, deletionPolicy=policy, compactor={"enabled": False})
    for name in ("orders", "kept"):
        Database(namespace, name).wait_ready()
    kubectl = cluster.kubectl()
    kubectl("delete", "namespace", namespace.name, "--wait=false")
    assert until(lambda: not kubectl.answers("get", "namespace", namespace.name), timeout=150, every=1.0)
    assert state_in(s3_bucket, "databases/orders", s3_from_here) == "destroyed"

    keys = "reaper-keys"
    kubectl.apply([bucket_secret(s3_bucket, keys)], namespace=addons.SLATEKEEPER_NAMESPACE)
    values = {
        "reaper.enabled": "true",
        "reaper.store.url": s3_bucket.url,
        "reaper.prefix": "databases",
        "reaper.secretName": keys,
        "reaper.deleteGraceSeconds": "1",
        "reaper.intervalSeconds": "5",
    }
    try:
        addons.slatekeeper(cluster, *(word for name, value in values.items() for word in ("--set", f"{name}={value}")))
        assert until(lambda: state_in(s3_bucket, "databases/orders", s3_from_here) is None, timeout=180, every=2.0), (
            kubectl("logs", "-n", addons.SLATEKEEPER_NAMESPACE, "deployment/slatekeeper-reaper")
        )
        assert state_in(s3_bucket, "databases/kept", s3_from_here) == "alive", "what was to stay stays"
    finally:
        addons.slatekeeper(cluster)
        kubectl("delete", "secret", keys, "-n", addons.SLATEKEEPER_NAMESPACE, "--ignore-not-found")


def containers(namespace: Namespace) -> dict[str, int]:
    """The pods, with how often each was started."""
    found = json.loads(namespace("get", "pods", "-o", "json"))["items"]
    return {
        pod["metadata"]["uid"]: sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))
        for pod in found
    }


def refusals(kubectl: Kubectl, namespace: str) -> list[str]:
    """What the operator asked the API server for without having the right to, by its own count."""
    selector = "app.kubernetes.io/component=operator"
    [pod] = kubectl.get("pods", "-n", namespace, "-l", selector)["items"]
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}:8081/proxy/metrics"
    lines = kubectl("get", "--raw", path).splitlines()
    return [line for line in lines if line.startswith("slatekeeper_api_requests_total") and 'code="403"' in line]


@contextmanager
def without_the_wide_one(cluster: Provider, helm: Helm) -> Iterator[None]:
    helm("uninstall", "slatekeeper", "--namespace", addons.SLATEKEEPER_NAMESPACE, "--wait")
    try:
        yield
    finally:
        addons.slatekeeper(cluster)


@contextmanager
def another_namespace(kubectl: Kubectl, name: str) -> Iterator[None]:
    kubectl.apply([addons.restricted_namespace(name)])
    try:
        yield
    finally:
        # Nobody looks after the object in it, so that nobody would take its finalizer off: it never got one.
        kubectl("delete", "namespace", name, "--wait=false")
