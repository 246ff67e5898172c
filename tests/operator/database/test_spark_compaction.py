"""Large compactions as Spark jobs: on the real API server, over the real admin API, with a real book of compactions."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import yaml

from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.object_store import ObjectStore as ApiStore
from slate_engine.api.options import FlushOptions, FlushType
from slate_engine.lsm.compaction.commit import take_epoch
from slate_engine.lsm.compaction.coordinator import UNLIMITED, Coordinator
from slate_engine.lsm.compaction.options import CompactorOptions
from slate_engine.lsm.compaction.plan import Major
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.state.stores import CompactionsStore
from slate_engine.store.open import open_store
from slate_operator import names
from slate_operator.api.database import SlateDatabase
from slate_operator.build.config import config_of
from slate_operator.kube.cluster import CONFIG_MAPS, DATABASES, JOBS, PODS
from slate_operator.names import Role
from slate_operator.reconcile.database import DatabaseReconciler
from slate_operator.settings import Settings
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.build.samples import IMAGE
from tests.operator.database.test_reconcile import at, let_pods_run, settle, start
from tests.operator.test_bulk_read import container_of, driver
from tests.operator.world import World, condition, world_of

SPARK = {"launcher": "Submit", "largerThan": "1", "leaveFor": "5m"}
FAMILY = "orders-spark"


@pytest.fixture
async def world(kinds: ApiServer) -> AsyncIterator[World]:
    async with world_of(kinds) as made:
        settings = Settings(image=IMAGE, namespace="operators", spark_image="spark:1", spark_role="ClusterRole/driver")
        made.answer_for(DATABASES, DatabaseReconciler(made.cluster, made.databases, made.clock, settings))
        yield made


async def plan_a_large_job(world: World) -> None:
    """As the compactor's pod would, which leaves it to others."""
    store, runtime = open_store(world.databases.store), SystemRuntime()
    for number in range(2):
        db = await DbBuilder("orders", ApiStore.of(store, runtime)).build()
        await db.put(b"a", bytes([number]) * 100)
        await db.flush_with_options(FlushOptions(flush_type=FlushType.MEM_TABLE))
        await db.shutdown()
    files = DatabaseFiles(store, "orders", runtime)
    book = CompactionsStore.open(files.store, files.paths.root, files.runtime)
    options = CompactorOptions(policy=Major(rewrite=True), worker=None)
    await Coordinator(files, book, await take_epoch(files, book), options).turn(limit=UNLIMITED)


async def look(world: World) -> dict[str, object]:
    await let_pods_run(world)
    body = await world.look(DATABASES, "orders")
    assert body is not None
    return body


async def test_a_job_that_waits_is_done_by_spark(world: World) -> None:
    await start(world, "orders", at("orders", compactor={"spark": SPARK}))
    assert await world.get(JOBS, f"{FAMILY}-1") is None, "nothing waits"

    await plan_a_large_job(world)
    body = await look(world)
    assert condition(body, names.COMPACTING_ON_SPARK)["status"] == "True"
    assert condition(body, names.READY)["status"] == "True", "the database serves as before"
    job = await world.get(JOBS, f"{FAMILY}-1")
    assert job is not None
    assert job["spec"]["template"]["spec"]["containers"][0]["args"][-3:-1] == ["compact", "--config"]
    files = (await world.get(CONFIG_MAPS, f"{FAMILY}-1") or {})["data"]
    assert yaml.safe_load(files["job.yaml"]) == {"worker": True, "min-bytes": "2", "json": True}
    assert container_of(files["driver.yaml"])["image"] == "spark:1"

    await driver(world, f"{FAMILY}-1-driver", "Running")
    assert condition(await look(world), names.COMPACTING_ON_SPARK)["reason"] == "Running"
    assert await world.get(JOBS, f"{FAMILY}-2") is None, "one at a time"
    await driver(world, f"{FAMILY}-1-driver", "Failed", {"error": "no executor came up"})
    body = await look(world)
    assert "no executor came up" in condition(body, names.COMPACTING_ON_SPARK)["message"]
    assert condition(body, names.READY)["status"] == "True"
    assert "SparkCompactionFailed" in await world.events()
    await look(world)
    assert await world.get(JOBS, f"{FAMILY}-2") is None, "not at once"

    world.clock.ahead = 61
    await settle(world, "orders", lambda body: _run(body) == 2)
    assert await world.get(JOBS, f"{FAMILY}-2") is not None
    assert await world.get(PODS, f"{FAMILY}-1-driver") is None, "nothing piles up"
    await driver(world, f"{FAMILY}-2-driver", "Succeeded", {"rows": 1, "bytes": 2, "seconds": 3})
    body = await look(world)
    assert condition(body, names.COMPACTING_ON_SPARK) == {}
    assert "CompactedOnSpark" in await world.events()


def _run(body: object) -> int:
    assert isinstance(body, dict)
    return int(body["status"].get("sparkCompaction", {}).get("run", 0))


async def test_what_is_not_wanted_any_more_is_stopped(world: World) -> None:
    await start(world, "orders", at("orders", compactor={"spark": SPARK}))
    await plan_a_large_job(world)
    await look(world)
    await driver(world, f"{FAMILY}-1-driver", "Running")
    await world.edit(DATABASES, "orders", {"spec": {"compactor": {"spark": None}}})
    body = await look(world)
    assert await world.get(PODS, f"{FAMILY}-1-driver") is None
    assert "sparkCompaction" not in body["status"]  # type: ignore[operator]


async def test_the_last_run_goes_with_its_database(world: World) -> None:
    await start(world, "orders", at("orders", compactor={"spark": SPARK}))
    await plan_a_large_job(world)
    await look(world)
    await driver(world, f"{FAMILY}-1-driver", "Succeeded", {"rows": 1})
    assert "application" not in (await look(world))["status"]["sparkCompaction"]  # type: ignore[index]
    assert await world.get(PODS, f"{FAMILY}-1-driver") is not None, "who looks for its log finds it"
    await world.delete(DATABASES, "orders")
    await look(world)
    assert await world.get(PODS, f"{FAMILY}-1-driver") is None, (
        "the next database of this name would take it for its own"
    )
    assert await world.get(JOBS, f"{FAMILY}-1") is None


async def test_a_driver_of_a_database_that_is_gone_is_not_ours(world: World) -> None:
    """It was being started when the database was deleted, so that nobody saw it then."""
    await start(world, "orders", at("orders", compactor={"spark": SPARK}))
    await plan_a_large_job(world)
    body = await look(world)
    job, files = await world.get(JOBS, f"{FAMILY}-1"), await world.get(CONFIG_MAPS, f"{FAMILY}-1")
    assert job is not None
    assert files is not None
    template = yaml.safe_load(files["data"]["driver.yaml"])
    for labels in (template["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]):
        assert labels[names.LABEL_OWNER] == body["metadata"]["uid"]  # type: ignore[index]

    another = {"metadata": {"labels": {names.LABEL_OWNER: "00000000-0000-4000-8000-000000000000"}}}
    await driver(world, f"{FAMILY}-1-driver", "Succeeded", {"rows": 1})
    await world.edit(PODS, f"{FAMILY}-1-driver", another)
    await look(world)
    assert "CompactedOnSpark" not in await world.events(), "that is another database's run"
    ours = {"metadata": {"labels": {names.LABEL_OWNER: body["metadata"]["uid"]}}}  # type: ignore[index]
    await world.edit(PODS, f"{FAMILY}-1-driver", ours)
    await look(world)
    assert "CompactedOnSpark" in await world.events()

    await driver(world, f"{FAMILY}-2-driver", "Succeeded", {"rows": 1})
    await world.edit(PODS, f"{FAMILY}-2-driver", another)
    body = await settle(world, "orders", lambda body: condition(body, names.COMPACTING_ON_SPARK) != {})  # type: ignore[assignment]
    assert condition(body, names.COMPACTING_ON_SPARK)["reason"] == "LeftBehind"
    assert await world.get(PODS, f"{FAMILY}-2-driver") is None, "spark-submit could not make its own"
    body = await look(world)
    assert condition(body, names.COMPACTING_ON_SPARK)["reason"] == "Submitted"
    assert _run(body) == 2


async def test_a_name_that_is_taken_is_told_and_stops_nothing_else(world: World) -> None:
    containers = {"containers": [{"name": "mine", "image": "mine:1"}], "restartPolicy": "Never"}
    his = await world.make(JOBS, f"{FAMILY}-1", {"template": {"spec": containers}})
    await start(world, "orders", at("orders", compactor={"spark": SPARK}))
    await plan_a_large_job(world)
    body = await look(world)
    told = condition(body, names.COMPACTING_ON_SPARK)
    assert told["status"] == "False"
    assert f"there is a Job {FAMILY}-1 already" in told["message"]
    assert condition(body, names.READY)["status"] == "True"
    await world.edit(DATABASES, "orders", {"spec": {"compactor": {"spark": None}}})
    await look(world)
    assert await world.get(JOBS, f"{FAMILY}-1") == his


def test_the_compactor_leaves_large_jobs() -> None:
    spec = {"store": {"url": "s3://shop/orders"}, "compactor": {"spark": {"largerThan": "10Gi", "leaveFor": "15m"}}}
    database = SlateDatabase.of({"metadata": {"name": "orders", "namespace": "shop"}, "spec": spec})
    told = config_of(database, Role.COMPACTOR)["compactor"]
    assert told == {"max_job_bytes": 10 << 30, "leave_seconds": 900.0}
