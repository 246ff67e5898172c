"""Bulk reads on the real API server: what is held, what is started, what is told, and what is left."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from slate_operator.api.database import SlateDatabase
from slate_operator.kube.cluster import (
    BULK_READS,
    CHECKPOINTS,
    CONFIG_MAPS,
    DATABASES,
    JOBS,
    NETWORK_POLICIES,
    PODS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    SPARK_APPLICATIONS,
    Body,
    Kind,
)
from slate_operator.kube.requests import MERGE, Place
from slate_operator.names import LABEL_SPARK, READY, RECONCILING, STALLED
from slate_operator.reconcile.bulk_read import HELD_FOR, BulkReadReconciler
from slate_operator.reconcile.checkpoint import CheckpointReconciler
from slate_operator.settings import Settings
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.world import World, condition, world_of

DATABASE = {"store": {"url": "s3://shop/orders", "secretRef": {"name": "keys"}, "options": {"region": "eu"}}}
SINK = {"url": "s3://lake/orders", "secretRef": {"name": "lake"}, "storeOptions": {"endpoint": "http://s3:7070"}}
SUBMIT = {"spark": {"launcher": "Submit"}}
READ = {"databaseRef": {"name": "orders"}, "sink": SINK, **SUBMIT}
SETTINGS = Settings(spark_image="spark:1", spark_role="ClusterRole/slatekeeper-spark-driver")


@pytest.fixture
async def world(kinds: ApiServer) -> AsyncIterator[World]:
    async with world_of(kinds) as made:
        made.answer_for(BULK_READS, BulkReadReconciler(made.cluster, made.databases, made.clock, SETTINGS))
        made.answer_for(CHECKPOINTS, CheckpointReconciler(made.cluster, made.databases, made.clock))
        await made.make(DATABASES, "orders", DATABASE)
        await made.databases.write("orders", a="1", b="2")
        yield made


async def held(world: World) -> list[str]:
    """Ids of the checkpoints that the database has."""
    database = SlateDatabase.of(await world.get(DATABASES, "orders"))
    return [each.id for each in (await world.databases.admin(database).status()).checkpoints]


async def driver(world: World, name: str, phase: str, report: Any = None) -> None:
    """The driver's pod, as Spark and the kubelet would have it by now."""
    if await world.get(PODS, name) is None:
        container = {"name": "spark-kubernetes-driver", "image": "spark:1"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": world.namespace,
                "labels": {LABEL_SPARK: name.removesuffix("-driver")},
            },
            # No controller is here that would make the account.
            "spec": {
                "containers": [container],
                "serviceAccountName": name.removesuffix("-driver").rpartition("-")[0],
                "terminationGracePeriodSeconds": 0,
            },
        }
        await world.requests.create(Place(PODS, world.namespace), pod)
    status: Body = {"phase": phase}
    if phase in ("Succeeded", "Failed"):
        code = 0 if phase == "Succeeded" else 1
        ended = {
            "exitCode": code,
            "reason": "Error",
            "message": report if isinstance(report, str) else json.dumps(report),
        }
        container = {"name": "spark-kubernetes-driver", "image": "spark:1", "imageID": "", "ready": False}
        status["containerStatuses"] = [{**container, "restartCount": 0, "state": {"terminated": ended}}]
    await world.requests.patch(Place(PODS, world.namespace, name, "status"), MERGE, {"status": status})


async def test_a_read_from_its_start_to_its_end(world: World) -> None:
    made = await world.make(BULK_READS, "lake", {**READ, "keys": {"prefix": "order:"}, "columns": ["key"]})
    seen = await world.look(BULK_READS, "lake")
    assert seen is not None
    assert seen["status"]["state"] == "Submitted"
    assert condition(seen, RECONCILING)["status"] == "True"
    assert await held(world) == [made["metadata"]["uid"]], "the state is held before anything reads it"

    job = await world.get(JOBS, "lake-read-1")
    assert job is not None
    command = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert command[0] == "spark-submit"
    assert "spark.kubernetes.driver.pod.name=lake-read-1-driver" in command
    assert command[-4:] == ["local:///opt/slatekeeper/job.py", "export", "--config", "/etc/slate-job/job.yaml"]
    files = (await world.get(CONFIG_MAPS, "lake-read-1") or {})["data"]
    told = yaml.safe_load(files["job.yaml"])
    assert (told["to"], told["prefix"], told["columns"]) == ("s3://lake/orders", "order:", "key")
    assert told["to-option"] == {"endpoint": "http://s3:7070"}
    environment = {each["name"]: each.get("value") for each in container_of(files["driver.yaml"])["env"]}
    assert environment["SLATE_CHECKPOINT"] == made["metadata"]["uid"]
    assert (environment["SLATE_STORE"], environment["SLATE_PATH"]) == ("s3://shop", "orders")
    for file in ("driver.yaml", "executor.yaml"):
        assert container_of(files[file])["envFrom"] == [
            {"secretRef": {"name": "keys"}},
            {"prefix": "SLATE_SINK_", "secretRef": {"name": "lake"}},
        ]
    assert yaml.safe_load(files["executor.yaml"])["spec"]["automountServiceAccountToken"] is False
    bound = await world.get(ROLE_BINDINGS, "lake-read")
    assert bound is not None
    assert bound["roleRef"]["name"] == "slatekeeper-spark-driver"
    assert await world.get(SERVICE_ACCOUNTS, "lake-read") is not None
    policy = await world.get(NETWORK_POLICIES, "lake-read-1")
    assert policy is not None
    assert policy["spec"]["podSelector"]["matchLabels"] == {LABEL_SPARK: "lake-read-1"}

    await driver(world, "lake-read-1-driver", "Running")
    seen = await world.look(BULK_READS, "lake")
    assert seen is not None
    assert seen["status"]["state"] == "Running"
    before = seen["metadata"]["resourceVersion"]
    seen = await world.look(BULK_READS, "lake")
    assert seen is not None
    assert seen["metadata"]["resourceVersion"] == before, "nothing is written while nothing happens"

    await driver(world, "lake-read-1-driver", "Succeeded", {"job": "export", "rows": 2, "bytes": 4, "seconds": 7.5})
    seen = await world.look(BULK_READS, "lake")
    assert seen is not None
    assert (seen["status"]["state"], seen["status"]["rows"], seen["status"]["bytes"]) == ("Succeeded", 2, 4)
    assert condition(seen, READY)["status"] == "True"
    assert await held(world) == [], "the state is let go"
    assert {"Held", "Started", "Succeeded"} <= set(await world.events())

    await world.edit(BULK_READS, "lake", {"spec": {"ttl": "1h"}})
    assert await world.look(BULK_READS, "lake") is not None
    world.clock.ahead = 3700
    await world.look(BULK_READS, "lake")
    await gone(world, BULK_READS, "lake")
    assert await world.get(JOBS, "lake-read-1") is None or (await world.get(PODS, "lake-read-1-driver")) is None


async def gone(world: World, kind: Kind, name: str) -> None:
    """Looked at as often as it takes: a pod without a kubelet goes as soon as it is told to."""
    for _ in range(20):
        if await world.look(kind, name) is None:
            return
    raise AssertionError(f"{name} does not go")


def container_of(template: str) -> Body:
    found: Body = yaml.safe_load(template)["spec"]["containers"][0]
    return found


async def test_it_is_tried_again_and_then_given_up(world: World) -> None:
    await world.make(BULK_READS, "lake", {**READ, "retries": 1})
    await world.look(BULK_READS, "lake")
    await driver(world, "lake-read-1-driver", "Failed", {"error": "the bucket is not there; make it. token=swordfish"})
    seen = await world.look(BULK_READS, "lake")
    assert condition(seen, READY)["reason"] == "Retrying"
    assert "swordfish" not in condition(seen, READY)["message"]
    assert "the bucket is not there; make it" in condition(seen, READY)["message"]
    assert await world.get(JOBS, "lake-read-2") is None, "not before the pause is over"
    world.clock.ahead = 11
    seen = await world.look(BULK_READS, "lake")
    assert await world.get(JOBS, "lake-read-2") is not None
    assert len(await held(world)) == 1, "the same state is read again"

    await driver(world, "lake-read-2-driver", "Failed", "Traceback …\nMemoryError: password=swordfish\n")
    seen = await world.look(BULK_READS, "lake")
    assert seen is not None
    assert seen["status"]["state"] == "Failed"
    assert condition(seen, STALLED)["status"] == "True"
    assert "MemoryError" in condition(seen, READY)["message"]
    assert "swordfish" not in condition(seen, READY)["message"]
    assert "kubectl logs lake-read-2-driver" in condition(seen, READY)["message"]
    assert await held(world) == []
    world.clock.ahead = 5000
    await world.look(BULK_READS, "lake")
    assert await world.get(JOBS, "lake-read-3") is None


ICEBERG = {"url": "catalog.sales.orders", "format": "iceberg", "mode": "Append"}
SPARKS_OWN = {"url": "hdfs://lake/orders", "mode": "Append"}
DELTA = {"url": "s3a://lake/orders", "format": "delta", "mode": "Append"}


@pytest.mark.parametrize("sink", [ICEBERG, SPARKS_OWN], ids=["iceberg", "spark's own"])
async def test_what_a_second_attempt_could_write_twice_is_not_tried_again(world: World, sink: Body) -> None:
    """A driver may fail after its table was complete."""
    await world.make(BULK_READS, "lake", {**READ, "sink": sink})
    await world.look(BULK_READS, "lake")
    await driver(world, "lake-read-1-driver", "Failed", {"job": "export", "rows": 5000, "seconds": 25.0})
    seen = await world.look(BULK_READS, "lake")
    assert seen is not None
    assert seen["status"]["state"] == "Failed"
    assert "the work was done (5,000 rows in 25 s)" in condition(seen, READY)["message"]
    assert "It is not tried again: " in condition(seen, READY)["message"]
    assert "could write the rows twice" in condition(seen, STALLED)["message"]
    world.clock.ahead = 5000
    await world.look(BULK_READS, "lake")
    assert await world.get(JOBS, "lake-read-2") is None
    assert await held(world) == []


@pytest.mark.parametrize("sink", [{**SINK, "mode": "Append"}, DELTA, {**ICEBERG, "mode": "Overwrite"}])
async def test_what_a_second_attempt_replaces_or_skips_is_tried_again(world: World, sink: Body) -> None:
    await world.make(BULK_READS, "lake", {**READ, "sink": sink})
    await world.look(BULK_READS, "lake")
    await driver(world, "lake-read-1-driver", "Failed", {"error": "no"})
    assert condition(await world.look(BULK_READS, "lake"), READY)["reason"] == "Retrying"


@pytest.mark.parametrize(("sink", "again"), [(ICEBERG, False), (DELTA, True)], ids=["iceberg", "delta"])
async def test_an_attempt_that_vanished_is_started_again_only_if_that_does_no_harm(
    world: World, sink: Body, again: bool
) -> None:
    await world.make(BULK_READS, "lake", {**READ, "sink": sink})
    await world.look(BULK_READS, "lake")
    await world.delete(JOBS, "lake-read-1")
    seen = await world.look(BULK_READS, "lake")
    assert seen is not None
    assert (await world.get(JOBS, "lake-read-1") is not None) is again
    assert seen["status"]["state"] == ("Submitted" if again else "Failed")
    if not again:
        assert "Job lake-read-1 and its driver were deleted. It is not tried again" in condition(seen, READY)["message"]


async def test_an_end_that_belies_the_report_is_told(world: World) -> None:
    await world.make(BULK_READS, "lake", {**READ, "retries": 0})
    await world.look(BULK_READS, "lake")
    await driver(world, "lake-read-1-driver", "Failed", {"job": "export", "rows": 5000, "seconds": 25.0})
    seen = await world.look(BULK_READS, "lake")
    told = "the work was done (5,000 rows in 25 s), but then the driver ended with code 1 (Error); see `kubectl logs "
    assert condition(seen, READY)["message"] == f"{told}lake-read-1-driver`"


async def test_what_is_deleted_midway_is_stopped(world: World) -> None:
    await world.make(BULK_READS, "lake", READ)
    await world.look(BULK_READS, "lake")
    await driver(world, "lake-read-1-driver", "Running")
    await world.look(BULK_READS, "lake")
    await world.delete(BULK_READS, "lake")
    await gone(world, BULK_READS, "lake")
    assert await world.get(PODS, "lake-read-1-driver") is None
    assert await held(world) == []


@pytest.mark.parametrize("kind", [CONFIG_MAPS, NETWORK_POLICIES, JOBS, PODS], ids=lambda kind: kind.kind)
async def test_what_a_user_has_under_a_name_of_ours_stays_his(world: World, kind: Kind) -> None:
    name = "lake-read-1-driver" if kind == PODS else "lake-read-1"
    containers = {"containers": [{"name": "mine", "image": "mine:1"}], "restartPolicy": "Never"}
    bodies: dict[Kind, Body] = {
        CONFIG_MAPS: {"data": {"mine": "1"}},
        NETWORK_POLICIES: {"spec": {"podSelector": {}}},
        JOBS: {"spec": {"template": {"spec": containers}}},
        PODS: {"spec": {**containers, "serviceAccountName": "mine", "automountServiceAccountToken": False}},
    }
    if kind == PODS:
        await world.requests.create(
            Place(SERVICE_ACCOUNTS, world.namespace),
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mine"}},
        )
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **bodies[kind]}
    his = await world.requests.create(Place(kind, world.namespace), body)
    await world.make(BULK_READS, "lake", READ)
    for _ in range(2):
        seen = await world.look(BULK_READS, "lake")
    if kind == PODS:
        assert condition(seen, READY)["reason"] == "Submitted", "it was taken for the driver"
    else:
        assert condition(seen, READY)["reason"] == "NameTaken"
        assert f"there is a {kind.kind} {name} already" in condition(seen, READY)["message"]
        assert condition(seen, STALLED)["reason"] == "NameTaken"
        assert condition(seen, RECONCILING) == {}
    await world.delete(BULK_READS, "lake")
    await gone(world, BULK_READS, "lake")
    assert await held(world) == [], "what was held for a job that was never started"
    assert await world.get(kind, name) == his


async def test_what_a_read_of_the_same_name_left_is_waited_for(world: World) -> None:
    former = {
        "apiVersion": BULK_READS.api_version,
        "kind": BULK_READS.kind,
        "name": "lake",
        "uid": "00000000-0000-4000-8000-000000000000",
        "controller": True,
    }
    metadata = {"name": "lake-read-1", "ownerReferences": [former], "finalizers": ["example.com/slow"]}
    left = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    await world.requests.create(Place(CONFIG_MAPS, world.namespace), left)
    await world.delete(CONFIG_MAPS, "lake-read-1")
    await world.make(BULK_READS, "lake", READ)
    for _ in range(2):
        seen = await world.look(BULK_READS, "lake")
    assert condition(seen, READY)["reason"] == "LeftBehind"
    assert "example.com/slow" in condition(seen, READY)["message"]
    assert condition(seen, RECONCILING)["reason"] == "LeftBehind"
    assert len(await held(world)) == 1
    await world.edit(CONFIG_MAPS, "lake-read-1", {"metadata": {"finalizers": None}})
    seen = await world.look(BULK_READS, "lake")
    assert condition(seen, READY)["reason"] == "Submitted"
    await world.delete(BULK_READS, "lake")
    await gone(world, BULK_READS, "lake")
    assert await held(world) == []


async def test_a_database_that_does_not_answer_holds_no_deletion_up(world: World) -> None:
    await world.make(BULK_READS, "lake", READ)
    await world.look(BULK_READS, "lake")
    world.databases.down.add("orders")
    await world.delete(BULK_READS, "lake")
    await gone(world, BULK_READS, "lake")
    world.databases.down.clear()
    assert len(await held(world)) == 1, "it ends by itself"


async def test_what_holds_the_state_is_prolonged(world: World) -> None:
    made = await world.make(BULK_READS, "lake", READ)
    await world.look(BULK_READS, "lake")
    await driver(world, "lake-read-1-driver", "Running")
    database = SlateDatabase.of(await world.get(DATABASES, "orders"))
    before = await world.databases.admin(database).checkpoint(made["metadata"]["uid"])
    assert before is not None
    assert before.expires_at_s is not None, "an operator that never comes back leaves nothing for ever"
    world.clock.ahead = HELD_FOR / 2 + 60
    seen = await world.look(BULK_READS, "lake")
    assert seen is not None
    after = await world.databases.admin(database).checkpoint(made["metadata"]["uid"])
    assert after is not None
    assert after.expires_at_s is not None
    assert after.expires_at_s >= before.expires_at_s
    assert seen["status"]["heldUntil"] > made["metadata"]["creationTimestamp"]


async def test_a_state_that_was_lost_is_not_read_anew(world: World) -> None:
    """A second attempt must read what the first one did, or nothing."""
    made = await world.make(BULK_READS, "lake", READ)
    await world.look(BULK_READS, "lake")
    await driver(world, "lake-read-1-driver", "Failed", {"error": "no"})
    await world.look(BULK_READS, "lake")
    database = SlateDatabase.of(await world.get(DATABASES, "orders"))
    await world.databases.admin(database).delete_checkpoint(made["metadata"]["uid"])
    world.clock.ahead = 11
    seen = await world.look(BULK_READS, "lake")
    assert condition(seen, READY)["reason"] == "StateLost"
    assert seen is not None
    assert "finishedAt" in seen["status"], "from then on its ttl counts"
    assert await world.get(JOBS, "lake-read-2") is None


async def test_the_deadline_ends_it(world: World) -> None:
    await world.make(BULK_READS, "lake", {**READ, "deadline": "10m"})
    await world.look(BULK_READS, "lake")
    await driver(world, "lake-read-1-driver", "Running")
    world.clock.ahead = 601
    seen = await world.look(BULK_READS, "lake")
    assert condition(seen, READY)["reason"] == "DeadlineExceeded"
    assert await world.get(PODS, "lake-read-1-driver") is None
    assert await held(world) == []


async def test_the_deadline_ends_what_waits_for_another_attempt(world: World) -> None:
    """Its database is gone meanwhile, and may never come back."""
    await world.make(BULK_READS, "lake", {**READ, "deadline": "10m"})
    await world.look(BULK_READS, "lake")
    await driver(world, "lake-read-1-driver", "Failed", {"error": "no"})
    await world.look(BULK_READS, "lake")
    await world.delete(DATABASES, "orders")
    world.clock.ahead = 60
    assert condition(await world.look(BULK_READS, "lake"), READY)["reason"] == "SourceMissing"
    world.clock.ahead = 601
    seen = await world.look(BULK_READS, "lake")
    assert seen is not None
    assert seen["status"]["state"] == "Failed"
    assert condition(seen, READY)["reason"] == "DeadlineExceeded"
    assert "there is no SlateDatabase 'orders'" in condition(seen, READY)["message"]


async def test_a_checkpoint_is_protected_while_it_is_read(world: World) -> None:
    await world.make(CHECKPOINTS, "nightly", {"databaseRef": {"name": "orders"}})
    await world.make(BULK_READS, "lake", {"checkpointRef": {"name": "nightly"}, "sink": SINK, **SUBMIT})
    assert condition(await world.look(BULK_READS, "lake"), READY)["reason"] == "SourceNotReady"
    await world.look(CHECKPOINTS, "nightly")
    await world.databases.write("orders", c="3")
    seen = await world.look(BULK_READS, "lake")
    assert seen is not None
    kept = await world.look(CHECKPOINTS, "nightly")
    assert kept is not None
    assert seen["status"]["manifestId"] == kept["status"]["manifestId"], "its state, and not the present one"
    assert kept["status"]["usedBy"] == ["BulkRead/lake"]
    await world.delete(CHECKPOINTS, "nightly")
    assert await world.look(CHECKPOINTS, "nightly") is not None
    await driver(world, "lake-read-1-driver", "Succeeded", {"rows": 2, "bytes": 4})
    await world.look(BULK_READS, "lake")
    assert await world.look(CHECKPOINTS, "nightly") is None


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"databaseRef": {"name": "nowhere"}, "sink": SINK}, "SourceMissing"),
        ({"checkpointRef": {"name": "nowhere"}, "sink": SINK}, "SourceMissing"),
    ],
)
async def test_what_is_missing_is_waited_for(world: World, spec: Body, reason: str) -> None:
    await world.make(BULK_READS, "lake", {**spec, **SUBMIT})
    seen = await world.look(BULK_READS, "lake")
    assert condition(seen, READY)["reason"] == reason
    assert condition(seen, RECONCILING)["status"] == "True"
    await world.delete(BULK_READS, "lake")
    await gone(world, BULK_READS, "lake")


async def test_a_program_of_the_users(world: World) -> None:
    program = {"mainFile": "local:///opt/app/report.py", "arguments": ["--year", "2026"]}
    await world.make(BULK_READS, "report", {"databaseRef": {"name": "orders"}, "application": program, **SUBMIT})
    await world.look(BULK_READS, "report")
    job = await world.get(JOBS, "report-read-1")
    assert job is not None
    command = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert command[-3:] == ["local:///opt/app/report.py", "--year", "2026"]
    await driver(world, "report-read-1-driver", "Succeeded", "")
    seen = await world.look(BULK_READS, "report")
    assert seen is not None
    assert seen["status"]["state"] == "Succeeded"
    assert "rows" not in seen["status"]


# --- Kubeflow's operator ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spark_applications(kinds: ApiServer) -> None:
    """The kind alone. That Kubeflow's own definition takes what we write is seen on the whole cluster."""
    group = SPARK_APPLICATIONS.api_version.partition("/")[0]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1beta2",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": anything},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"sparkapplications.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests only"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "SparkApplication", "plural": "sparkapplications", "singular": "sparkapplication"},
            "versions": [version],
        },
    }
    kinds.kubectl.apply([definition])
    kinds.kubectl.wait("condition=Established", f"crd/sparkapplications.{group}", timeout=20)


@pytest.mark.usefixtures("spark_applications")
async def test_kubeflow_starts_it_where_it_is(world: World) -> None:
    assert await world.cluster.serves(SPARK_APPLICATIONS)
    await world.make(BULK_READS, "lake", {"databaseRef": {"name": "orders"}, "sink": SINK})
    seen = await world.look(BULK_READS, "lake")
    assert seen is not None
    assert seen["status"]["launcher"] == "SparkOperator"
    application = await world.get(SPARK_APPLICATIONS, "lake-read-1")
    assert application is not None
    assert application["spec"]["driver"]["podName"] == "lake-read-1-driver"
    assert application["spec"]["restartPolicy"] == {"type": "Never"}

    world.clock.ahead = 180
    seen = await world.look(BULK_READS, "lake")
    assert "does it watch this namespace?" in condition(seen, READY)["message"]

    failure = {"state": "FAILED", "errorMessage": "no such image; fs.s3a.secret.key=abc\n\tat org.apache.spark"}
    place = Place(SPARK_APPLICATIONS, world.namespace, "lake-read-1", "status")
    await world.requests.patch(place, MERGE, {"status": {"applicationState": failure}})
    seen = await world.look(BULK_READS, "lake")
    assert condition(seen, READY)["reason"] == "Retrying"
    assert "no such image" in condition(seen, READY)["message"]
    assert "org.apache" not in condition(seen, READY)["message"]
    assert "abc" not in condition(seen, READY)["message"], "a secret is told"
    await world.delete(BULK_READS, "lake")
    await gone(world, BULK_READS, "lake")
    assert await world.get(SPARK_APPLICATIONS, "lake-read-1") is None


async def test_what_the_cluster_does_not_know(world: World) -> None:
    assert not await world.cluster.serves(Kind("nobody.example/v1", "Nothing", "nothings"))
    assert await world.cluster.serves(JOBS)
