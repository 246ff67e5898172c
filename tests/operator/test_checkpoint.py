"""Checkpoints on the real API server, over the real admin API."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from slate_operator.admin.client import Address
from slate_operator.api.database import SlateDatabase
from slate_operator.build.naming import Family
from slate_operator.kube.cluster import CHECKPOINTS, CLONES, DATABASES, Body
from slate_operator.kube.requests import JSON_PATCH, Place
from slate_operator.names import DELETION_BLOCKED, FINALIZER_CHECKPOINT, READY, STALLED
from slate_operator.reconcile.checkpoint import CheckpointReconciler
from slate_operator.reconcile.clone import CloneReconciler
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.world import World, condition, world_of

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def world(kinds: ApiServer) -> AsyncIterator[World]:
    async with world_of(kinds) as made:
        made.answer_for(CHECKPOINTS, CheckpointReconciler(made.cluster, made.databases, made.clock))
        made.answer_for(CLONES, CloneReconciler(made.cluster, made.databases, made.clock))
        await made.databases.write("orders", a="1")
        await made.make(DATABASES, "orders", {"store": {"url": "s3://shop/orders"}})
        yield made


def of(database: str = "orders", **spec: object) -> Body:
    return {"databaseRef": {"name": database}, **spec}


async def in_the_database(world: World) -> dict[str, int | None]:
    database = await world.get(DATABASES, "orders")
    facts = await world.databases.admin(SlateDatabase.of(database)).status()
    return {each.id: each.expires_at_s for each in facts.checkpoints}


async def test_the_life_of_a_checkpoint(world: World) -> None:
    made = await world.make(CHECKPOINTS, "before", of(lifetime="1h"))
    uid = made["metadata"]["uid"]
    seen = await world.look(CHECKPOINTS, "before")
    assert condition(seen, READY)["status"] == "True"
    assert seen is not None
    assert seen["status"]["id"] == uid
    assert seen["status"]["expiresAt"] > seen["status"]["createdAt"]
    assert seen["status"]["observedGeneration"] == seen["metadata"]["generation"]
    assert seen["metadata"]["finalizers"] == [FINALIZER_CHECKPOINT]
    assert list(await in_the_database(world)) == [uid]
    again = await world.look(CHECKPOINTS, "before")
    assert again is not None
    assert again["metadata"]["resourceVersion"] == seen["metadata"]["resourceVersion"], "nothing new, nothing written"

    await world.edit(CHECKPOINTS, "before", {"spec": {"lifetime": "2h"}})
    longer = await world.look(CHECKPOINTS, "before")
    assert longer is not None
    assert longer["status"]["expiresAt"] > seen["status"]["expiresAt"]
    assert "Refreshed" in await world.events()
    await world.edit(CHECKPOINTS, "before", {"spec": {"lifetime": None}})
    for_ever = await world.look(CHECKPOINTS, "before")
    assert for_ever is not None
    assert "expiresAt" not in for_ever["status"]
    assert await in_the_database(world) == {uid: None}

    await world.delete(CHECKPOINTS, "before")
    assert await world.look(CHECKPOINTS, "before") is None
    assert await in_the_database(world) == {}


async def test_one_that_was_made_but_not_written_down_is_made_once(world: World) -> None:
    made = await world.make(CHECKPOINTS, "one", of(lifetime="1h"))
    await world.look(CHECKPOINTS, "one")
    before = await in_the_database(world)
    status = Place(CHECKPOINTS, world.namespace, "one", "status")
    # As if the operator had been killed before it could write the status.
    await world.requests.patch(status, JSON_PATCH, [{"op": "remove", "path": "/status"}])
    await world.edit(CHECKPOINTS, "one", {"spec": {"lifetime": "3h"}})
    await world.look(CHECKPOINTS, "one")
    after = await in_the_database(world)
    uid = made["metadata"]["uid"]
    assert list(after) == list(before) == [uid]
    assert (after[uid] or 0) - (before[uid] or 0) > 7000, "the change that was made meanwhile is not lost"


async def test_an_expired_one_is_not_made_again(world: World) -> None:
    await world.make(CHECKPOINTS, "short", of(lifetime="1h"))
    await world.look(CHECKPOINTS, "short")
    world.clock.ahead = 3700.0
    ended = await world.look(CHECKPOINTS, "short")
    assert condition(ended, READY)["reason"] == "Expired"
    assert condition(ended, STALLED)["status"] == "True"
    await world.edit(CHECKPOINTS, "short", {"spec": {"lifetime": "4h"}})
    still = await world.look(CHECKPOINTS, "short")
    assert condition(still, READY)["reason"] == "Expired"


async def test_one_that_somebody_deleted_is_not_made_again(world: World) -> None:
    made = await world.make(CHECKPOINTS, "kept", of())
    seen = await world.look(CHECKPOINTS, "kept")
    database = await world.get(DATABASES, "orders")
    await world.databases.admin(SlateDatabase.of(database)).delete_checkpoint(made["metadata"]["uid"])
    lost = await world.look(CHECKPOINTS, "kept")
    assert condition(lost, READY)["reason"] == "Lost"
    assert await in_the_database(world) == {}
    assert seen is not None
    assert lost is not None
    assert lost["status"]["createdAt"] == seen["status"]["createdAt"]


async def test_one_that_was_there_is_adopted_as_it_is(world: World) -> None:
    await world.make(CHECKPOINTS, "made", of(lifetime="1h", deletionPolicy="Retain"))
    seen = await world.look(CHECKPOINTS, "made")
    assert seen is not None
    id, expires = seen["status"]["id"], seen["status"]["expiresAt"]
    await world.delete(CHECKPOINTS, "made")
    assert await world.look(CHECKPOINTS, "made") is None
    assert list(await in_the_database(world)) == [id], "Retain keeps it"

    await world.make(CHECKPOINTS, "view", of(source={"id": id}))
    view = await world.look(CHECKPOINTS, "view")
    assert view is not None
    assert view["status"]["id"] == id
    assert view["status"]["expiresAt"] == expires
    await world.edit(CHECKPOINTS, "view", {"spec": {"lifetime": "5h"}})
    longer = await world.look(CHECKPOINTS, "view")
    assert longer is not None
    assert longer["status"]["expiresAt"] > expires
    await world.make(CHECKPOINTS, "wrong", of(source={"id": "00000000-0000-4000-8000-000000000000"}))
    assert condition(await world.look(CHECKPOINTS, "wrong"), READY)["reason"] == "NoSuchCheckpoint"


@pytest.mark.parametrize("holder", ["clone prod/staging", "bulk read lake"])
async def test_what_a_clone_or_a_read_holds_is_not_adopted_and_not_deleted(world: World, holder: str) -> None:
    """The bytes that a clone shares would be garbage of its source."""
    id = "0b0c7dc0-6d2a-4e27-9d5b-2f3c1d0a9e11"
    admin = world.databases.admin(SlateDatabase.of(await world.get(DATABASES, "orders")))
    await admin.put_checkpoint(id, lifetime_s=None, name=holder, source=None)
    await world.make(CHECKPOINTS, "view", of(source={"id": id}, lifetime="1h"))
    seen = await world.look(CHECKPOINTS, "view")
    assert condition(seen, READY)["reason"] == condition(seen, STALLED)["reason"] == "HeldByAnother"
    assert holder in condition(seen, READY)["message"]
    assert await in_the_database(world) == {id: None}
    await world.delete(CHECKPOINTS, "view")
    assert await world.look(CHECKPOINTS, "view") is None
    assert list(await in_the_database(world)) == [id]
    assert "Released" in await world.events()


@pytest.mark.parametrize("adopted", [False, True])
async def test_a_checkpoint_has_one_object(world: World, adopted: bool) -> None:
    """A second view of it would change how long it lives, and delete it under the first."""
    made = await world.make(CHECKPOINTS, "first", of(deletionPolicy="Retain"))
    id = made["metadata"]["uid"]
    await world.look(CHECKPOINTS, "first")
    if adopted:
        await world.delete(CHECKPOINTS, "first")
        await world.look(CHECKPOINTS, "first")
        await world.make(CHECKPOINTS, "first", of(source={"id": id}))
    assert condition(await world.look(CHECKPOINTS, "first"), READY)["status"] == "True"
    await world.make(CHECKPOINTS, "second", of(source={"id": id}, lifetime="1h"))
    seen = await world.look(CHECKPOINTS, "second")
    assert await in_the_database(world) == {id: None}, "the second shortened the life of the first one's"
    assert condition(seen, READY)["reason"] == condition(seen, STALLED)["reason"] == "HeldByAnother"
    assert "Checkpoint first" in condition(seen, READY)["message"]
    await world.delete(CHECKPOINTS, "second")
    assert await world.look(CHECKPOINTS, "second") is None
    assert await in_the_database(world) == {id: None}, "the second deleted the first one's"
    assert condition(await world.look(CHECKPOINTS, "first"), READY)["status"] == "True"


async def test_the_second_object_has_it_when_the_first_is_gone(world: World) -> None:
    made = await world.make(CHECKPOINTS, "first", of())
    id = made["metadata"]["uid"]
    await world.look(CHECKPOINTS, "first")
    await world.make(CHECKPOINTS, "second", of(source={"id": id}))
    await world.look(CHECKPOINTS, "second")
    await world.delete(CHECKPOINTS, "first")
    assert await world.look(CHECKPOINTS, "first") is None
    assert await in_the_database(world) == {id: None}
    assert condition(await world.look(CHECKPOINTS, "second"), READY)["status"] == "True"
    await world.delete(CHECKPOINTS, "second")
    assert await world.look(CHECKPOINTS, "second") is None
    assert await in_the_database(world) == {}


async def test_the_state_of_another_checkpoint(world: World) -> None:
    await world.make(CHECKPOINTS, "second", of(source={"checkpointRef": {"name": "first"}}))
    assert condition(await world.look(CHECKPOINTS, "second"), READY)["reason"] == "SourceMissing"
    await world.make(CHECKPOINTS, "first", of())
    assert condition(await world.look(CHECKPOINTS, "second"), READY)["reason"] == "SourceNotReady"
    first = await world.look(CHECKPOINTS, "first")
    await world.databases.write("orders", b="2")
    second = await world.look(CHECKPOINTS, "second")
    assert first is not None
    assert second is not None
    assert second["status"]["manifestId"] == first["status"]["manifestId"]


async def test_what_needs_it_holds_it(world: World) -> None:
    await world.make(CHECKPOINTS, "base", of())
    await world.look(CHECKPOINTS, "base")
    await world.make(CLONES, "copy", {"source": {"checkpointRef": {"name": "base"}}})
    used = await world.look(CHECKPOINTS, "base")
    assert used is not None
    assert used["status"]["usedBy"] == ["Clone/copy"]
    await world.look(CLONES, "copy")
    used = await world.look(CHECKPOINTS, "base")
    assert used is not None
    assert used["status"]["usedBy"] == ["Clone/copy", "SlateDatabase/copy"]
    await world.delete(CHECKPOINTS, "base")
    held = await world.look(CHECKPOINTS, "base")
    assert condition(held, DELETION_BLOCKED)["reason"] == "InUse"
    assert "Clone/copy" in condition(held, DELETION_BLOCKED)["message"]
    assert len(await in_the_database(world)) == 1
    # It has begun, and holds its own checkpoint in its parent. Whether it is ever ready is another matter.
    await world.set_status(DATABASES, "copy", {"manifestId": 1})
    assert await world.look(CHECKPOINTS, "base") is None
    assert await in_the_database(world) == {}


@pytest.mark.parametrize("end", ["stalled", "deleted", "refused", "failed"])
async def test_what_will_never_need_it_does_not_hold_it(world: World, end: str) -> None:
    await world.make(CHECKPOINTS, "base", of())
    await world.look(CHECKPOINTS, "base")
    # At the place of its source, which is refused.
    target = {"target": {"path": "orders"}} if end == "refused" else {}
    await world.make(CLONES, "copy", {"source": {"checkpointRef": {"name": "base"}}, **target})
    await world.look(CLONES, "copy")
    if end == "deleted":
        await world.delete(DATABASES, "copy")
    elif end != "refused":
        stuck = {"status": "True", "reason": "CloneFailed", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await world.set_status(DATABASES, "copy", {"conditions": [{"type": STALLED, **stuck}]})
    if end == "stalled":
        await world.look(CLONES, "copy")  # and its Clone has heard of it
    await world.delete(CHECKPOINTS, "base")
    assert await world.look(CHECKPOINTS, "base") is None


async def test_what_they_pin_is_measured_once_for_all_and_not_often(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    ask = world.databases.ask

    async def noting(family: Family, address: Address, method: str, path: str, body: Body | None = None) -> object:
        asked.extend([path] if "explain" in path else [])
        return await ask(family, address, method, path, body)

    monkeypatch.setattr(world.databases, "ask", noting)
    for name in ("one", "two", "three"):
        await world.make(CHECKPOINTS, name, of())
        await world.look(CHECKPOINTS, name)
    assert asked == ["/v1/explain?limit=0&clones=false"]
    first = await world.get(CHECKPOINTS, "one")
    assert first is not None
    assert first["status"]["pinnedBytes"] >= 0
    world.clock.ahead += 700
    for name in ("one", "two", "three"):
        seen = await world.look(CHECKPOINTS, name)
        assert seen is not None
        assert seen["status"]["pinnedBytes"] >= 0
    assert len(asked) == 2


async def test_what_is_in_the_way_is_told(world: World) -> None:
    await world.make(CHECKPOINTS, "lonely", of("nowhere"))
    lonely = await world.look(CHECKPOINTS, "lonely")
    assert condition(lonely, READY)["reason"] == "DatabaseMissing"
    assert condition(lonely, STALLED)["status"] == "True"
    await world.delete(CHECKPOINTS, "lonely")
    assert await world.look(CHECKPOINTS, "lonely") is None, "nothing was made, and nobody is there to ask"

    await world.make(CHECKPOINTS, "full", of(scope={"all": {}}))
    assert "no writer" in condition(await world.look(CHECKPOINTS, "full"), READY)["message"]

    await world.make(CHECKPOINTS, "deaf", of())
    await world.look(CHECKPOINTS, "deaf")
    world.databases.down.add("orders")
    assert condition(await world.look(CHECKPOINTS, "deaf"), READY)["reason"] == "DatabaseUnreachable"
    await world.delete(CHECKPOINTS, "deaf")
    held = await world.look(CHECKPOINTS, "deaf")
    assert condition(held, DELETION_BLOCKED)["reason"] == "DatabaseUnreachable"
    assert "Retain" in condition(held, DELETION_BLOCKED)["message"]
    await world.edit(CHECKPOINTS, "deaf", {"spec": {"deletionPolicy": "Retain"}})
    assert await world.look(CHECKPOINTS, "deaf") is None


async def test_a_namespace_that_goes_is_not_held_up(world: World, kinds: ApiServer) -> None:
    """Nothing can be written into it any more, not even an event; and the database's pod is gone."""
    await world.make(CHECKPOINTS, "kept", of())
    await world.look(CHECKPOINTS, "kept")
    kinds.kubectl("delete", "namespace", world.namespace, "--wait=false")
    world.databases.down.add("orders")
    await world.delete(CHECKPOINTS, "kept")
    assert await world.look(CHECKPOINTS, "kept") is None
