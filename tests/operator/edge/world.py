"""The operator's own client against the real API server, with every request counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from slate_operator.clock import SystemClock
from slate_operator.informer import SELECTED, WATCHED, Informer
from slate_operator.kube.cache import Cache
from slate_operator.kube.client import KubeCluster
from slate_operator.kube.events import Recorder
from slate_operator.kube.freshness import Freshness
from slate_operator.kube.requests import Requests, connect
from slate_operator.names import API_VERSION, LABEL_DATABASE
from tests.cluster.tool.apiserver import ApiServer

Object = dict[str, Any]

OWNER = {
    "apiVersion": API_VERSION,
    "kind": "SlateDatabase",
    "name": "orders",
    "uid": "6f1c7f6e-27b0-4b0a-9a3b-6b3f6a6f8a01",
    "controller": True,
}


@dataclass
class World:
    cluster: KubeCluster
    cache: Cache
    informer: Informer
    requests: Requests
    freshness: Freshness
    calls: Counter[tuple[str, str]]

    def took(self) -> dict[tuple[str, str], int]:
        """The requests since it was last asked."""
        taken = dict(self.calls)
        self.calls.clear()
        return taken


@asynccontextmanager
async def world(server: ApiServer, namespaces: tuple[str, ...] = ()) -> AsyncIterator[World]:
    calls: Counter[tuple[str, str]] = Counter()

    def count(verb: str, resource: str, status: int) -> None:
        calls[verb, resource] += 1

    clock, cache = SystemClock(), Cache(WATCHED)
    requests = Requests(await connect(str(server.kubeconfig)), watcher=count)
    freshness = Freshness(clock)
    recorder = Recorder(requests, clock, "test")
    cluster = KubeCluster(requests, cache, freshness, recorder, selected=SELECTED)
    informer = Informer(requests, cache, freshness, clock, namespaces=namespaces)
    try:
        yield World(cluster, cache, informer, requests, freshness, calls)
    finally:
        await requests.close()


def config_map(namespace: str, name: str = "settings", **data: str) -> Object:
    labels = {LABEL_DATABASE: "orders"}
    metadata = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [OWNER]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def checkpoint(namespace: str, name: str = "one", database: str = "orders", **spec: Any) -> Object:
    metadata = {"name": name, "namespace": namespace}
    spec = {"databaseRef": {"name": database}, **spec}
    return {"apiVersion": API_VERSION, "kind": "Checkpoint", "metadata": metadata, "spec": spec}
