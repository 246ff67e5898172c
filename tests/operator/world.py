"""The operator's surroundings without a kubelet: the real API server, and the real admin API of databases in memory.

No pod starts, so each database's garbage collector runs in this process, behind a real socket on loopback. What the
reconcilers send and get back is what they would in a cluster; only the way there, by Service and TLS, is another.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from prometheus_client import CollectorRegistry

from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.object_store import ObjectStore as ApiStore
from slate_engine.runtime import SystemRuntime
from slate_engine.server.admin.operations import PREFIX
from slate_engine.server.config import Config, GcConfig, StoreConfig
from slate_engine.server.gate import Gate
from slate_engine.server.health import Health
from slate_engine.server.http.application import application
from slate_engine.server.roles.gc import GcRole
from slate_engine.server.roles.role import Surroundings
from slate_engine.store.open import open_store
from slate_operator.admin.client import Address, HttpAdmin, understood
from slate_operator.admin.database import NotReached
from slate_operator.api.database import SlateDatabase
from slate_operator.build.naming import Family
from slate_operator.build.place import Place as StorePlace
from slate_operator.clock import SystemClock
from slate_operator.controller import Controller, Reconciler
from slate_operator.kube.cache import Cache
from slate_operator.kube.client import KubeCluster
from slate_operator.kube.cluster import BULK_READS, CHECKPOINTS, CLONES, DATABASES, SCHEDULES, Body, Key, Kind
from slate_operator.kube.events import EVENTS, Recorder
from slate_operator.kube.freshness import Freshness
from slate_operator.kube.requests import MERGE, Missing, Place, Requests, connect
from slate_operator.metrics import Metrics
from slate_operator.work import Item, WorkQueue
from tests.cluster.tool.apiserver import ApiServer

KINDS = (DATABASES, CHECKPOINTS, CLONES, SCHEDULES, BULK_READS)


class SetClock(SystemClock):
    """The machine's clock, put forward."""

    ahead = 0.0

    def now(self) -> float:
        return time.time() + self.ahead

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead


class LoopbackDatabases:
    """The admin APIs of databases, each served in this process when it is first asked for."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.down: set[str] = set()
        """Databases whose pod does not answer."""
        self._session = aiohttp.ClientSession()
        self._served: dict[str, tuple[web.AppRunner, GcRole, int]] = {}

    def admin(self, database: SlateDatabase) -> HttpAdmin:
        place = StorePlace.of(database.spec.store.url)
        return HttpAdmin(Family.of(database), Address(place.path, place.path), self)  # type: ignore[arg-type]

    async def ask(
        self, family: Family, address: Address, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Any:
        if family.name in self.down:
            raise NotReached(f"{address} does not answer: nobody is there")
        port = await self._port(address.host)
        async with self._session.request(method, f"http://127.0.0.1:{port}{path}", json=body) as answer:
            return understood(answer.status, answer.content_type, await answer.read(), f"{method} {path}")

    async def writer_address(self, family: Family) -> Address:
        raise NotReached(f"no writer of {family.namespace}/{family.name} is ready; see the condition WriterReady")

    async def _port(self, path: str) -> int:
        if path not in self._served:
            runtime, registry = SystemRuntime(), CollectorRegistry()
            config = Config(
                store=StoreConfig(url=self.store), path=path, gc=GcConfig(interval=3600.0, delete_grace=None)
            )
            surroundings = Surroundings(config, runtime, registry, Health(runtime))
            role = GcRole(surroundings)
            made = application(config.http, Gate(None, runtime), surroundings.health, registry, role.status, runtime)
            role.add_routes(made)
            runner = web.AppRunner(made)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            await role.start()
            self._served[path] = (runner, role, runner.addresses[0][1])
        return self._served[path][2]

    async def write(self, path: str, **values: str) -> None:
        """As a writer would; the database is made if there is none."""
        db = await DbBuilder(path, ApiStore.of(open_store(self.store), SystemRuntime())).build()
        for key, value in values.items():
            await db.put(key.encode(), value.encode())
        await db.flush()
        await db.shutdown()

    async def forget(self, path: str, operation: str) -> None:
        """The process that serves this database is a new one, and the record of an operation is gone."""
        runner, role, _ = self._served.pop(path)
        await role.drain(1)
        await runner.cleanup()
        await open_store(self.store).delete([f"{path}/{PREFIX}{operation}.json"])

    async def close(self) -> None:
        for runner, role, _ in self._served.values():
            await role.drain(1)
            await runner.cleanup()
        await self._session.close()


@dataclass
class World:
    """One namespace of the API server, and its databases."""

    namespace: str
    requests: Requests
    cluster: KubeCluster
    cache: Cache
    databases: LoopbackDatabases
    clock: SetClock
    controllers: dict[Kind, Controller] = field(default_factory=dict)

    def answer_for(self, kind: Kind, reconciler: Reconciler) -> None:
        queue = WorkQueue(self.clock, 1)
        self.controllers[kind] = Controller(self.cluster, self.cache, queue, {kind: reconciler}, self.clock, Metrics())

    async def make(self, kind: Kind, name: str, spec: Body, **metadata: Any) -> Body:
        whole = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "spec": spec,
        }
        return await self.requests.create(Place(kind, self.namespace), whole)

    async def edit(self, kind: Kind, name: str, change: Body) -> Body:
        return await self.requests.patch(Place(kind, self.namespace, name), MERGE, change)

    async def set_status(self, kind: Kind, name: str, status: Body) -> None:
        place = Place(kind, self.namespace, name, "status")
        await self.requests.patch(place, MERGE, {"status": {"observedGeneration": 1, **status}})

    async def get(self, kind: Kind, name: str) -> Body | None:
        try:
            return await self.requests.get(Place(kind, self.namespace, name))
        except Missing:
            return None

    async def delete(self, kind: Kind, name: str) -> None:
        await self.cluster.delete(kind, Key(self.namespace, name))

    async def look(self, kind: Kind, name: str) -> Body | None:
        """Let the operator see everything as it is now, and look at this object once; how it is after that."""
        for each in KINDS:
            listed = [body async for body in self.requests.list(Place(each, self.namespace))]
            before = self.cache.list(each, self.namespace)
            for body in listed:
                self.cache.put(each, body)
            known = {body["metadata"]["uid"] for body in listed}
            self.cache.drop_unlisted(each, self.namespace, known, before)
        await self.controllers[kind].handle(Item(kind, Key(self.namespace, name)))
        return await self.get(kind, name)

    async def events(self) -> list[str]:
        """Reasons, in no order."""
        return [body["reason"] async for body in self.requests.list(Place(EVENTS, self.namespace))]


def condition(body: Body | None, type: str) -> Body:
    """One condition of an object; empty if it has none of that type."""
    assert body is not None
    return next((each for each in body.get("status", {}).get("conditions", ()) if each["type"] == type), {})


@asynccontextmanager
async def world_of(server: ApiServer) -> AsyncIterator[World]:
    name = f"world-{uuid.uuid4().hex[:8]}"
    requests, clock, cache = Requests(await connect(str(server.kubeconfig))), SetClock(), Cache(KINDS)
    freshness = Freshness(clock)
    cluster = KubeCluster(requests, cache, freshness, Recorder(requests, clock, "test"), selected=frozenset())
    databases = LoopbackDatabases(f"memory:///{name}")
    server.kubectl("create", "namespace", name)
    try:
        yield World(name, requests, cluster, cache, databases, clock)
    finally:
        await databases.close()
        await requests.close()
