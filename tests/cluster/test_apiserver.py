"""The API server alone is the real one: what it refuses here it refuses everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster import pods
from tests.cluster.tool.addons import restricted_namespace
from tests.cluster.tool.apiserver import ApiServer
from tests.cluster.tool.report import ClusterError

GROUP = "tests.slatekeeper.io"


@pytest.fixture(scope="module")
def books(apiserver: ApiServer) -> ApiServer:
    """A kind of objects with a rule in CEL: a book never has fewer pages than before."""
    rule = {"rule": "self >= oldSelf", "message": "pages are never torn out"}
    spec = {"type": "object", "properties": {"pages": {"type": "integer", "x-kubernetes-validations": [rule]}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"books.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Book", "plural": "books", "singular": "book"},
            "versions": [version],
        },
    }
    apiserver.kubectl.apply([crd])
    apiserver.kubectl.wait("condition=Established", f"crd/books.{GROUP}", timeout=20)
    return apiserver


def book(pages: int) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Book", "metadata": {"name": "one"}, "spec": {"pages": pages}}


def test_a_rule_in_cel_is_enforced(books: ApiServer) -> None:
    books.kubectl.apply([book(100)])
    books.kubectl.apply([book(120)])
    with pytest.raises(ClusterError, match="pages are never torn out"):
        books.kubectl.apply([book(80)])
    assert books.kubectl.get("book/one")["spec"]["pages"] == 120
    assert books.kubectl.get("book/one")["metadata"]["generation"] == 2


def test_the_restricted_level_is_enforced(apiserver: ApiServer) -> None:
    apiserver.kubectl.apply([restricted_namespace("strict")])
    # Accounts are made by a controller, and none runs here.
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    apiserver.kubectl.apply([account, pods.pod("modest", ["true"])], namespace="strict")
    greedy = pods.pod("greedy", ["true"])
    greedy["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    with pytest.raises(ClusterError, match="violates PodSecurity"):
        apiserver.kubectl.apply([greedy], namespace="strict")


def test_rights_are_asked_for(apiserver: ApiServer) -> None:
    assert apiserver.kubectl.answers("auth", "can-i", "delete", "nodes")
    assert not apiserver.kubectl.answers("auth", "can-i", "delete", "nodes", "--as=somebody")


def test_another_one_beside_it_is_another_world(apiserver: ApiServer, tmp_path: Path) -> None:
    apiserver.kubectl("create", "namespace", "here")
    with ApiServer(tmp_path) as other:
        assert other.url != apiserver.url
        assert not other.kubectl.answers("get", "namespace/here")
        url = other.url
    assert other.kubectl.answers("get", "--raw", "/readyz") is False, f"something still answers at {url}"
    assert apiserver.kubectl.answers("get", "namespace/here")


def test_a_server_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ApiServer(tmp_path)
    monkeypatch.setattr("tests.cluster.tool.apiserver._SERVICES", "not-a-network")
    with pytest.raises(RuntimeError, match=r"(?s)kube-apiserver ended with code.*not-a-network"):
        broken.start()
