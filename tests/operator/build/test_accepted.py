"""The real API server takes everything that is built, under the strictest Pod Security level."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.cluster.tool.addons import restricted_namespace
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.build.samples import FULL, SMALL, database_of, secrets_of, workloads_of

IMAGE_MODE = SMALL | {"writer": {"mode": "Image", "image": "registry.example/mine:1"}}


@pytest.fixture(scope="module")
def shop(apiserver: ApiServer) -> ApiServer:
    apiserver.kubectl.apply([restricted_namespace("shop")])
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "orders"}}
    apiserver.kubectl.apply([account], namespace="shop")
    return apiserver


@pytest.mark.parametrize("spec", [SMALL, FULL, IMAGE_MODE], ids=["small", "full", "image"])
def test_the_api_server_takes_it(spec: dict[str, Any], shop: ApiServer) -> None:
    database = database_of(spec)
    # The PodMonitor's kind is not part of Kubernetes.
    objects = [each for each in (*workloads_of(database), *secrets_of(database)) if each["kind"] != "PodMonitor"]
    # Pod Security only warns about a Deployment; it is the pods that it refuses.
    pods = [_pod(each) for each in objects if each["kind"] == "Deployment"]
    answered = shop.kubectl(
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        "-n",
        "shop",
        "-f",
        "-",
        stdin=yaml.safe_dump_all([*objects, *pods]),
    )
    assert len(answered.splitlines()) == len(objects) + len(pods), answered


def _pod(deployment: dict[str, Any]) -> dict[str, Any]:
    template = deployment["spec"]["template"]
    name = deployment["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": name},
        "spec": template["spec"],
    }
