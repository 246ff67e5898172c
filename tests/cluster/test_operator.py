"""The operator on a whole cluster, with the real S3 server: databases live, change hands, are cloned, destroyed and brought
back, and nothing that was acknowledged is missing at any time."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.cluster import pods
from tests.cluster.databases import SECRET, Database, object_of, state_in
from tests.cluster.fixtures import Bucket, Namespace
from tests.cluster.tool import images
from tests.cluster.tool.kubectl import until
from tests.cluster.tool.provider import Provider
from tests.cluster.tool.report import ClusterError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def plugin(namespace: Namespace, *words: str) -> str:
    """What ``kubectl slate …`` says: kubectl finds the plugin by its name, as a user's does."""
    folders = [str(namespace.kubectl.installed()), str(Path(sys.executable).parent), os.environ["PATH"]]
    done = subprocess.run(
        ["kubectl", "slate", *words, "-n", namespace.name],
        env={**namespace.kubectl.environment, "PATH": os.pathsep.join(folders)},
        cwd=namespace.kubectl.kubeconfig.parent,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def kill_operator(operator: None, cluster: Provider) -> Callable[[], None]:
    """End the operator at once, as a node that fails would. Its Deployment starts it again."""
    kubectl = cluster.kubectl()

    def kill() -> None:
        kubectl("delete", "pod", "-n", "slatekeeper-system", "--all", "--grace-period=0", "--force", "--wait=false")

    return kill


def test_the_life_of_a_database(operator: None, namespace: Namespace, s3_bucket: Bucket) -> None:
    orders = Database.made(
        namespace, s3_bucket, "orders", gc={"interval": "5s", "minAge": "1s"}, deletionPolicy="SoftDestroy"
    ).wait_ready()
    with orders.client() as client:
        assert client.mset({f"order:{number}": "new" for number in range(100)})

    namespace.apply(object_of("Checkpoint", "before", {"databaseRef": {"name": "orders"}, "scope": {"all": {}}}))
    namespace.kubectl.wait("condition=Ready", "-n", namespace.name, "scp/before")
    with orders.client() as client:
        client.set("order:7", "shipped")

    namespace.apply(object_of("Clone", "staging", {"source": {"checkpointRef": {"name": "before"}}}))
    staging = Database(namespace, "staging")
    assert until(lambda: namespace.kubectl.answers("get", "sdb/staging", "-n", namespace.name), timeout=30)
    staging.wait_ready()
    namespace.kubectl.wait("condition=Ready", "-n", namespace.name, "scl/staging")
    with staging.client() as client:
        assert client.get("order:7") == b"new", "a clone is what the checkpoint kept"
        client.set("order:8", "changed in staging")
    with orders.client() as client:
        assert client.get("order:7") == b"shipped"
        assert client.get("order:8") == b"new"

    namespace("scale", "sdb/orders", "--replicas=2")
    assert until(lambda: orders.status.get("readerReplicas") == 2, timeout=60)
    orders.wait_ready()
    with orders.client("orders-readers") as reader:
        assert until(lambda: reader.get("order:7") == b"shipped", timeout=20)
        with pytest.raises(redis.ReadOnlyError):
            reader.set("order:7", "from a reader")
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "orders"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "slatekeeper.io/v1alpha1", "kind": "SlateDatabase", "name": "orders"},
            "minReplicas": 3,
            "maxReplicas": 5,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                }
            ],
        },
    }
    namespace.apply(autoscaler)
    assert until(lambda: orders.get()["spec"]["readers"]["replicas"] == 3, timeout=60), "the autoscaler's least"
    namespace("delete", "hpa/orders")
    namespace("scale", "sdb/orders", "--replicas=0")
    tree = plugin(namespace, "status", "orders")
    assert "before" in tree
    assert "staging" in tree

    namespace("delete", "sdb/orders", "--wait=false")
    assert until(lambda: "Grace" in kinds_of(orders), timeout=90), orders.describe()
    assert "Checkpoint" in kinds_of(orders)
    with staging.client() as client:
        assert client.get("order:7") == b"new", "a clone outlives its parent"
    assert orders.pods("gc"), "the collector stays until the bytes are gone"
    assert not orders.pods("writer")
    assert "before" in plugin(namespace, "why", "orders")

    plugin(namespace, "undelete", "orders")
    orders.wait_ready()
    with orders.client() as client:
        assert client.get("order:7") == b"shipped"
        assert client.dbsize() > 0

    namespace("delete", "scp/before")
    orders.patch({"deletionPolicy": "Destroy"})
    staging.patch({"deletionPolicy": "Destroy"})
    namespace("delete", "sdb/orders", "--wait=false")
    assert until(lambda: bool(kinds_of(orders)), timeout=60)
    namespace("delete", "scl/staging", "sdb/staging", timeout=180)
    namespace.kubectl.wait("delete", "-n", namespace.name, "sdb/orders", timeout=180)
    assert listing(namespace, s3_bucket) == [], "nothing is left of either in the bucket"


def kinds_of(database: Database) -> set[str]:
    """What holds its deletion."""
    return {each["kind"] for each in database.status.get("deletion", {}).get("blockedBy", ())}


def listing(namespace: Namespace, bucket: Bucket) -> list[str]:
    """The objects of a bucket, asked by a pod of the namespace."""
    program = f"""
import asyncio
from slate_engine.store.open import open_store
async def names():
    return [meta.key async for page in open_store({bucket.url!r}).list("") for meta in page]
print(*asyncio.run(names()), sep="\\n")
"""
    name = f"listing-{int(time.monotonic() * 1000)}"
    namespace.apply(pods.python(name, program, env=bucket.env()))
    return [line for line in pods.outcome(namespace, name).splitlines() if line]


# A client that never stops: it counts up, each number under its own key, and says how long it waited for an answer at most.
STEADY = """
import json, socket, ssl, sys, time
host, password, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
context = ssl.create_default_context(cafile="/ca/ca.crt")
context.check_hostname = False
def encoded(*words):
    return b"".join([b"*%d\\r\\n" % len(words)] + [b"$%d\\r\\n%s\\r\\n" % (len(w), w) for w in map(str.encode, words)])
began, done, gap, last, stream = time.monotonic(), [], 0.0, time.monotonic(), None
while time.monotonic() - began < seconds:
    try:
        if stream is None:
            plain = socket.create_connection((host, 6379), timeout=3)
            stream = context.wrap_socket(plain, server_hostname=host)
            stream.sendall(encoded("AUTH", password))
            assert stream.recv(100) == b"+OK\\r\\n"
        number = len(done)
        stream.sendall(encoded("SET", f"steady:{number}", str(number)))
        answer = stream.recv(200)
        if answer != b"+OK\\r\\n":
            raise OSError(answer)
        now = time.monotonic()
        gap, last = max(gap, now - last), now
        done.append(number)
        time.sleep(0.01)
    except (OSError, AssertionError) as error:
        print("again:", error, file=sys.stderr, flush=True)
        if stream is not None:
            stream.close()
        stream = None
        time.sleep(0.02)
print(json.dumps({"written": len(done), "gap": gap}))
"""


def steady_client(database: Database, seconds: float) -> str:
    """Start it in the namespace; the name of its pod."""
    name = f"steady-{database.name}"
    words = ["python", "-c", STEADY, database.name, database.secret(f"{database.name}-auth", "password"), str(seconds)]
    volumes = {
        "/ca": {"secret": {"secretName": f"{database.name}-tls", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    }
    database.namespace.apply(pods.pod(name, words, volumes=volumes))
    database.namespace.kubectl.wait("condition=Ready", "-n", database.namespace.name, f"pod/{name}")
    return name


def uids(database: Database) -> dict[str, str]:
    """The pod of each role."""
    found = {role: database.pods(role) for role in ("writer", "compactor", "gc")}
    return {role: each[0]["metadata"]["uid"] for role, each in found.items() if each}


def test_a_change_rolls_what_it_touches_and_hands_over_quickly(
    operator: None,
    namespace: Namespace,
    s3_bucket: Bucket,
    upgrade_operator: Callable[[], None],
    record_property: Callable[[str, object], None],
) -> None:
    orders = Database.made(namespace, s3_bucket, "orders").wait_ready()
    first = uids(orders)
    steady = steady_client(orders, 45)
    epoch = orders.status["writerEpoch"]
    orders.patch({"writer": {"settings": {"l0_sst_size_bytes": 1 << 22}}})
    assert until(lambda: uids(orders).get("writer") not in (None, first["writer"]), timeout=120, every=0.5)
    orders.wait_ready()
    second = uids(orders)
    assert {role for role in first if second[role] != first[role]} == {"writer"}
    upgrade_operator()
    report = json.loads(pods.outcome(namespace, steady, timeout=120).splitlines()[-1])
    record_property("seconds without an answer while the writer was replaced", round(report["gap"], 2))
    print(f"writer replaced: {report['written']} writes, longest wait {report['gap']:.2f} s")
    assert report["gap"] < 15
    with orders.client() as client:
        written = [b"%d" % number for number in range(report["written"])]
        assert client.mget([f"steady:{number}" for number in range(report["written"])]) == written
    assert uids(orders) == second, "another operator, unchanged objects: nothing is restarted"
    assert orders.status["writerEpoch"] == epoch + 1, "one handover, and no fight"

    changed = {"AWS_MAX_ATTEMPTS": "5", **s3_bucket.env()}
    namespace.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": changed})
    namespace("annotate", "sdb/orders", "look=now")
    assert until(lambda: not set(uids(orders).values()) & set(second.values()), timeout=180, every=1.0), "new keys"
    orders.wait_ready()


def test_hibernated_and_paused(operator: None, namespace: Namespace, s3_bucket: Bucket) -> None:
    orders = Database.made(namespace, s3_bucket, "orders").wait_ready()
    with orders.client() as client:
        client.set("kept", "yes")
    orders.patch({"hibernated": True})
    orders.wait_for("Hibernated", "Asked")
    assert not orders.pods("writer")
    assert not orders.pods("compactor")
    assert orders.pods("gc")
    orders.patch({"hibernated": False, "paused": True})
    orders.wait_for("Paused", "Asked")
    time.sleep(3)
    assert not orders.pods("writer"), "paused means that nothing is done"
    orders.patch({"paused": False})
    orders.wait_ready()
    with orders.client() as client:
        assert client.get("kept") == b"yes"


def test_a_path_has_one_owner(operator: None, namespace: Namespace, s3_bucket: Bucket) -> None:
    orders = Database.made(namespace, s3_bucket, "orders", compactor={"enabled": False}).wait_ready()
    spec = orders.get()["spec"]
    namespace.apply(object_of("SlateDatabase", "second", {**spec, "bootstrap": {"adopt": {}}}))
    second = Database(namespace, "second")
    refused = second.wait_for("Ready", "OwnedByAnother")
    assert "orders" in refused["message"]
    assert not second.pods("writer")
    namespace("delete", "sdb/orders")
    second.wait_ready()


WHEEL = """
import asyncio, os, sys
from slatedb.uniffi import DbBuilder, ObjectStore, Settings
async def main():
    store = ObjectStore.resolve(sys.argv[1])
    db = await DbBuilder("legacy", store).build()
    number = 0
    print("open", flush=True)
    while not os.path.exists(sys.argv[2]):
        await (await db.put(b"row:%06d" % number, b"%d" % number)).await_durable()
        number += 1
        print(number, flush=True)
    await db.shutdown()
    print("done", number, flush=True)
asyncio.run(main())
"""


@pytest.fixture
def original(s3_from_here: dict[str, str], s3_bucket: Bucket, tmp_path) -> Iterator[subprocess.Popen[str]]:  # type: ignore[no-untyped-def]
    """The original's own package, writing a database of the bucket from outside of the cluster."""
    stop = tmp_path / "stop"
    process = subprocess.Popen(
        [sys.executable, "-c", WHEEL, s3_bucket.url, str(stop)],
        env={**os.environ, **s3_from_here, "AWS_ALLOW_HTTP": "true"},
        stdout=subprocess.PIPE,
        text=True,
    )
    process.stop_file = stop  # type: ignore[attr-defined]
    yield process
    process.kill()
    process.wait()


def test_a_database_that_the_original_writes_is_adopted(
    operator: None, namespace: Namespace, s3_bucket: Bucket, original: subprocess.Popen[str]
) -> None:
    assert original.stdout is not None
    assert original.stdout.readline() == "open\n"
    legacy = Database.made(
        namespace,
        s3_bucket,
        "legacy",
        bootstrap={"adopt": {}},
        writer={"mode": "External"},
        compactor={"enabled": False},
        readers={"replicas": 1},
    ).wait_ready()
    epoch = legacy.status["writerEpoch"]
    namespace.apply(object_of("Checkpoint", "kept", {"databaseRef": {"name": "legacy"}}))
    namespace.kubectl.wait("condition=Ready", "-n", namespace.name, "scp/kept")
    original.stop_file.touch()  # type: ignore[attr-defined]
    lines = original.stdout.read().split()
    assert original.wait(30) == 0, "it was not disturbed"
    count = int(lines[-1])
    assert legacy.status["writerEpoch"] == epoch
    with legacy.client("legacy-readers") as reader:
        assert until(lambda: reader.get(f"row:{count - 1:06d}") == b"%d" % (count - 1), timeout=30)


def test_the_operator_is_killed_again_and_again(
    namespace: Namespace, s3_bucket: Bucket, kill_operator: Callable[[], None]
) -> None:
    orders = Database.made(namespace, s3_bucket, "orders", compactor={"enabled": False})
    for pause in (1, 4, 7):
        time.sleep(pause)
        kill_operator()
    orders.wait_ready(240)
    namespace.apply(object_of("Clone", "copy", {"source": {"databaseRef": {"name": "orders"}}}))
    for pause in (2, 6):
        time.sleep(pause)
        kill_operator()
    assert until(lambda: namespace.kubectl.answers("get", "sdb/copy", "-n", namespace.name), timeout=60)
    Database(namespace, "copy").wait_ready(240)
    orders.patch({"deletionPolicy": "Destroy"})
    namespace("delete", "scl/copy")
    Database(namespace, "copy").patch({"deletionPolicy": "Destroy"})
    namespace("delete", "sdb/copy", "sdb/orders", "--wait=false")
    for pause in (2, 5):
        time.sleep(pause)
        kill_operator()
    for name in ("copy", "orders"):
        namespace.kubectl.wait("delete", "-n", namespace.name, f"sdb/{name}", timeout=240)
    assert listing(namespace, s3_bucket) == []


@pytest.mark.parametrize("policy", ["Retain", "SoftDestroy", "Destroy"])
def test_a_namespace_ends_in_time(
    operator: None, namespace: Namespace, s3_bucket: Bucket, s3_from_here: dict[str, str], policy: str
) -> None:
    orders = Database.made(namespace, s3_bucket, "orders", deletionPolicy=policy, compactor={"enabled": False})
    orders.wait_ready()
    namespace.apply(object_of("Checkpoint", "kept", {"databaseRef": {"name": "orders"}}))
    namespace.kubectl.wait("condition=Ready", "-n", namespace.name, "scp/kept")
    began = time.monotonic()
    namespace.kubectl("delete", "namespace", namespace.name, "--wait=false")
    assert until(lambda: not namespace.kubectl.answers("get", "namespace", namespace.name), timeout=150, every=1.0), (
        namespace.kubectl("get", "namespace", namespace.name, "-o", "yaml")
    )
    print(f"{policy}: the namespace was gone after {time.monotonic() - began:.0f} s")
    expected = "alive" if policy == "Retain" else "destroyed"
    assert state_in(s3_bucket, "orders", s3_from_here) == expected, "the mark was made before the pods were gone"


def test_an_image_of_the_user_writes(operator: None, namespace: Namespace, s3_bucket: Bucket) -> None:
    """It is told where the database is and how it is set up, and the rest is done for it as for any other."""
    program = "slate put greeting hello && echo written && sleep 600"
    container = {"name": "slate", "command": ["sh", "-c", program]}
    writer = {"mode": "Image", "image": images.tag("slate"), "podTemplate": {"spec": {"containers": [container]}}}
    own = Database.made(namespace, s3_bucket, "own", writer=writer, readers={"replicas": 1}).wait_ready()
    with own.client("own-readers") as reader:
        assert until(lambda: reader.get("greeting") == b"hello", timeout=30)


REACH = """
import socket, sys, time
deadline = time.monotonic() + float(sys.argv[2])
while True:
    try:
        socket.create_connection((sys.argv[1], 6379), timeout=2).close()
        sys.exit(print("reached"))
    except OSError as error:
        if time.monotonic() > deadline:
            sys.exit(print("not reached:", error))
    time.sleep(0.5)
"""


def test_strangers_are_kept_out(operator: None, namespace: Namespace, s3_bucket: Bucket) -> None:
    orders = Database.made(namespace, s3_bucket, "orders", compactor={"enabled": False}).wait_ready()
    host = f"orders.{namespace.name}.svc.cluster.local"
    elsewhere = Namespace("default", namespace.kubectl)
    # A node learns of a new pod and of a ready Service a moment after the API server does, so a friend tries for a while.
    for place, expected, seconds in ((namespace, "reached", 60), (elsewhere, "not reached", 10)):
        name = f"visitor-{namespace.name}"
        place.apply(pods.pod(name, ["python", "-c", REACH, host, str(seconds)]))
        try:
            assert pods.outcome(place, name).startswith(expected), place.name
        finally:
            place("delete", "pod", name, "--wait=false")
    password = orders.secret("orders-auth", "password")
    with orders.client() as client:
        assert client.ping()
    for role in ("writer", "gc"):
        log = namespace("logs", f"deployment/orders-{role}")
        assert password not in log
        assert orders.secret("orders-admin", "token") not in log


def test_the_node_crashes(operator: None, cluster: Provider, namespace: Namespace, s3_bucket: Bucket) -> None:
    """Every process ends at once, the API server's too. What was acknowledged is there when they are back."""
    orders = Database.made(namespace, s3_bucket, "orders").wait_ready()
    with orders.client() as client:
        client.set("before", "the crash")
    epoch = orders.status["writerEpoch"]
    cluster.crash()
    assert until(lambda: cluster.status().up, timeout=120, every=1.0), cluster.status().detail

    def back() -> bool:
        with contextlib.suppress(redis.RedisError, ClusterError, OSError), orders.client() as client:
            return bool(client.get("before") == b"the crash")
        return False

    assert until(back, timeout=240, every=2.0), orders.describe()
    assert until(lambda: orders.status["writerEpoch"] > epoch, timeout=120, every=2.0)
    orders.wait_ready(240)
