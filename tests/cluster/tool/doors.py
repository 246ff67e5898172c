"""A way from this machine into a database of the cluster, as `kubectl slate connect` makes it for redis-cli."""

from __future__ import annotations

import base64
import contextlib
import re
import tempfile
from collections.abc import Iterator

import redis

from tests.cluster.tool.kubectl import Kubectl
from tests.cluster.tool.report import ClusterError


def secret(kubectl: Kubectl, namespace: str, name: str, key: str) -> str:
    return base64.b64decode(kubectl.get("secret", name, "-n", namespace)["data"][key]).decode()


@contextlib.contextmanager
def redis_client(kubectl: Kubectl, namespace: str, database: str, service: str = "") -> Iterator[redis.Redis]:
    """A Redis client by a port-forward. It trusts the database's own authority and shows the password that was made."""
    with (
        port_forward(kubectl, namespace, f"service/{service or database}", 6379) as port,
        tempfile.NamedTemporaryFile("w", suffix=".pem") as authority,
    ):
        authority.write(secret(kubectl, namespace, f"{database}-tls", "ca.crt"))
        authority.flush()
        with redis.Redis(
            port=port,
            password=secret(kubectl, namespace, f"{database}-auth", "password"),
            ssl=True,
            ssl_ca_certs=authority.name,
            ssl_check_hostname=False,  # this end is called localhost
            socket_timeout=30,
        ) as client:
            yield client


@contextlib.contextmanager
def port_forward(kubectl: Kubectl, namespace: str, what: str, port: int) -> Iterator[int]:
    """The port of this machine that leads there."""
    forward = kubectl.start("-n", namespace, "port-forward", what, f":{port}")
    try:
        assert forward.stdout is not None
        line = forward.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if found is None:
            raise ClusterError(f"there is no way to {what}: {line.strip()}")
        yield int(found[1])
    finally:
        forward.kill()
        forward.wait()
