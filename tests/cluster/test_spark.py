"""Bulk reads and large compactions as Spark jobs on a whole cluster: by spark-submit and by Kubeflow's operator, with
executors that are killed, on the real S3 server; what comes out is compared row for row."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from slate_engine.store.open import open_store
from tests.cluster.databases import Database, bucket_secret, object_of
from tests.cluster.fixtures import Bucket, Namespace, image_of
from tests.cluster.tool import images
from tests.cluster.tool.kubectl import until
from tests.cluster.tool.provider import Provider

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
# Half of the default heap. Beside it two Pythons run in a driver, which half a gigabyte does not always hold.
SMALL = {"coreRequest": "100m", "memory": "512m", "memoryOverhead": "1g"}
SPARK = {"driver": SMALL, "executor": {**SMALL, "instances": 2}}
ROWS = {f"order:{number:05}": f"{number} items" for number in range(5_000)}


@pytest.fixture(scope="session")
def spark_image(cluster: Provider, operator: None) -> None:
    cluster.load([image_of("spark")])


@pytest.fixture
def orders(spark_image: None, namespace: Namespace, s3_bucket: Bucket) -> Database:
    made = Database.made(namespace, s3_bucket, "orders").wait_ready()
    with made.client() as client:
        client.mset(ROWS)
        client.execute_command("SLATE.FLUSH", "MEMTABLE")
        client.set("order:00007", "changed")  # what is only in the log is read too
    return made


def rows_of(environment: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The Parquet table at a url of the cluster's S3 server. Hidden files are none of it."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    bucket, _, folder = url.removeprefix("s3://").partition("/")

    async def tables() -> list[pa.Table]:
        store = open_store(f"s3://{bucket}")
        keys = [meta.key async for page in store.list(f"{folder}/") for meta in page]
        parts = [key for key in keys if key.endswith(".parquet") and "/_" not in key]
        assert any(key.endswith("/_SUCCESS") for key in keys), keys
        found = [pq.read_table(pa.BufferReader((await store.get(key)).data)) for key in parts]
        await store.close()
        return found

    whole = pa.concat_tables(asyncio.run(tables()))
    keys, values = whole.column("key").to_pylist(), whole.column("value").to_pylist()
    assert len(set(keys)) == len(keys), "some rows are there twice"
    return dict(zip(keys, values, strict=True))


def read_of(namespace: Namespace, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(namespace("get", "sbr", name, "-o", "json"))
    return found


def _all_of(namespace: Namespace, read: dict[str, Any]) -> str:
    """What a person would look at."""
    drivers = namespace("get", "pods", "-l", "spark-role=driver", "-o", "name").split()
    logs = [f"--- {pod}\n{namespace('logs', pod, '--tail=40')}" for pod in drivers]
    return "\n".join([json.dumps(read.get("status"), indent=1), namespace("get", "pods"), *logs])


def wait_for_end(namespace: Namespace, name: str) -> dict[str, Any]:
    def over() -> bool:
        return read_of(namespace, name).get("status", {}).get("state") in ("Succeeded", "Failed")

    until(over, timeout=300, every=1)
    found = read_of(namespace, name)
    assert found["status"].get("state") == "Succeeded", _all_of(namespace, found)
    return found


@contextmanager
def an_executor_killed(namespace: Namespace) -> Iterator[list[str]]:
    """The first one that runs ends at once, as with its node."""
    killed: list[str] = []

    def kill() -> bool:
        words = ("-l", "spark-role=executor", "--field-selector=status.phase=Running", "-o", "name")
        running = namespace("get", "pods", *words).split()
        if running:
            namespace("delete", running[0], "--grace-period=0", "--force", "--wait=false")
            killed.append(running[0])
        return bool(running)

    thread = threading.Thread(target=lambda: until(kill, timeout=240, every=0.2), daemon=True)
    thread.start()
    yield killed
    thread.join(10)


def test_a_bulk_read_by_spark_submit(
    orders: Database, s3_bucket: Bucket, s3_from_here: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = orders.namespace
    spec = {
        "databaseRef": {"name": "orders"},
        "decode": {"key": {"format": "utf8"}, "value": {"format": "utf8"}},
        "sink": {"url": f"{s3_bucket.url}/lake/orders", "options": {"compression": "zstd"}},
        "spark": {**SPARK, "launcher": "Submit"},
    }
    with an_executor_killed(namespace) as killed:
        namespace.apply(object_of("BulkRead", "lake", spec))
        found = wait_for_end(namespace, "lake")
    assert killed, "no executor was there to be killed"
    assert found["status"]["rows"] == len(ROWS)
    assert found["status"]["bytes"] > 0
    wanted = {**ROWS, "order:00007": "changed"}
    assert rows_of(s3_from_here, f"{s3_bucket.url}/lake/orders", monkeypatch) == wanted
    assert "heldUntil" not in found["status"], "the state is let go"
    assert until(lambda: orders.status.get("checkpoints") == 0, timeout=90, every=2), orders.describe()
    # What follows needs no Spark any more.
    assert "lake" in namespace("get", "bulkreads")
    refused = {**spec, "sink": {**spec["sink"], "url": f"{s3_bucket.url}/lake/others"}}  # type: ignore[dict-item]
    assert "carried out once" in _refusal(namespace, object_of("BulkRead", "lake", refused))


def _refusal(namespace: Namespace, changed: dict[str, Any]) -> str:
    try:
        namespace.apply(changed)
    except Exception as error:
        return str(error)
    return ""


PROGRAM = """
import json, os
import slate_engine.spark
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
slate_engine.spark.register(spark)
frame = spark.read.format("slatedb").option("keyFormat", "utf8").option("columns", "key").load()
rows = frame.where("key >= 'order:01000'").count()
with open(os.environ["SLATE_REPORT"], "w") as report:
    json.dump({"rows": rows, "bytes": 0}, report)
spark.stop()
"""


@pytest.mark.usefixtures("spark_operator")
def test_kubeflow_runs_a_program_and_stops_it(orders: Database) -> None:
    namespace = orders.namespace
    namespace.apply(object_of("Checkpoint", "before-sale", {"databaseRef": {"name": "orders"}}))
    namespace.kubectl.wait("condition=Ready", "-n", namespace.name, "scp/before-sale")
    with orders.client() as client:
        client.set("order:99999", "after the checkpoint")
    program = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "program"}, "data": {"count.py": PROGRAM}}
    mounted = {
        "spec": {
            "containers": [
                {
                    "name": "spark-kubernetes-driver",
                    "volumeMounts": [{"name": "program", "mountPath": "/opt/program"}],
                }
            ],
            "volumes": [{"name": "program", "configMap": {"name": "program"}}],
        }
    }
    spec = {
        "checkpointRef": {"name": "before-sale"},
        "application": {"mainFile": "local:///opt/program/count.py"},
        "spark": {**SPARK, "driver": {**SMALL, "podTemplate": mounted}},
    }
    with an_executor_killed(namespace) as killed:
        namespace.apply(program, object_of("BulkRead", "count", spec))
        found = wait_for_end(namespace, "count")
    assert killed
    assert found["status"]["launcher"] == "SparkOperator"
    assert found["status"]["rows"] == len(ROWS) - 1000, "the state of the checkpoint, and not the present one"

    # Deleted midway, it is stopped, and nothing is left.
    namespace.apply(object_of("BulkRead", "stopped", spec))
    driver = "stopped-read-1-driver"
    assert until(lambda: namespace.kubectl.answers("get", f"pod/{driver}", "-n", namespace.name), timeout=120)
    namespace("delete", "sbr/stopped", timeout=120)
    assert until(lambda: driver not in namespace("get", "pods", "-o", "name"), timeout=60)
    assert "stopped-read-1" not in namespace("get", "sparkapplications", "-o", "name")
    namespace("delete", "sbr/count", timeout=120)
    assert until(lambda: "count-read-1-driver" not in namespace("get", "pods", "-o", "name"), timeout=60)


@pytest.mark.usefixtures("spark_operator")
def test_the_example_of_an_application_of_ones_own(orders: Database, s3_bucket: Bucket) -> None:
    namespace = orders.namespace
    namespace.apply(object_of("Checkpoint", "before-sale", {"databaseRef": {"name": "orders"}}))
    namespace.kubectl.wait("condition=Ready", "-n", namespace.name, "scp/before-sale")
    shown = (EXAMPLES / "spark-application.yaml").read_text()
    mine = shown.replace("slatekeeper/spark:0.1.0", images.tag("spark")).replace("s3://shop", s3_bucket.url)
    parts = list(yaml.safe_load_all(mine))
    for role in ("driver", "executor"):
        parts[-1]["spec"][role] |= SMALL
    with an_executor_killed(namespace) as killed:
        namespace.apply(bucket_secret(s3_bucket, "shop-bucket"), *parts)

        def state() -> str:
            return namespace("get", "sparkapplication/report", "-o", "jsonpath={.status.applicationState.state}")

        assert until(lambda: state() in ("COMPLETED", "FAILED"), timeout=240, every=1), state()
    said = namespace("logs", "report-driver")
    assert f"order: {len(ROWS)} rows" in said, said[-3000:]
    assert killed


def test_a_large_compaction_is_done_by_spark(spark_image: None, namespace: Namespace, s3_bucket: Bucket) -> None:
    """Every compaction is large enough for Spark here, and the compactor leaves them alone."""
    spark = {**SPARK, "launcher": "Submit", "largerThan": "1", "leaveFor": "1h"}
    ledger = Database.made(namespace, s3_bucket, "ledger", compactor={"spark": spark}).wait_ready()
    wanted: dict[str, str] = {}
    with an_executor_killed(namespace) as killed:
        for turn in range(8):
            with ledger.client() as client:
                written = {f"entry:{number:05}": f"{turn} of {number}" for number in range(0, 2000, turn + 1)}
                client.mset(written)
                client.execute_command("SLATE.FLUSH", "MEMTABLE")
            wanted |= written
        assert until(lambda: "CompactedOnSpark" in namespace("get", "events"), timeout=300, every=2), (
            ledger.describe() + namespace("get", "events")
        )
    assert killed
    assert until(lambda: ledger.status.get("sortedRuns", 0) >= 1, timeout=90, every=2), ledger.describe()
    ledger.wait_ready()
    with ledger.client() as client:
        keys = sorted(wanted)
        found = dict(zip(keys, client.mget(keys), strict=True))
    assert {key: value.decode() for key, value in found.items() if value is not None} == wanted
