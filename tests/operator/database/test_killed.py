"""The operator is killed at every step of a database's life, and the end is the same as if nothing had happened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from slate_operator import names
from slate_operator.admin.client import Address
from slate_operator.api.database import SlateDatabase
from slate_operator.build.naming import Family
from slate_operator.kube.cache import Cache
from slate_operator.kube.client import KubeCluster
from slate_operator.kube.cluster import CHECKPOINTS, CONFIG_MAPS, DATABASES, DEPLOYMENTS, SECRETS, SERVICES, Body, Kind
from slate_operator.kube.events import Recorder
from slate_operator.kube.freshness import Freshness
from slate_operator.kube.requests import Place, Requests, connect
from slate_operator.reconcile.checkpoint import CheckpointReconciler
from slate_operator.reconcile.database import DatabaseReconciler
from slate_operator.settings import Settings
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.build.samples import IMAGE
from tests.operator.database.test_reconcile import at, blocked, gone, let_garbage_go, let_pods_run, ready, state
from tests.operator.world import KINDS, LoopbackDatabases, World, condition, world_of

pytestmark = pytest.mark.timeout(240)

Moment = Literal["never", "before", "after"]
DEATHS = [("before", 1), ("after", 1), ("after", 2), ("after", 3)]
"""Before or after a change; and at which one the first process dies. From different ones on, each change is met."""


class Killed(BaseException):
    """The process ends here. Nothing in it can do anything about that."""


class Life:
    """Of one operator process: it dies at its nth request that changes something. ``before`` that is sent, or ``after`` it
    was carried out, and then the answer is never heard."""

    def __init__(self, moment: Moment, changes: int = 0) -> None:
        self._moment = moment
        self._left = changes

    def before_change(self) -> None:
        self._left -= 1
        if self._moment == "before" and self._left == 0:
            raise Killed

    def after_change(self) -> None:
        if self._moment == "after" and self._left == 0:
            raise Killed


class MortalRequests(Requests):
    life = Life("never")

    async def _send(self, verb: str, *rest: Any, **more: Any) -> Body:
        if verb in ("get", "list"):
            return await super()._send(verb, *rest, **more)
        self.life.before_change()
        answer = await super()._send(verb, *rest, **more)
        self.life.after_change()
        return answer


class MortalDatabases(LoopbackDatabases):
    life = Life("never")

    async def ask(
        self, family: Family, address: Address, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Any:
        if method == "GET":
            return await super().ask(family, address, method, path, body)
        self.life.before_change()
        answer = await super().ask(family, address, method, path, body)
        self.life.after_change()
        return answer


class Theatre:
    """A world in which the operator is played by one process after the other."""

    def __init__(
        self, world: World, requests: MortalRequests, databases: MortalDatabases, moment: Moment, first: int
    ) -> None:
        self.world = world
        self.deaths = 0
        self._requests = requests
        self._databases = databases
        self._moment: Moment = moment
        self._first = first
        world.databases = databases

    def begin(self, changes: int) -> None:
        """A new process, which knows nothing of the one before."""
        world, clock = self.world, self.world.clock
        self._requests.life = self._databases.life = Life(self._moment, changes)
        world.cache = Cache(KINDS)
        recorder = Recorder(self._requests, clock, "test")
        world.cluster = KubeCluster(self._requests, world.cache, Freshness(clock), recorder, selected=frozenset())
        settings = Settings(image=IMAGE, namespace="operators")
        world.answer_for(DATABASES, DatabaseReconciler(world.cluster, self._databases, clock, settings))
        world.answer_for(CHECKPOINTS, CheckpointReconciler(world.cluster, self._databases, clock))

    async def play(self, name: str, done: Callable[[Body | None], bool], kind: Kind = DATABASES) -> Body | None:
        """Each process gets one change further than the one before. When none is left to die of, the act goes to its end."""
        body, changes = None, self._first
        self.begin(changes)
        for _ in range(300):
            await let_pods_run(self.world)
            try:
                body = await self.world.look(kind, name)
            except Killed:
                self.deaths += 1
                changes += 1
                self.begin(changes)
                continue
            if done(body):
                self._requests.life = self._databases.life = Life("never")
                return body
            await self.world.clock.sleep(0.02)
        raise AssertionError(f"{name} did not come to its end: {None if body is None else body.get('status')}")


@pytest.fixture
async def world(kinds: ApiServer) -> AsyncIterator[World]:
    async with world_of(kinds) as made:
        yield made


async def scenery(world: World) -> dict[str, object]:
    """Everything that was made for the database, but for what is different in every life."""
    found: dict[str, object] = {}
    for kind in (DEPLOYMENTS, SERVICES, CONFIG_MAPS, SECRETS):
        async for body in world.requests.list(Place(kind, world.namespace)):
            name = f"{kind.kind} {body['metadata']['name']}"
            if kind == DEPLOYMENTS:
                found[name] = _without_digests(body["spec"])
            elif kind == SECRETS:
                found[name] = sorted(body["data"])
            elif body["metadata"]["name"] != "kube-root-ca.crt":
                found[name] = sorted(body.get("data") or ())
    return found


def _without_digests(spec: Body) -> Body:
    """A collector is told the uid of its database, so the digest of its configuration differs."""
    spec["template"]["metadata"]["annotations"].pop(names.ANNOTATION_CONFIG, None)
    return spec


@asynccontextmanager
async def theatre_of(kinds: ApiServer, world: World, moment: Moment, first: int = 1) -> AsyncIterator[Theatre]:
    requests = MortalRequests(await connect(str(kinds.kubeconfig)))
    own, mortal = world.databases, MortalDatabases(world.databases.store)
    try:
        yield Theatre(world, requests, mortal, moment, first)
    finally:
        await mortal.close()
        await requests.close()
        world.databases = own


async def begun(theatre: Theatre, spec: Body) -> None:
    """A database that is ready, with a row in it."""
    world = theatre.world
    await world.make(DATABASES, "orders", spec)
    await theatre.play("orders", lambda body: condition(body, names.OWNED).get("status") == "True")
    await world.databases.write("orders", a="1")
    await theatre.play("orders", ready)


async def lived(kinds: ApiServer, world: World, moment: Moment) -> tuple[dict[str, object], int]:
    spec = at("orders", readers={"replicas": 1}, deletionPolicy="Destroy")
    async with theatre_of(kinds, world, moment) as theatre:
        await begun(theatre, spec)
        made = await scenery(world)
        await world.requests.delete(Place(DATABASES, world.namespace, "orders"), {})
        await theatre.play("orders", gone)
        assert await state(world, spec) is None, "the bytes are gone"
        return made, theatre.deaths


@pytest.mark.parametrize(("moment", "first"), DEATHS)
async def test_whenever_it_is_killed_what_is_brought_back_is_whole(
    kinds: ApiServer, world: World, moment: Moment, first: int
) -> None:
    """What ``kubectl slate undelete`` does: Retain in the middle of the grace, and the same object anew."""
    spec = at("orders", deletionPolicy="SoftDestroy", deleteGrace="1h")
    async with theatre_of(kinds, world, moment, first) as theatre:
        await begun(theatre, spec)
        await world.requests.delete(Place(DATABASES, world.namespace, "orders"), {})
        marked = await theatre.play("orders", blocked("Grace"))
        assert await state(world, spec) == "destroyed"
        assert marked is not None
        deaths = theatre.deaths
        await world.edit(DATABASES, "orders", {"spec": {"deletionPolicy": "Retain"}})
        await theatre.play("orders", gone)
        assert theatre.deaths - deaths >= 2
        assert await state(world, spec) == "alive"
        await let_garbage_go(world)
        taken = {names.ANNOTATION_TAKE: marked["metadata"]["uid"]}
        await world.make(DATABASES, "orders", spec | {"bootstrap": {"adopt": {}}}, annotations=taken)
        body = await theatre.play("orders", ready)
        facts = await world.databases.admin(SlateDatabase.of(body)).status()
        assert facts.size_bytes > 0, "with what was in it"


@pytest.mark.parametrize(("moment", "first"), DEATHS)
async def test_whenever_it_is_killed_there_is_one_checkpoint_and_then_none(
    kinds: ApiServer, world: World, moment: Moment, first: int
) -> None:
    spec = at("orders")
    async with theatre_of(kinds, world, moment, first) as theatre:
        await begun(theatre, spec)
        admin = world.databases.admin(SlateDatabase.of(await world.get(DATABASES, "orders")))
        made = await world.make(CHECKPOINTS, "kept", {"databaseRef": {"name": "orders"}, "lifetime": "1h"})
        deaths = theatre.deaths
        kept = await theatre.play("kept", ready, CHECKPOINTS)
        assert theatre.deaths - deaths >= 1
        uid = made["metadata"]["uid"]
        assert [each.id for each in (await admin.status()).checkpoints] == [uid]
        assert kept is not None
        assert kept["status"]["id"] == uid
        await world.requests.delete(Place(CHECKPOINTS, world.namespace, "kept"), {})
        await theatre.play("kept", gone, CHECKPOINTS)
        assert (await admin.status()).checkpoints == ()


async def test_whenever_it_is_killed_the_end_is_the_same(kinds: ApiServer, world: World) -> None:
    async with world_of(kinds) as second, world_of(kinds) as third:
        undisturbed, deaths = await lived(kinds, world, "never")
        assert deaths == 0
        for other, moment in ((second, "before"), (third, "after")):
            made, deaths = await lived(kinds, other, moment)  # type: ignore[arg-type]
            assert deaths >= 12, "it was killed at every change that it made"
            assert made == undisturbed, moment
