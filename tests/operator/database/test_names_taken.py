"""Names follow from the database's own, and the user may have something under one of them: it is neither overwritten nor
used nor deleted, and the database says what is in its way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from slate_operator import names
from slate_operator.kube.cluster import (
    CONFIG_MAPS,
    DATABASES,
    DEPLOYMENTS,
    NETWORK_POLICIES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Body,
    Kind,
)
from slate_operator.kube.requests import Place
from slate_operator.reconcile.database import DatabaseReconciler
from slate_operator.settings import Settings
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.build.samples import IMAGE
from tests.operator.database.test_reconcile import at, ready, settle, start
from tests.operator.world import World, condition, world_of

pytestmark = pytest.mark.timeout(120)

POD = {"metadata": {"labels": {"app": "mine"}}, "spec": {"containers": [{"name": "mine", "image": "mine:1"}]}}
OBJECTS: dict[tuple[Kind, str], dict[str, Any]] = {
    (SERVICE_ACCOUNTS, "orders"): {"automountServiceAccountToken": True},
    (CONFIG_MAPS, "orders-gc"): {"data": {"mine": "1"}},
    (DEPLOYMENTS, "orders-gc"): {"spec": {"selector": {"matchLabels": {"app": "mine"}}, "template": POD}},
    (SERVICES, "orders-admin"): {"spec": {"ports": [{"port": 80}], "selector": {"app": "mine"}}},
    (NETWORK_POLICIES, "orders-gc"): {"spec": {"podSelector": {"matchLabels": {"app": "mine"}}}},
    (SECRETS, "orders-ca"): {"data": {"tls.crt": "YQ==", "tls.key": "Yg=="}},
}


@pytest.fixture
async def world(kinds: ApiServer) -> AsyncIterator[World]:
    async with world_of(kinds) as made:
        settings = Settings(image=IMAGE, namespace="operators")
        made.answer_for(DATABASES, DatabaseReconciler(made.cluster, made.databases, made.clock, settings))
        yield made


async def put(world: World, kind: Kind, name: str, rest: dict[str, Any], **metadata: Any) -> Body:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **metadata}, **rest}
    return await world.requests.create(Place(kind, world.namespace), body)


@pytest.mark.parametrize(("kind", "name"), OBJECTS, ids=lambda each: getattr(each, "kind", ""))
async def test_what_a_user_has_under_our_name_stays_his(world: World, kind: Kind, name: str) -> None:
    his = await put(world, kind, name, OBJECTS[kind, name])
    await world.make(DATABASES, "orders", at("orders", deletionPolicy="Destroy", networkPolicies={"enabled": True}))
    for _ in range(3):
        body = await world.look(DATABASES, "orders")
    assert await world.get(kind, name) == his
    told = condition(body, names.READY)
    assert told["reason"] == "NameTaken"
    assert condition(body, names.STALLED)["reason"] == "NameTaken"
    assert f"there is a {kind.kind} {name} already that is not of this SlateDatabase" in told["message"]
    assert "Rename or delete it, or give this SlateDatabase another name" in told["message"]
    assert f"label it {names.LABEL_DATABASE}=orders" in told["message"]
    if kind in (SERVICE_ACCOUNTS, CONFIG_MAPS):
        assert await world.get(DEPLOYMENTS, "orders-gc") is None, "its pods would run with what is somebody else's"

    await world.edit(DATABASES, "orders", {"spec": {"deletionPolicy": "Retain"}})
    await world.delete(DATABASES, "orders")
    for _ in range(5):
        body = await world.look(DATABASES, "orders")
    assert body is None, "it is held by what is in its way"
    assert await world.get(kind, name) == his


async def test_what_moves_away_makes_room(world: World) -> None:
    await put(world, SERVICES, "orders", OBJECTS[SERVICES, "orders-admin"])
    await world.make(DATABASES, "orders", at("orders"))
    body = await settle(world, "orders", lambda body: condition(body, names.READY)["reason"] == "NameTaken")
    assert body is not None
    assert set(body["status"]["endpoints"]) == {"admin"}, "behind that Service is something of the user's"
    await world.delete(SERVICES, "orders")
    await settle(world, "orders", lambda body: condition(body, names.OWNED).get("status") == "True")
    await world.databases.write("orders", a="1")
    body = await settle(world, "orders", ready)
    assert body is not None
    assert set(body["status"]["endpoints"]) == {"admin", "writer"}


async def test_what_is_labelled_as_ours_is_taken_over(world: World) -> None:
    label = {names.LABEL_DATABASE: "orders"}
    await put(world, SERVICE_ACCOUNTS, "orders", OBJECTS[SERVICE_ACCOUNTS, "orders"], labels=label)
    body = await start(world, "orders", at("orders"))
    account = await world.get(SERVICE_ACCOUNTS, "orders")
    assert account is not None
    assert account["metadata"]["ownerReferences"][0]["uid"] == body["metadata"]["uid"]
    assert account["automountServiceAccountToken"] is False


async def test_two_databases_do_not_fight_for_a_name(world: World) -> None:
    """The Service of the one is called like the one's admin Service: who has it keeps it."""
    await start(world, "a", at("a"))
    his = await world.get(SERVICES, "a-admin")
    await world.make(DATABASES, "a-admin", at("b"))
    body = await settle(world, "a-admin", lambda body: condition(body, names.READY)["reason"] == "NameTaken")
    assert "but of SlateDatabase a," in condition(body, names.READY)["message"]
    assert await world.get(SERVICES, "a-admin") == his
    assert ready(await settle(world, "a", ready))


HELD = "example.com/load-balancer"
LEFTOVERS = ((SERVICES, "orders-admin"), (CONFIG_MAPS, "orders-gc"), (SECRETS, "orders-ca"))


async def leave(world: World, kind: Kind, name: str) -> None:
    """What a database of the same name has left, and that somebody's finalizer still holds."""
    former = {
        "apiVersion": DATABASES.api_version,
        "kind": DATABASES.kind,
        "name": "orders",
        "uid": "00000000-0000-4000-8000-000000000000",
        "controller": True,
    }
    await put(world, kind, name, OBJECTS[kind, name], ownerReferences=[former], finalizers=[HELD])
    await world.delete(kind, name)


@pytest.mark.parametrize(("kind", "name"), LEFTOVERS, ids=lambda each: getattr(each, "kind", ""))
async def test_what_a_database_of_the_same_name_left_is_waited_for_and_told(
    world: World, kind: Kind, name: str
) -> None:
    await leave(world, kind, name)
    await world.make(DATABASES, "orders", at("orders"))
    for _ in range(3):
        body = await world.look(DATABASES, "orders")
    told = condition(body, names.READY)
    assert told["reason"] == "LeftBehind"
    assert f"{kind.kind} {name}" in told["message"]
    assert HELD in told["message"], "who is waited for"
    assert condition(body, names.RECONCILING)["reason"] == "LeftBehind"
    assert condition(body, names.STALLED) == {}, "it goes by itself"
    (due,) = world.controllers[DATABASES]._queue._due.values()
    assert due - world.clock.monotonic() < 6.0
    if kind == SERVICES:
        assert await world.get(DEPLOYMENTS, "orders-gc") is not None, "its pods do not need it"
        assert await world.get(SERVICE_ACCOUNTS, "orders") is not None
        await settle(world, "orders", lambda body: condition(body, names.OWNED).get("status") == "True")
        assert await world.get(SERVICES, "orders") is not None, "what comes after it was not made"
    else:
        assert await world.get(DEPLOYMENTS, "orders-gc") is None
    await world.edit(kind, name, {"metadata": {"finalizers": None}})
    await settle(world, "orders", lambda body: condition(body, names.OWNED).get("status") == "True")
    await world.databases.write("orders", a="1")
    await settle(world, "orders", ready)


async def test_what_is_taken_is_told_before_what_goes_by_itself(world: World) -> None:
    await leave(world, CONFIG_MAPS, "orders-gc")
    await put(world, SERVICES, "orders-admin", OBJECTS[SERVICES, "orders-admin"])
    await world.make(DATABASES, "orders", at("orders"))
    body = await world.look(DATABASES, "orders")
    assert condition(body, names.READY)["reason"] == "NameTaken"
    assert condition(body, names.STALLED)["reason"] == "NameTaken"
