"""The life of a database on Kubernetes, from nothing: ``make demo`` shows it, ``make demo-down`` removes it.

Every step is safe to repeat, so a demo that was interrupted is gone on with by starting it again.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import redis

from tests.cluster.tool import addons, images
from tests.cluster.tool.doors import redis_client
from tests.cluster.tool.kubectl import Kubectl, until
from tests.cluster.tool.locking import locked
from tests.cluster.tool.names import DEFAULT_NAME, PROJECT
from tests.cluster.tool.provider import Provider, provider
from tests.cluster.tool.report import ClusterError
from tests.servers.toolbox import ToolMissing
from tests.servers.versitygw import ACCESS_KEY, REGION, SECRET_KEY

HERE = Path(__file__).parent
NAMESPACE = "demo"
INTERRUPTED = 130
"""What a shell says of whoever was ended by Control-C."""
BOLD, BLUE, FAINT, PLAIN = "\033[1m", "\033[36m", "\033[2m", "\033[0m"


def main() -> int:
    began = time.monotonic()
    try:
        cluster = provider(os.environ.get("CLUSTER", DEFAULT_NAME))
        with locked(cluster.names.lock):
            prepare(cluster)
        Demo(cluster.kubectl()).play()
    except (ClusterError, ToolMissing) as error:
        print(f"\nThe demo stopped: {error}\nStart it again to go on from there.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nThe demo was interrupted; start it again to go on from there.", file=sys.stderr)
        return INTERRUPTED
    farewell(cluster, time.monotonic() - began)
    return 0


def say(text: str) -> None:
    print(f"\n{BOLD}{text}{PLAIN}", flush=True)


def prepare(cluster: Provider) -> None:
    say("1. A Kubernetes cluster on this machine, an S3 server in it, and Slatekeeper by its Helm chart.")
    print(
        f"{FAINT}The first time this builds Kubernetes and the images, which takes about a quarter of an hour.{PLAIN}"
    )
    cluster.prepare()
    for image in ("slate", "operator", "s3"):
        images.build(image)
    if not cluster.status().up:
        cluster.up()
    addons.s3(cluster)
    cluster.kubectl()(
        "exec", "deployment/s3", "-n", addons.S3_NAMESPACE, "--", "mkdir", "-p", f"{addons.S3_FOLDER}/shop"
    )
    addons.slatekeeper(cluster)


class Demo:
    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        folders = [str(kubectl.installed()), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        self._environment = {**kubectl.environment, "PATH": os.pathsep.join(folders)}
        self._kept = kubectl.kubeconfig.parent / "orders.undelete.yaml"
        """What `kubectl slate undelete` goes on from when it was interrupted. It is the cluster's, and goes with it."""

    def play(self) -> None:
        self.begin()
        self.write()
        self.keep()
        self.clone()
        self.destroy()
        self.bring_back()

    def begin(self) -> None:
        say("2. A database: `kubectl apply`, and its writer, a reader, compactor and garbage collector come up.")
        self._kubectl.apply([addons.restricted_namespace(NAMESPACE)])
        self._kubectl.apply([_bucket_secret()], namespace=NAMESPACE)
        if self._is_terminating("orders") or self._kept.exists():  # an earlier demo was interrupted here
            self.undelete()
        self.show("kubectl", "apply", "-f", str((HERE / "orders.yaml").relative_to(PROJECT)))
        self.show("kubectl", "wait", "--for=condition=Ready", "sdb/orders", "--timeout=300s")
        self.show("kubectl", "get", "slatedatabases")
        self.show("kubectl", "get", "pods")

    def write(self) -> None:
        say("3. Any Redis client writes to it. An answer means: it is in object storage.")
        with self.client("orders") as orders:
            self.ask(orders, "MSET", "order:1", "3 items", "order:2", "1 item")
            self.ask(orders, "GET", "order:1")

    def keep(self) -> None:
        say("4. A checkpoint keeps this state for a week, whatever is written from now on.")
        self.show("kubectl", "apply", "-f", str((HERE / "checkpoint.yaml").relative_to(PROJECT)))
        self.show("kubectl", "wait", "--for=condition=Ready", "scp/before-migration", "--timeout=60s")
        self.show("kubectl", "get", "checkpoints")
        with self.client("orders") as orders:
            self.ask(orders, "SET", "order:1", "migrated")

    def clone(self) -> None:
        say("5. A clone of the checkpoint is a database of its own, there in a moment, and goes its own way.")
        self.show("kubectl", "apply", "-f", str((HERE / "clone.yaml").relative_to(PROJECT)))
        self.show("kubectl", "wait", "--for=condition=Ready", "scl/staging", "--timeout=300s")
        self.show("kubectl", "get", "slate")
        with self.client("staging") as staging:
            self.ask(staging, "GET", "order:1")
            self.ask(staging, "SET", "order:2", "changed in staging only")
        with self.client("orders") as orders:
            self.ask(orders, "MGET", "order:1", "order:2")
        self.show("kubectl", "slate", "status", "orders")

    def destroy(self) -> None:
        say(
            "6. Deleted: by its policy the bytes are marked as destroyed and stay for a week. What is in the way is told."
        )
        self.show("kubectl", "delete", "sdb/orders", "--wait=false")
        if not until(lambda: "Grace" in self._blockers("orders"), timeout=120, every=1.0):
            raise ClusterError("orders was not marked as destroyed in two minutes; see `kubectl slate why orders`")
        self.show("kubectl", "get", "sdb/orders")
        self.show("kubectl", "slate", "why", "orders")

    def bring_back(self) -> None:
        say("7. And brought back, with everything that was acknowledged.")
        self.undelete()
        self.show("kubectl", "get", "slatedatabases")
        with self.client("orders") as orders:
            self.ask(orders, "MGET", "order:1", "order:2")

    # --- what a user would type ----------------------------------------------------------------------------------

    def undelete(self) -> None:
        self.show("kubectl", "slate", "undelete", "orders", folder=self._kept.parent)

    def show(self, *words: str, folder: Path = PROJECT) -> None:
        print(f"{BLUE}$ {' '.join(words)}{PLAIN}", flush=True)
        ended = subprocess.run([*words, "-n", NAMESPACE], env=self._environment, cwd=folder, check=False)
        if ended.returncode:
            raise ClusterError(f"`{' '.join(words)}` ended with code {ended.returncode}")

    def ask(self, client: redis.Redis, *words: str) -> None:
        print(f"{BLUE}redis> {' '.join(repr(word) if ' ' in word else word for word in words)}{PLAIN}")
        answer = client.execute_command(*words)
        for each in answer if isinstance(answer, list) else [answer]:
            print(each.decode() if isinstance(each, bytes) else "OK" if each is True else each, flush=True)

    def client(self, database: str) -> contextlib.AbstractContextManager[redis.Redis]:
        return redis_client(self._kubectl, NAMESPACE, database)

    def _is_terminating(self, name: str) -> bool:
        words = (
            "get",
            "sdb",
            name,
            "-n",
            NAMESPACE,
            "--ignore-not-found",
            "-o",
            "jsonpath={.metadata.deletionTimestamp}",
        )
        return bool(self._kubectl(*words).strip())

    def _blockers(self, name: str) -> set[str]:
        status = self._kubectl.get("sdb", name, "-n", NAMESPACE).get("status", {})
        return {each["kind"] for each in status.get("deletion", {}).get("blockedBy", ())}


def _bucket_secret() -> dict[str, object]:
    keys = {
        "AWS_ENDPOINT": addons.S3_ENDPOINT,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shop-bucket"}, "stringData": keys}


def farewell(cluster: Provider, seconds: float) -> None:
    say(f"Done, in {seconds:.0f} s. The cluster stays up; look around:")
    print(
        f"  export KUBECONFIG={cluster.names.kubeconfig} "
        f"PATH={cluster.kubectl().installed()}:{Path(sys.executable).parent}:$PATH\n"
        f"  kubectl -n {NAMESPACE} get slate          # all objects of ours\n"
        f"  kubectl -n {NAMESPACE} describe sdb orders\n"
        f"  kubectl explain sdb.spec                  # every field, documented\n"
        f"  kubectl slate -n {NAMESPACE} connect orders\n"
        f"  make demo-down                           # remove everything"
    )


if __name__ == "__main__":
    raise SystemExit(main())
