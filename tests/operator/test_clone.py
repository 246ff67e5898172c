"""Clones on the real API server: what they make, where, and what is told of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from slate_operator.admin.database import OperationFacts
from slate_operator.api.database import SlateDatabase
from slate_operator.kube.cluster import CHECKPOINTS, CLONES, DATABASES, Body, Kind
from slate_operator.names import ATTACHED, LABEL_CLONE, READY, STALLED
from slate_operator.reconcile.clone import CloneReconciler
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.world import World, condition, world_of

SOURCE = {
    "store": {"url": "s3://shop/prod/orders", "secretRef": {"name": "keys"}, "options": {"region": "eu"}},
    "writer": {"settings": {"flush_interval": "50ms"}},
    "readers": {"replicas": 3},
    "deletionPolicy": "Destroy",
    "deletionProtection": True,
}


@pytest.fixture
async def world(kinds: ApiServer) -> AsyncIterator[World]:
    async with world_of(kinds) as made:
        made.answer_for(CLONES, CloneReconciler(made.cluster, made.databases, made.clock))
        await made.make(DATABASES, "orders", SOURCE)
        yield made


def ready(status: str = "True", reason: str = "Ready", message: str = "") -> Body:
    return {
        "type": READY,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


async def test_a_clone_makes_a_database_like_its_source(world: World) -> None:
    template = {"metadata": {"labels": {"tier": "test"}}, "spec": {"compactor": {"enabled": False}}}
    await world.make(CLONES, "staging", {"source": {"databaseRef": {"name": "orders"}}, "template": template})
    seen = await world.look(CLONES, "staging")
    assert condition(seen, READY)["status"] == "False"
    made = await world.get(DATABASES, "staging")
    assert made is not None
    spec = made["spec"]
    assert spec["store"]["url"] == "s3://shop/prod/staging"
    assert spec["store"]["secretRef"] == {"name": "keys"}
    assert spec["writer"]["settings"] == {"flush_interval": "50ms"}
    assert spec["compactor"]["enabled"] is False
    assert spec["bootstrap"] == {"clone": {"databaseRef": {"name": "orders"}}}
    assert spec["readers"]["replicas"] == 0
    assert spec["deletionPolicy"] == "Retain"
    assert spec["deletionProtection"] is False
    assert made["metadata"]["labels"] == {"tier": "test", LABEL_CLONE: "staging"}
    assert "ownerReferences" not in made["metadata"], "it outlives the Clone"

    broken = ready("False", "ImagePullBackOff", "no such image")
    await world.set_status(DATABASES, "staging", {"conditions": [broken]})
    assert "no such image" in condition(await world.look(CLONES, "staging"), READY)["message"]


async def test_the_writers_service_is_of_one_database(world: World) -> None:
    """A name in a DNS that its annotations ask for would lead to both."""
    shape = {"type": "LoadBalancer", "annotations": {"external-dns.alpha.kubernetes.io/hostname": "orders.example"}}
    await world.make(DATABASES, "public", {"store": {"url": "s3://shop/public"}, "writer": {"service": shape}})
    await world.make(CLONES, "copy", {"source": {"databaseRef": {"name": "public"}}})
    await world.look(CLONES, "copy")
    made = await world.get(DATABASES, "copy")
    assert made is not None
    assert made["spec"]["writer"]["service"] == {"type": "ClusterIP"}


@pytest.mark.parametrize(
    "spec",
    [
        {"source": {"databaseRef": {"name": "other"}}},
        {"source": {"checkpointRef": {"name": "nightly"}}},
        {"source": {"databaseRef": {"name": "orders"}}, "target": {"path": "prod/elsewhere"}},
    ],
)
async def test_what_another_clone_of_this_name_has_made_is_not_its_own(world: World, spec: Body) -> None:
    await world.make(DATABASES, "other", {"store": {"url": "s3://shop/prod/other"}})
    await world.make(CHECKPOINTS, "nightly", {"databaseRef": {"name": "orders"}})
    same = {"source": {"databaseRef": {"name": "orders"}}}
    await world.make(CLONES, "staging", same)
    await world.look(CLONES, "staging")
    await world.set_status(DATABASES, "staging", {"conditions": [ready()]})
    await world.delete(CLONES, "staging")
    await world.make(CLONES, "staging", spec)
    wrong = await world.look(CLONES, "staging")
    assert condition(wrong, READY)["reason"] == "NameTaken"
    assert condition(wrong, STALLED)["status"] == "True"
    await world.delete(CLONES, "staging")
    await world.make(CLONES, "staging", same)
    assert condition(await world.look(CLONES, "staging"), READY)["status"] == "True", "the same again is"


async def test_what_is_shared_is_followed(world: World) -> None:
    await world.databases.write("prod/orders", a="1", b="2")
    source = SlateDatabase.of(await world.get(DATABASES, "orders"))
    await world.make(CLONES, "staging", {"source": {"databaseRef": {"name": "orders"}}})
    made = await world.look(CLONES, "staging")
    assert made is not None
    work = {"kind": "clone", "target": "prod/staging"}
    await _finish(world, source, made["metadata"]["uid"], work)
    await world.set_status(DATABASES, "staging", {"conditions": [ready()], "manifestId": 1})
    seen = await world.look(CLONES, "staging")
    assert condition(seen, READY)["status"] == "True"
    assert condition(seen, ATTACHED)["status"] == "True"
    assert seen is not None
    assert seen["status"]["attached"] is True
    assert seen["status"]["sharedBytes"] > 0
    assert seen["status"]["sourceDatabase"] == "orders"
    pins = {each.id for each in (await world.databases.admin(source).status()).checkpoints}
    assert seen["status"]["parentCheckpointId"] in pins
    await world.delete(CLONES, "staging")
    assert await world.look(CLONES, "staging") is None
    assert await world.get(DATABASES, "staging") is not None


async def test_a_repeated_request_of_the_operator_finds_its_clone(world: World) -> None:
    """It asks under the uid of the new database, and the collector of the source may have lost what it knew of that."""
    await world.databases.write("prod/orders", a="1", b="2")
    source = SlateDatabase.of(await world.get(DATABASES, "orders"))
    work, uid = {"kind": "clone", "target": "prod/staging"}, str(uuid4())
    made = await _finish(world, source, uid, work)
    await world.databases.write("prod/orders", a="3")
    await world.databases.forget("prod/orders", uid)
    again = await _finish(world, source, uid, work)
    assert (again.state, again.result) == ("succeeded", made.result)
    other = await _ended(world, source, str(uuid4()), work)
    assert other.state == "failed", "a new object would begin with the state of an older one"


async def _finish(world: World, database: SlateDatabase, id: str, work: Body) -> OperationFacts:
    found = await _ended(world, database, id, work)
    assert found.state == "succeeded", found
    return found


async def _ended(world: World, database: SlateDatabase, id: str, work: Body) -> OperationFacts:
    admin = world.databases.admin(database)
    found = await admin.put_operation(id, work)
    for _ in range(2400):
        if found.state != "running":
            return found
        await world.clock.sleep(0.05)
        found = await admin.operation(id) or found
    raise AssertionError(f"{found} did not end")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"source": {"databaseRef": {"name": "nowhere"}}}, "SourceMissing"),
        ({"source": {"checkpointRef": {"name": "nowhere"}}}, "SourceMissing"),
        ({"source": {"databaseRef": {"name": "orders"}}, "databaseName": "orders"}, "NameTaken"),
        ({"source": {"databaseRef": {"name": "orders"}}, "target": {"url": "s3://other/place"}}, "TargetElsewhere"),
        ({"source": {"databaseRef": {"name": "orders"}}, "target": {"path": "prod/orders"}}, "TargetTaken"),
        (
            {"source": {"databaseRef": {"name": "orders"}}, "template": {"spec": {"deleteGrace": "soon"}}},
            "TemplateRefused",
        ),
    ],
)
async def test_what_cannot_be_is_told(world: World, spec: Body, reason: str) -> None:
    await world.make(CLONES, "staging", spec)
    seen = await world.look(CLONES, "staging")
    assert condition(seen, READY)["reason"] == reason
    assert condition(seen, STALLED)["status"] == "True"
    assert reason in await world.events()
    assert await world.get(DATABASES, "staging") is None


async def test_places(world: World) -> None:
    await world.make(CHECKPOINTS, "nightly", {"databaseRef": {"name": "orders"}})
    source = {"checkpointRef": {"name": "nightly"}}
    for name, target in (("one", {"path": "tests/one"}), ("two", {"url": "s3://shop/tests/two"})):
        await world.make(CLONES, name, {"source": source, "target": target})
        await world.look(CLONES, name)
        made = await world.get(DATABASES, name)
        assert made is not None
        assert made["spec"]["store"]["url"] == f"s3://shop/tests/{name}"
        assert made["spec"]["bootstrap"] == {"clone": source}


async def test_a_database_that_somebody_makes_at_the_same_moment_is_not_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.make(CLONES, "staging", {"source": {"databaseRef": {"name": "orders"}}})
    create = world.cluster.create

    async def too_late(kind: Kind, body: Body) -> bool:
        await world.make(DATABASES, "staging", {"store": {"url": "s3://shop/mine"}})
        return await create(kind, body)

    monkeypatch.setattr(world.cluster, "create", too_late)
    seen = await world.look(CLONES, "staging")
    assert seen is not None
    assert "databaseRef" not in seen.get("status", {}), "it took what is somebody else's for its own"
    monkeypatch.undo()
    assert condition(await world.look(CLONES, "staging"), READY)["reason"] == "NameTaken"


async def test_a_database_that_was_deleted_is_not_made_again(world: World) -> None:
    await world.make(CLONES, "staging", {"source": {"databaseRef": {"name": "orders"}}})
    await world.look(CLONES, "staging")
    await world.delete(DATABASES, "staging")
    assert condition(await world.look(CLONES, "staging"), READY)["reason"] == "DatabaseDeleted"
    assert await world.get(DATABASES, "staging") is None


async def test_another_database_of_its_name_is_not_the_clone(world: World) -> None:
    await world.make(CLONES, "copy", {"source": {"databaseRef": {"name": "orders"}}})
    await world.look(CLONES, "copy")
    await world.delete(DATABASES, "copy")
    await world.make(DATABASES, "copy", {"store": {"url": "s3://shop/elsewhere"}})
    seen = await world.look(CLONES, "copy")
    assert condition(seen, READY)["reason"] == condition(seen, STALLED)["reason"] == "DatabaseDeleted"
    assert seen is not None
    assert seen["status"]["url"] == "s3://shop/prod/copy"
    # Made again in its place, as `kubectl slate undelete` does, it is the clone again.
    await world.delete(DATABASES, "copy")
    await world.make(DATABASES, "copy", {"store": {"url": "s3://shop/prod/copy"}, "bootstrap": {"adopt": {}}})
    assert condition(await world.look(CLONES, "copy"), READY)["reason"] != "DatabaseDeleted"
