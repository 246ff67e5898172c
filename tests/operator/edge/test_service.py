"""The operator as a whole on the real API server, with a reconciler that does next to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from pydantic import ValidationError

from slate_operator.admin.database import Databases
from slate_operator.api.conditions import said
from slate_operator.api.database import SlateDatabase
from slate_operator.clock import Clock, SystemClock
from slate_operator.controller import Reconciler
from slate_operator.informer import Informer
from slate_operator.kube.cluster import (
    CHECKPOINTS,
    CONFIG_MAPS,
    DATABASES,
    Body,
    Cluster,
    Kind,
    Refused,
)
from slate_operator.kube.requests import connect
from slate_operator.lease import Lease, LeaseLost
from slate_operator.names import API_VERSION, READY, RECONCILING, STALLED
from slate_operator.reconcile.outcome import Happening, Outcome
from slate_operator.service import Service
from slate_operator.settings import Settings
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.edge.world import checkpoint, config_map, world


class Noting:
    """Notes what it was shown, and says that it is ready."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.trouble: Exception | None = None
        self.outcome = Outcome([said(READY, True, "Noted", "it was looked at")], {"phase": "Ready"})

    async def reconcile(self, body: Body) -> Outcome:
        self.shown.append(body["metadata"]["name"])
        if self.trouble is not None:
            raise self.trouble
        return self.outcome


class Keeping(Noting):
    """Keeps a ConfigMap for each database, as it is wanted."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster

    async def reconcile(self, body: Body) -> Outcome:
        wanted = config_map(body["metadata"]["namespace"], f"{body['metadata']['name']}-settings", a="1")
        await self._cluster.apply(CONFIG_MAPS, wanted)
        return await super().reconcile(body)


class Running:
    def __init__(self, service: Service, seen: Mapping[Kind, Noting]) -> None:
        self.service = service
        self.checkpoints = seen[CHECKPOINTS]
        self.databases = seen[DATABASES]

    def counted(self, verb: str, resource: str) -> float:
        samples = next(iter(self.service.metrics.requests.collect())).samples
        return sum(
            sample.value
            for sample in samples
            if sample.name.endswith("_total") and (sample.labels["verb"], sample.labels["resource"]) == (verb, resource)
        )

    async def quiet(self) -> None:
        """Until nothing is left to do for a while."""
        silent = 0
        while silent < 10:
            await asyncio.sleep(0.05)
            silent = silent + 1 if self.service.queue.idle else 0


@asynccontextmanager
async def operator(kinds: ApiServer, place: str, **settings: Any) -> AsyncIterator[Running]:
    seen: dict[Kind, Noting] = {}

    def reconcilers(cluster: Cluster, databases: Databases, clock: Clock, _: Settings) -> Mapping[Kind, Reconciler]:
        seen.update({CHECKPOINTS: Noting(), DATABASES: Keeping(cluster)})
        return seen

    given = {"namespaces": (place,), "namespace": place, "health_port": 0, "lease": "", **settings}
    service = Service(
        Settings(**given), await connect(str(kinds.kubeconfig)), reconcilers, SystemClock(), host="127.0.0.1"
    )
    stop = asyncio.Event()
    task = asyncio.create_task(service.run(stop))
    await until(lambda: bool(seen) or task.done())
    if task.done():
        await task
    try:
        yield Running(service, seen)
    finally:
        stop.set()
        async with asyncio.timeout(20):
            await task


async def until(so: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(so):  # noqa: ASYNC110  what is waited for happens in a server
            await asyncio.sleep(0.02)


def database(namespace: str, name: str = "orders") -> Body:
    return {
        "apiVersion": API_VERSION,
        "kind": "SlateDatabase",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"store": {"url": "s3://shop/orders"}},
    }


def stored(kinds: ApiServer, place: str, name: str = "checkpoint/one") -> Body:
    found: Body = kinds.kubectl.get(name, "-n", place)
    return found


async def test_what_is_there_and_what_comes_is_looked_at_and_told(kinds: ApiServer, place: str) -> None:
    kinds.kubectl.apply([checkpoint(place, "before")], namespace=place)
    async with operator(kinds, place) as here:
        await until(lambda: "before" in here.checkpoints.shown)
        kinds.kubectl.apply([checkpoint(place, "after")], namespace=place)
        await until(lambda: "after" in here.checkpoints.shown)
        await asyncio.to_thread(
            kinds.kubectl.wait, "condition=Ready", "checkpoint/before", "checkpoint/after", "-n", place, timeout=10
        )
        after = stored(kinds, place, "checkpoint/after")
        assert after["status"]["observedGeneration"] == 1
        assert after["status"]["conditions"][0] | {"lastTransitionTime": ""} == {
            "type": "Ready",
            "status": "True",
            "reason": "Noted",
            "message": "it was looked at",
            "observedGeneration": 1,
            "lastTransitionTime": "",
        }
        assert "finalizers" not in after["metadata"], "kopf has put a finalizer on it"
        assert "annotations" not in after["metadata"], "kopf has put an annotation on it"


async def test_when_nothing_changes_nothing_is_written(kinds: ApiServer, place: str) -> None:
    kinds.kubectl.apply([checkpoint(place, "one"), database(place)], namespace=place)
    async with operator(kinds, place, resync_seconds=1.0) as here:
        await until(lambda: here.checkpoints.shown.count("one") > 1)
        await here.quiet()
        before = {verb: here.counted(verb, "checkpoints/status") for verb in ("patch",)}
        applied = here.counted("patch", "configmaps")
        looked = len(here.checkpoints.shown)
        await until(lambda: len(here.checkpoints.shown) >= looked + 3)
        assert {verb: here.counted(verb, "checkpoints/status") for verb in ("patch",)} == before
        assert here.counted("patch", "configmaps") == applied == 1
        assert here.counted("patch", "checkpoints/status") == 1


async def test_a_status_is_not_a_reason_to_look_again(kinds: ApiServer, place: str) -> None:
    kinds.kubectl.apply([checkpoint(place)], namespace=place)
    async with operator(kinds, place) as here:
        await until(lambda: here.checkpoints.shown == ["one"])
        await here.quiet()
        assert here.checkpoints.shown == ["one"]


async def test_a_child_that_somebody_changes_or_deletes_is_mended(kinds: ApiServer, place: str) -> None:
    kinds.kubectl.apply([database(place)], namespace=place)
    child = ("configmap/orders-settings", "-n", place)
    async with operator(kinds, place) as here:
        await until(lambda: kinds.kubectl.answers("get", *child))
        await here.quiet()
        kinds.kubectl("patch", *child, "-p", '{"data":{"a":"2"}}')
        await until(lambda: kinds.kubectl.get(*child)["data"]["a"] == "1")
        kinds.kubectl("delete", *child)
        await until(lambda: kinds.kubectl.answers("get", *child))
        await here.quiet()
        assert here.counted("patch", "configmaps") == 3


async def test_what_a_reconcile_cannot_do_is_told_in_the_object_and_tried_again(kinds: ApiServer, place: str) -> None:
    async with operator(kinds, place) as here:
        here.checkpoints.trouble = Refused("quota exceeded")
        kinds.kubectl.apply([checkpoint(place)], namespace=place)
        await asyncio.to_thread(kinds.kubectl.wait, "condition=Ready=False", "checkpoint/one", "-n", place, timeout=10)
        assert "quota exceeded" in stored(kinds, place)["status"]["conditions"][0]["message"]
        here.checkpoints.trouble = ZeroDivisionError("a bug")
        await until(lambda: stored(kinds, place)["status"]["conditions"][0]["reason"] == "OperatorFailed")
        here.checkpoints.trouble = None
        await asyncio.to_thread(kinds.kubectl.wait, "condition=Ready", "checkpoint/one", "-n", place, timeout=10)
        assert stored(kinds, place)["status"]["phase"] == "Ready"
        here.checkpoints.trouble = Refused("quota exceeded")
        kinds.kubectl("annotate", "checkpoint/one", "look=now", "-n", place)
        await until(lambda: stored(kinds, place)["status"]["conditions"][0]["reason"] == "Refused")
        assert stored(kinds, place)["status"]["phase"] == "Pending", "Ready in one word, and not Ready in another"


async def test_who_is_stuck_is_not_said_to_be_on_its_way(kinds: ApiServer, place: str) -> None:
    async with operator(kinds, place) as here:
        under_way = [said(READY, False, "RollingOut", "soon"), said(RECONCILING, True, "RollingOut", "soon")]
        here.databases.outcome = Outcome(under_way, {"phase": RECONCILING})
        kinds.kubectl.apply([database(place)], namespace=place)
        await until(lambda: stored(kinds, place, "sdb/orders").get("status", {}).get("phase") == RECONCILING)
        with pytest.raises(ValidationError) as mistake:
            SlateDatabase.of({"metadata": {}, "spec": {"from": "the future"}})
        here.databases.trouble = mistake.value
        kinds.kubectl("annotate", "sdb/orders", "look=now", "-n", place)
        await until(lambda: stored(kinds, place, "sdb/orders")["status"]["phase"] == STALLED)
        told = {each["type"]: each["status"] for each in stored(kinds, place, "sdb/orders")["status"]["conditions"]}
        assert told == {READY: "False", STALLED: "True"}


async def test_what_happened_is_told_as_an_event(kinds: ApiServer, place: str) -> None:
    async with operator(kinds, place) as here:
        here.checkpoints.outcome = Outcome(events=[Happening("Lost", "its bytes are gone", warning=True)])
        kinds.kubectl.apply([checkpoint(place)], namespace=place)
        await until(lambda: bool(kinds.kubectl.get("events", "-n", place)["items"]))
        [event] = kinds.kubectl.get("events", "-n", place)["items"]
        assert (event["type"], event["reason"], event["message"]) == ("Warning", "Lost", "its bytes are gone")


async def test_an_end_that_the_watch_has_missed_is_found_by_the_next_list(kinds: ApiServer, place: str) -> None:
    async with operator(kinds, place, resync_seconds=1.0) as here:
        ghost = checkpoint(place, "ghost")
        ghost["metadata"] |= {"uid": "gone", "resourceVersion": "1"}
        here.service.cache.put(CHECKPOINTS, ghost)
        await until(lambda: not list(here.service.cache.all(CHECKPOINTS)))


async def test_health_and_metrics_are_served(kinds: ApiServer, place: str) -> None:
    kinds.kubectl.apply([checkpoint(place)], namespace=place)
    async with operator(kinds, place) as here, aiohttp.ClientSession() as session:
        await until(lambda: here.checkpoints.shown == ["one"])
        await here.quiet()
        url = f"http://127.0.0.1:{here.service.probes.port}"
        async with session.get(f"{url}/livez") as answer:
            assert (answer.status, await answer.text()) == (200, "alive\n")
        async with session.get(f"{url}/readyz") as answer:
            assert (answer.status, await answer.text()) == (200, "ready\n")
        async with session.get(f"{url}/metrics") as answer:
            text = await answer.text()
        assert 'slatekeeper_reconciles_total{kind="Checkpoint",result="done"}' in text
        assert 'slatekeeper_objects{kind="Checkpoint"} 1.0' in text
        assert 'slatekeeper_api_requests_total{code="200",resource="checkpoints/status",verb="patch"} 1.0' in text
        # A watch that owes us something for too long ends the process by its liveness.
        here.service._freshness._owed[CHECKPOINTS, "x"] = (1, SystemClock().monotonic() - 1000)
        async with session.get(f"{url}/livez") as answer:
            assert answer.status == 503
            assert "the watch of checkpoints" in await answer.text()


async def test_of_two_operators_one_works_and_the_other_takes_over(kinds: ApiServer, place: str) -> None:
    kinds.kubectl.apply([checkpoint(place)], namespace=place)
    lease = {"lease": "slatekeeper", "lease_seconds": 6.0}
    seen: dict[Kind, Noting] = {}

    def second(cluster: Cluster, databases: Databases, clock: Clock, _: Settings) -> Mapping[Kind, Reconciler]:
        seen[CHECKPOINTS] = Noting()
        return seen

    async with operator(kinds, place, identity="first", **lease) as here:
        await until(lambda: here.checkpoints.shown == ["one"])
        settings = Settings(
            namespaces=(place,),
            namespace=place,
            identity="second",
            health_port=0,
            lease="slatekeeper",
            lease_seconds=6.0,
        )
        configuration = await connect(str(kinds.kubeconfig))
        standby, stop = Service(settings, configuration, second, SystemClock(), host="127.0.0.1"), asyncio.Event()
        task = asyncio.create_task(standby.run(stop))
        await asyncio.sleep(3.0)
        assert not seen, "both work"
        assert standby.health.not_ready() == [], "who stands by is ready to"
    await until(lambda: bool(seen) and seen[CHECKPOINTS].shown == ["one"])
    # Somebody takes the Lease away: whoever held it must not go on.
    kinds.kubectl(
        "patch", "lease/slatekeeper", "-n", place, "--type=merge", "-p", '{"spec":{"holderIdentity":"third"}}'
    )
    with pytest.raises(LeaseLost, match="third"):
        async with asyncio.timeout(20):
            await task


class Slow(Noting):
    """Takes its time for each look."""

    async def reconcile(self, body: Body) -> Outcome:
        await asyncio.sleep(5.0)
        return await super().reconcile(body)


async def test_the_lease_is_kept_from_the_first_list_to_the_last_look(
    kinds: ApiServer, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both may take longer than the Lease lasts."""
    kinds.kubectl.apply([checkpoint(place)], namespace=place)
    listing, slow, seconds = Informer.list_all, Slow(), 3.0

    async def slowly(informer: Informer) -> int:
        await asyncio.sleep(2 * seconds)
        return await listing(informer)

    monkeypatch.setattr(Informer, "list_all", slowly)
    settings = Settings(namespaces=(place,), namespace=place, identity="first", health_port=0, lease_seconds=seconds)
    configuration, stop = await connect(str(kinds.kubeconfig)), asyncio.Event()
    service = Service(settings, configuration, lambda *_: {CHECKPOINTS: slow}, SystemClock(), host="127.0.0.1")
    task = asyncio.create_task(service.run(stop))
    await until(lambda: kinds.kubectl.answers("get", "lease/slatekeeper", "-n", place))
    async with world(kinds) as here:
        clock = SystemClock()
        other = Lease(here.requests, clock, namespace=place, name="slatekeeper", identity="other", seconds=seconds)
        waiting = asyncio.create_task(other.acquire())
        await until(lambda: waiting.done() or service.queue.busy == 1)
        assert not waiting.done(), "it was taken while the first list was on its way"
        stop.set()
        async with asyncio.timeout(20):
            await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
            assert task.done(), "it was taken while the last look was on its way"
            assert slow.shown == ["one"]
            await task
            await waiting
