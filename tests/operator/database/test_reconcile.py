"""Databases on the real API server, over the real admin API of a real collector. Nothing but kubelet is missing: what it
would do, start pods and tell of them, is written into the status of the Deployments by hand."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from slate_operator import names
from slate_operator.admin.database import Problem
from slate_operator.api.database import SlateDatabase
from slate_operator.kube.cluster import (
    CHECKPOINTS,
    CONFIG_MAPS,
    DATABASES,
    DEPLOYMENTS,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Body,
)
from slate_operator.kube.requests import Place
from slate_operator.names import FINALIZER_DATABASE, LABEL_DATABASE, LABEL_ROLE, Role
from slate_operator.reconcile.database import DatabaseReconciler
from slate_operator.settings import Settings
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.build.samples import IMAGE
from tests.operator.world import World, condition, world_of

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def world(kinds: ApiServer) -> AsyncIterator[World]:
    async with world_of(kinds) as made:
        settings = Settings(image=IMAGE, namespace="operators")
        made.answer_for(DATABASES, DatabaseReconciler(made.cluster, made.databases, made.clock, settings))
        yield made


def at(path: str, **spec: Any) -> Body:
    return {"store": {"url": f"s3://shop/{path}"}, **spec}


async def let_pods_run(world: World) -> None:
    """What the Deployment controller tells when all pods are up."""
    async for body in world.requests.list(Place(DEPLOYMENTS, world.namespace)):
        wanted = body["spec"]["replicas"]
        counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas", "readyReplicas"), wanted)
        told = {"observedGeneration": body["metadata"]["generation"], **counts}
        await world.set_status(DEPLOYMENTS, body["metadata"]["name"], told)


async def let_garbage_go(world: World) -> None:
    """What the garbage collector of the cluster does about objects whose owner is gone."""
    living = {body["metadata"]["uid"] async for body in world.requests.list(Place(DATABASES, world.namespace))}
    for kind in (SECRETS, CONFIG_MAPS, SERVICES, SERVICE_ACCOUNTS, NETWORK_POLICIES, DEPLOYMENTS):
        async for body in world.requests.list(Place(kind, world.namespace)):
            if any(owner["uid"] not in living for owner in body["metadata"].get("ownerReferences", ())):
                await world.delete(kind, body["metadata"]["name"])


async def settle(world: World, name: str, done: Callable[[Body | None], bool]) -> Body | None:
    """Reconcile and let pods run until the database is as wanted. A deletion alone lingers for five seconds."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        await let_pods_run(world)
        body = await world.look(DATABASES, name)
        if done(body):
            return body
        await asyncio.sleep(0.05)
    raise AssertionError(f"{name} did not settle: {None if body is None else body.get('status')}")


def ready(body: Body | None) -> bool:
    return condition(body, names.READY).get("status") == "True"


def gone(body: Body | None) -> bool:
    return body is None


def blocked(kind: str) -> Callable[[Body | None], bool]:
    def look(body: Body | None) -> bool:
        assert body is not None
        return [each["kind"] for each in body["status"].get("deletion", {}).get("blockedBy", ())] == [kind]

    return look


async def start(world: World, name: str, spec: Body, *, write: bool = True) -> Body:
    """A database that runs, with a row in it."""
    await world.make(DATABASES, name, spec)
    if write:
        await settle(world, name, lambda body: condition(body, names.OWNED).get("status") == "True")
        await world.databases.write(spec["store"]["url"].removeprefix("s3://shop/"), a="1")
    body = await settle(world, name, ready)
    assert body is not None
    return body


async def state(world: World, spec: Body) -> str | None:
    """What the bucket holds."""
    body = {"metadata": {"name": "any", "namespace": "any"}, "spec": spec}
    with contextlib.suppress(Problem):
        return (await world.databases.admin(SlateDatabase.of(body)).status()).state
    return None


async def versions(world: World) -> dict[str, str]:
    found = {}
    for kind in (DATABASES, DEPLOYMENTS, SERVICES, SECRETS, CONFIG_MAPS):
        async for body in world.requests.list(Place(kind, world.namespace)):
            found[f"{kind.kind}/{body['metadata']['name']}"] = body["metadata"]["resourceVersion"]
    return found


async def test_the_life_of_a_database(world: World) -> None:
    spec = at("orders", readers={"replicas": 2})
    await world.make(DATABASES, "orders", spec)
    first = await world.look(DATABASES, "orders")
    assert first is not None
    assert first["metadata"]["finalizers"] == [FINALIZER_DATABASE]
    assert condition(first, names.READY)["reason"] == "Starting"
    made = [each["metadata"]["name"] async for each in world.requests.list(Place(DEPLOYMENTS, world.namespace))]
    assert made == ["orders-gc"]

    await settle(world, "orders", lambda body: condition(body, names.OWNED).get("status") == "True")
    await world.databases.write("orders", a="1")
    body = await settle(world, "orders", ready)
    assert body is not None
    assert body["status"]["observedGeneration"] == body["metadata"]["generation"]
    assert body["status"]["readerReplicas"] == 2
    assert body["status"]["writerEpoch"] >= 1
    async for child in world.requests.list(Place(DEPLOYMENTS, world.namespace)):
        assert child["metadata"]["labels"][LABEL_DATABASE] == "orders"
        assert child["metadata"]["ownerReferences"][0]["uid"] == body["metadata"]["uid"]

    before = await versions(world)
    for _ in range(3):
        await world.look(DATABASES, "orders")
    assert await versions(world) == before, "nothing new, and yet something was written"

    # Somebody turns a screw: it is turned back. A change of the spec rolls what it touches, and that alone.
    await world.edit(DEPLOYMENTS, "orders-writer", {"spec": {"replicas": 3}})
    await world.look(DATABASES, "orders")
    writer = await world.get(DEPLOYMENTS, "orders-writer")
    assert writer is not None
    assert writer["spec"]["replicas"] == 1
    generations = await _generations(world)
    await world.edit(DATABASES, "orders", {"spec": {"gc": {"interval": "1m"}}})
    seen = await world.look(DATABASES, "orders")
    assert condition(seen, names.GC_READY)["reason"] == "RollingOut"
    assert condition(seen, names.READY)["status"] == "False"
    rolled = {name for name, number in (await _generations(world)).items() if number != generations[name]}
    assert rolled == {"orders-gc"}
    await settle(world, "orders", ready)


async def _generations(world: World) -> dict[str, int]:
    return {
        body["metadata"]["name"]: body["metadata"]["generation"]
        async for body in world.requests.list(Place(DEPLOYMENTS, world.namespace))
    }


async def test_retain_keeps_the_bytes_and_lets_the_same_name_come_back(world: World) -> None:
    spec = at("kept")
    await start(world, "kept", spec)
    await world.delete(DATABASES, "kept")
    await settle(world, "kept", gone)
    assert await state(world, spec) == "alive"
    assert [body async for body in world.requests.list(Place(DEPLOYMENTS, world.namespace))] == []
    # What is left of the old object is neither taken over nor stumbled on: it goes, and then the new one begins.
    await world.make(DATABASES, "kept", spec)
    await world.look(DATABASES, "kept")
    assert await world.get(DEPLOYMENTS, "kept-gc") is None
    await let_garbage_go(world)
    # It says "a new one", and means the one that it had.
    again = await settle(world, "kept", ready)
    assert again is not None
    assert again["status"]["writerEpoch"] >= 1


async def test_a_soft_destruction_waits_for_its_grace(world: World) -> None:
    spec = at("soft", deletionPolicy="SoftDestroy", deleteGrace="1h")
    await start(world, "soft", spec)
    await world.delete(DATABASES, "soft")
    body = await settle(world, "soft", blocked("Grace"))
    assert await state(world, spec) == "destroyed"
    assert body is not None
    assert body["status"]["phase"] == "Deleting"
    assert condition(body, names.DELETION_BLOCKED)["status"] == "True"
    assert await world.get(DEPLOYMENTS, "soft-writer") is None
    assert await world.get(DEPLOYMENTS, "soft-gc") is not None
    world.clock.ahead += 3700
    await settle(world, "soft", gone)
    assert await state(world, spec) is None


async def test_what_is_protected_is_not_left_marked(world: World) -> None:
    spec = at("guarded", deletionPolicy="SoftDestroy", deleteGrace="1h")
    await start(world, "guarded", spec)
    await world.delete(DATABASES, "guarded")
    await settle(world, "guarded", blocked("Grace"))
    await world.edit(DATABASES, "guarded", {"spec": {"deletionProtection": True}})
    body = await settle(world, "guarded", ready)
    assert blocked("Protection")(body)
    assert await state(world, spec) == "alive"
    await world.edit(DATABASES, "guarded", {"spec": {"deletionProtection": False}})
    await settle(world, "guarded", blocked("Grace"))
    assert await state(world, spec) == "destroyed"


async def test_a_pause_keeps_the_bytes_as_they_are(world: World) -> None:
    spec = at("guarded", deletionPolicy="SoftDestroy", deleteGrace="1h")
    await start(world, "guarded", spec)
    await world.delete(DATABASES, "guarded")
    await settle(world, "guarded", blocked("Grace"))
    await world.edit(DATABASES, "guarded", {"spec": {"paused": True}})
    world.clock.ahead += 7200
    for _ in range(5):
        await let_pods_run(world)
        body = await world.look(DATABASES, "guarded")
    assert blocked("Protection")(body)
    assert body is not None
    assert body["status"]["deletion"]["deadline"]
    assert await state(world, spec) == "destroyed"
    await world.edit(DATABASES, "guarded", {"spec": {"deletionPolicy": "Retain", "paused": False}})
    await settle(world, "guarded", gone)
    assert await state(world, spec) == "alive"


async def test_what_is_marked_waits_for_a_collector_that_is_silent(world: World) -> None:
    spec = at("silent", deletionPolicy="SoftDestroy", deleteGrace="7d")
    await start(world, "silent", spec)
    await world.delete(DATABASES, "silent")
    await settle(world, "silent", blocked("Grace"))
    world.databases.down.add("silent")
    await world.delete(DEPLOYMENTS, "silent-gc")
    world.clock.ahead += 86400
    await world.edit(DATABASES, "silent", {"spec": {"deletionPolicy": "Retain"}})
    for _ in range(5):
        await let_pods_run(world)
        body = await world.look(DATABASES, "silent")
    assert blocked("Pods")(body), "its bytes are marked as destroyed still"
    assert await world.get(DEPLOYMENTS, "silent-gc") is not None, "it is needed, and so it is made again"
    world.databases.down.clear()
    await settle(world, "silent", gone)
    assert await state(world, spec) == "alive"


async def test_a_database_destroyed_under_its_object_is_brought_back_on_demand(world: World) -> None:
    spec = at("destroyed")
    body = await start(world, "destroyed", spec)
    admin = world.databases.admin(SlateDatabase.of(body))
    await asyncio.sleep(1.1)  # times in a bucket are whole seconds
    await admin.put_operation(str(uuid.uuid4()), {"kind": "destroy", "mode": "soft"})
    stalled = await settle(world, "destroyed", lambda body: condition(body, names.STALLED).get("status") == "True")
    assert "kubectl slate undelete destroyed" in condition(stalled, names.READY)["message"]
    wish = {"metadata": {"annotations": {names.ANNOTATION_BRING_BACK: "now"}}}
    await world.edit(DATABASES, "destroyed", wish)
    await settle(world, "destroyed", ready)
    assert await state(world, spec) == "alive"


async def test_a_pod_monitor_in_a_cluster_that_knows_none_is_told(world: World) -> None:
    await world.make(DATABASES, "watched", at("watched", monitoring={"podMonitor": True}))
    body = await settle(world, "watched", lambda body: condition(body, names.STALLED).get("status") == "True")
    told = condition(body, names.READY)
    assert told["reason"] == "Refused"
    assert "does not know PodMonitor" in told["message"]
    assert "install its CRD" in told["message"]


async def test_retain_on_the_way_brings_it_back(world: World) -> None:
    spec = at("regretted", deletionPolicy="SoftDestroy", deleteGrace="1h")
    await start(world, "regretted", spec)
    await world.delete(DATABASES, "regretted")
    await settle(world, "regretted", blocked("Grace"))
    await world.edit(DATABASES, "regretted", {"spec": {"deletionPolicy": "Retain"}})
    await settle(world, "regretted", gone)
    assert await state(world, spec) == "alive"


async def test_a_checkpoint_holds_a_destruction_and_is_named(world: World) -> None:
    spec = at("needed", deletionPolicy="Destroy")
    body = await start(world, "needed", spec)
    admin = world.databases.admin(SlateDatabase.of(body))
    made = await world.make(CHECKPOINTS, "nightly", {"databaseRef": {"name": "needed"}})
    await admin.put_checkpoint(made["metadata"]["uid"], lifetime_s=None, name="nightly", source=None)
    await world.delete(DATABASES, "needed")
    held = await settle(world, "needed", blocked("Checkpoint"))
    assert held is not None
    assert held["status"]["deletion"]["blockedBy"][0]["name"] == "nightly"
    assert await state(world, spec) == "destroyed"
    await admin.delete_checkpoint(made["metadata"]["uid"])
    await settle(world, "needed", gone)
    assert await state(world, spec) is None


async def test_a_path_has_one_owner(world: World) -> None:
    spec = at("one")
    await start(world, "one", spec)
    await world.make(DATABASES, "two", at("one", bootstrap={"adopt": {}}, deletionPolicy="Destroy"))
    stalled = await settle(world, "two", lambda body: condition(body, names.STALLED).get("status") == "True")
    assert condition(stalled, names.STALLED)["reason"] == "OwnedByAnother"
    assert world.namespace + "/one" in condition(stalled, names.OWNED)["message"]
    assert await world.get(DEPLOYMENTS, "two-writer") is None
    # Whoever never had it destroys nothing of it, whatever its policy says.
    await world.delete(DATABASES, "two")
    await settle(world, "two", gone)
    assert await state(world, spec) == "alive"
    assert ready(await settle(world, "one", ready))


async def test_a_clone_begins_with_what_its_source_has(world: World) -> None:
    await start(world, "source", at("source"))
    await world.make(DATABASES, "copy", at("copy", bootstrap={"clone": {"databaseRef": {"name": "source"}}}))
    body = await settle(world, "copy", ready)
    facts = await world.databases.admin(SlateDatabase.of(body)).status()
    assert facts.parents[0].path == "source"
    # A source that others need is not destroyed under them.
    await world.edit(DATABASES, "source", {"spec": {"deletionPolicy": "Destroy"}})
    await world.delete(DATABASES, "source")
    held = await settle(world, "source", blocked("SlateDatabase"))
    assert held is not None
    assert held["status"]["deletion"]["blockedBy"][0]["name"] == "copy"


async def test_a_clone_is_not_what_an_earlier_one_of_its_name_has_left(world: World) -> None:
    """The bytes of a deleted database stay by default. A clone of today that shows them would be one of last week."""
    await start(world, "source", at("source"))
    spec = at("copy", bootstrap={"clone": {"databaseRef": {"name": "source"}}})
    await world.make(DATABASES, "copy", spec)
    await settle(world, "copy", ready)
    await world.delete(DATABASES, "copy")
    await settle(world, "copy", gone)
    await let_garbage_go(world)
    await world.databases.write("source", b="2")

    await world.make(DATABASES, "copy", spec)
    body = await settle(world, "copy", lambda body: ready(body) or bool(condition(body, names.STALLED)))
    assert condition(body, names.STALLED).get("reason") == "DatabaseExists", "old bytes are shown as a new clone"
    assert "bootstrap.adopt" in condition(body, names.STALLED)["message"]
    assert await world.get(DEPLOYMENTS, "copy-writer") is None
    await world.delete(DATABASES, "copy")
    await settle(world, "copy", gone)
    await let_garbage_go(world)
    assert await state(world, spec) == "alive"
    await world.make(DATABASES, "copy", at("copy", bootstrap={"adopt": {}}))
    await settle(world, "copy", ready)


async def test_what_was_destroyed_is_recovered(world: World) -> None:
    spec = at("back", deletionPolicy="SoftDestroy")
    body = await start(world, "back", spec)
    admin = world.databases.admin(SlateDatabase.of(body))
    await world.delete(DATABASES, "back")
    await settle(world, "back", blocked("Grace"))
    # The object is lost, as in a cluster that is gone; its mark stays.
    await world.edit(DATABASES, "back", {"metadata": {"finalizers": []}})
    assert await world.look(DATABASES, "back") is None
    owner = await admin.owner()
    assert owner is not None
    await asyncio.sleep(1.1)  # what is destroyed later than the object was made stays destroyed
    taken = {"annotations": {names.ANNOTATION_TAKE: owner.uid}}
    await world.make(DATABASES, "again", at("back", bootstrap={"recover": {}}), **taken)
    again = await settle(world, "again", ready)
    assert await state(world, spec) == "alive"
    assert again is not None
    assert again["status"]["writerEpoch"] > body["status"]["writerEpoch"]


@pytest.mark.parametrize("policy", ["Retain", "SoftDestroy", "Destroy"])
async def test_a_namespace_that_goes_is_not_held_up(world: World, kinds: ApiServer, policy: str) -> None:
    spec = at("left", deletionPolicy=policy)
    await start(world, "left", spec)
    kinds.kubectl("delete", "namespace", world.namespace, "--wait=false")
    await world.delete(DATABASES, "left")
    await settle(world, "left", gone)
    assert await state(world, spec) == ("alive" if policy == "Retain" else "destroyed")


async def test_a_namespace_that_goes_is_noticed_by_its_pods(world: World, kinds: ApiServer) -> None:
    """They end before anything else is deleted there, and with them the one who could mark the database."""
    spec = at("ended", deletionPolicy="SoftDestroy")
    await start(world, "ended", spec)
    labels = {LABEL_DATABASE: "ended", LABEL_ROLE: Role.GC}
    container = {"name": "slate", "image": IMAGE}
    pod_spec = {"serviceAccountName": "ended", "automountServiceAccountToken": False, "containers": [container]}
    await world.make(PODS, "ended-gc-0", pod_spec, labels=labels, finalizers=["tests.slatekeeper.io/ends-slowly"])
    await world.delete(PODS, "ended-gc-0")
    kinds.kubectl("delete", "namespace", world.namespace, "--wait=false")
    body = await settle(world, "ended", lambda body: body is not None and not body["metadata"].get("finalizers"))
    assert await state(world, spec) == "destroyed"
    assert body is not None
    assert "deletionTimestamp" not in body["metadata"]
    await world.edit(PODS, "ended-gc-0", {"metadata": {"finalizers": []}})
    left = await world.look(DATABASES, "ended")
    assert left is not None
    assert "finalizers" not in left["metadata"], "who was taken leave of is not taken up again"
    await world.delete(DATABASES, "ended")
    assert await world.look(DATABASES, "ended") is None


async def test_what_somebody_else_has_put_under_a_name_is_not_taken_away(world: World) -> None:
    """An image of the user's that declares no ports has no Service of ours: he may have made one himself."""
    spec = at("mine", writer={"mode": "Image", "image": "shop:1"}, networkPolicies={"enabled": False})
    port = {"ports": [{"port": 80}]}
    await world.requests.create(
        Place(SERVICES, world.namespace),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mine"}, "spec": port},
    )
    await world.requests.create(
        Place(NETWORK_POLICIES, world.namespace),
        {
            "apiVersion": NETWORK_POLICIES.api_version,
            "kind": "NetworkPolicy",
            "metadata": {"name": "mine-writer"},
            "spec": {"podSelector": {}},
        },
    )
    await start(world, "mine", spec)
    await world.edit(DATABASES, "mine", {"spec": {"deleteGrace": "1d"}})
    await settle(world, "mine", ready)
    assert await world.get(SERVICES, "mine") is not None
    assert await world.get(NETWORK_POLICIES, "mine-writer") is not None
    # What we made ourselves goes when it is not wanted any more.
    await world.delete(NETWORK_POLICIES, "mine-writer")
    await world.edit(DATABASES, "mine", {"spec": {"networkPolicies": {"enabled": True}}})
    await settle(world, "mine", ready)
    assert await world.get(NETWORK_POLICIES, "mine-gc") is not None
    await world.edit(DATABASES, "mine", {"spec": {"networkPolicies": {"enabled": False}}})
    await settle(world, "mine", ready)
    assert await world.get(NETWORK_POLICIES, "mine-gc") is None


async def test_a_secret_of_somebody_else_is_not_overwritten(world: World) -> None:
    data = {"tls.crt": "YQ==", "tls.key": "Yg=="}
    certificate = {"metadata": {"name": "orders-tls"}, "type": "kubernetes.io/tls", "data": data}
    await world.requests.create(Place(SECRETS, world.namespace), {"apiVersion": "v1", "kind": "Secret", **certificate})
    await world.make(DATABASES, "orders", at("orders"))
    seen = await world.look(DATABASES, "orders")
    found = await world.get(SECRETS, "orders-tls")
    assert found is not None
    assert found["data"] == data
    assert condition(seen, names.READY)["reason"] == "NameTaken"
    assert "Secret orders-tls already" in condition(seen, names.READY)["message"]
    await world.delete(SECRETS, "orders-tls")
    await settle(world, "orders", lambda body: condition(body, names.OWNED).get("status") == "True")


async def test_a_collector_that_does_not_answer_is_explained(world: World) -> None:
    await start(world, "mute", at("mute"))
    world.databases.down.add("mute")
    await world.edit(DATABASES, "mute", {"spec": {"readers": {"replicas": 1}}})
    body = await settle(world, "mute", lambda body: condition(body, names.READERS_READY).get("status") == "True")
    assert condition(body, names.READY)["reason"] == "NotAnswering"
    assert condition(body, names.OWNED)["status"] == "True"
    assert await world.get(DEPLOYMENTS, f"mute-{Role.WRITER}") is not None


async def test_secrets_are_made_once_and_rotated_when_asked(world: World) -> None:
    await start(world, "keys", at("keys"))
    before = {name: await world.get(SECRETS, f"keys-{name}") for name in ("admin", "auth", "ca", "tls")}
    await world.edit(DATABASES, "keys", {"metadata": {"annotations": {names.ANNOTATION_ROTATE: "1"}}})
    await world.look(DATABASES, "keys")
    spreading = await world.get(SECRETS, "keys-admin")
    assert before["admin"] is not None
    assert spreading is not None
    assert spreading["data"]["token"] == before["admin"]["data"]["token"]
    assert spreading["data"]["tokens"] != before["admin"]["data"]["tokens"]
    world.clock.ahead += 200
    body = await settle(world, "keys", ready)
    assert body is not None
    assert body["status"]["rotated"] == "1"
    for name in ("admin", "auth", "ca", "tls"):
        found = await world.get(SECRETS, f"keys-{name}")
        assert found is not None
        assert found["data"] != before[name]["data"]  # type: ignore[index]
