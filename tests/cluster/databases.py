"""Databases in a cluster, as their users have them: objects that are applied, and the Redis protocol to speak to."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from tests.cluster.fixtures import Bucket, Namespace
from tests.cluster.tool import doors
from tests.cluster.tool.kubectl import Manifest, until

API_VERSION = "slatekeeper.io/v1alpha1"
SECRET = "bucket-keys"
NO_DATABASE = 3
"""The exit code of ``slate`` where it finds none."""


def bucket_secret(bucket: Bucket, name: str = SECRET) -> Manifest:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": bucket.env()}


def object_of(kind: str, name: str, spec: Manifest) -> Manifest:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def state_in(bucket: Bucket, path: str, environment: Mapping[str, str]) -> str | None:
    """What the bucket says of a database, asked from here without any pod; None if there is none."""
    program = str(Path(sys.executable).parent / "slate")
    words = [program, "--store", bucket.url, "--path", path, "--output", "json", "status"]
    done = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60)
    if done.returncode == NO_DATABASE:
        return None
    assert done.returncode == 0, done.stderr
    state: str = json.loads(done.stdout)["state"]
    return state


@dataclass(frozen=True)
class Database:
    """One SlateDatabase."""

    namespace: Namespace
    name: str

    @staticmethod
    def made(namespace: Namespace, bucket: Bucket, name: str, **spec: Any) -> Database:
        """Applied, with the Secret that it needs; and not waited for."""
        small = {"requests": {"cpu": "20m", "memory": "128Mi"}}
        store = {"url": f"{bucket.url}/{name}", "secretRef": {"name": SECRET}}
        roles = {role: {"resources": small, **spec.pop(role, {})} for role in ("writer", "readers", "compactor", "gc")}
        namespace.apply(bucket_secret(bucket), object_of("SlateDatabase", name, {"store": store, **roles, **spec}))
        return Database(namespace, name)

    def get(self) -> Manifest:
        found: Manifest = json.loads(self.namespace("get", "sdb", self.name, "-o", "json"))
        return found

    @property
    def status(self) -> Manifest:
        status: Manifest = self.get().get("status", {})
        return status

    def condition(self, type: str) -> Manifest:
        return next((each for each in self.status.get("conditions", ()) if each["type"] == type), {})

    def patch(self, spec: Manifest) -> None:
        self.namespace("patch", "sdb", self.name, "--type=merge", "-p", json.dumps({"spec": spec}))

    def wait_ready(self, timeout: float = 180.0) -> Database:
        """Ready, and that of the spec as it is now."""

        def ready() -> bool:
            whole = self.get()
            found = next((e for e in whole.get("status", {}).get("conditions", ()) if e["type"] == "Ready"), {})
            current = found.get("observedGeneration") == whole["metadata"]["generation"]
            return current and found.get("status") == "True"

        assert until(ready, timeout=timeout, every=0.5), self.describe()
        return self

    def wait_for(self, type: str, reason: str, timeout: float = 120.0) -> Manifest:
        assert until(lambda: self.condition(type).get("reason") == reason, timeout=timeout, every=0.5), self.describe()
        return self.condition(type)

    def describe(self) -> str:
        pods = self.namespace("get", "pods", "-o", "wide")
        return f"{json.dumps(self.status, indent=1)}\n{pods}"

    def pods(self, role: str) -> list[Manifest]:
        """Those that are not ending."""
        labels = f"slatekeeper.io/database={self.name},slatekeeper.io/role={role}"
        found = json.loads(self.namespace("get", "pods", "-l", labels, "-o", "json"))["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def secret(self, name: str, key: str) -> str:
        return doors.secret(self.namespace.kubectl, self.namespace.name, name, key)

    def client(self, service: str = "") -> contextlib.AbstractContextManager[redis.Redis]:
        return doors.redis_client(self.namespace.kubectl, self.namespace.name, self.name, service)
