"""From the Secrets and the configuration that are made for a database to a process that opens its doors with them: a real
``slate serve gc``, over TLS, with the operator's own client."""

from __future__ import annotations

import asyncio
import base64
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from slate_operator.admin.client import Address, HttpDatabases
from slate_operator.admin.database import NotReached, Owner
from slate_operator.api.database import SlateDatabase
from slate_operator.build.certificates import hosts_of
from slate_operator.build.config import as_file, config_of
from slate_operator.build.naming import Family
from slate_operator.kube.cluster import SECRETS, Body
from slate_operator.names import ANNOTATION_ROTATE, Role
from slate_operator.reconcile.secrets import tend_secrets
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.world import World, world_of
from tests.server.processes import SLATE
from tests.servers.process import free_port

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def world(kinds: ApiServer) -> AsyncIterator[World]:
    async with world_of(kinds) as made:
        yield made


async def spread(world: World, folder: Path) -> None:
    """What kubelet does with a Secret that is mounted."""
    for name in ("admin", "tls"):
        secret = await world.get(SECRETS, f"orders-{name}")
        assert secret is not None
        for key, value in secret["data"].items():
            (folder / f"{name}-{key}").write_bytes(base64.b64decode(value))


def serve(config: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    loopback = ["--set", "http.host=127.0.0.1", "--set", f"http.port={port}"]
    with log.open("wb") as output:
        return subprocess.Popen(
            [SLATE, "serve", "gc", "--config", str(config), *loopback], stdout=output, stderr=output
        )


async def test_the_doors_of_a_collector_open_for_the_operator(world: World, tmp_path: Path) -> None:
    body: Body = {
        "metadata": {"name": "orders", "namespace": world.namespace, "uid": "6f1c7f6e-27b0-4b0a-9a3b-6b3f6a6f8a01"},
        "spec": {"store": {"url": f"file://{tmp_path}/bucket/orders"}},
    }
    database = SlateDatabase.of(body)
    await tend_secrets(world.cluster, database, world.clock, "cluster.local")
    await spread(world, tmp_path)

    told = config_of(database, Role.GC)
    told["http"] |= {
        "token_file": f"{tmp_path}/admin-tokens",
        "tls": {"certificate": f"{tmp_path}/tls-tls.crt", "key": f"{tmp_path}/tls-tls.key"},
    }
    (tmp_path / "config.yaml").write_text(as_file(told))
    port, log = free_port(), tmp_path / "log"
    process = serve(tmp_path / "config.yaml", port, log)
    name = hosts_of(Family.of(database), "cluster.local")[-2]
    databases = HttpDatabases(world.cluster, lambda family: Address("127.0.0.1", name, port))
    try:
        admin = databases.admin(database)
        owner = Owner(database.metadata.uid, world.namespace, "orders")
        for _ in range(600):
            try:
                await admin.claim(owner, "empty")
                break
            except NotReached:
                assert process.poll() is None, log.read_text()
                await asyncio.sleep(0.1)
        assert await admin.owner() == owner

        # Another token and another authority, and at no moment a closed door.
        rotated = SlateDatabase.of({**body, "metadata": {**body["metadata"], "annotations": {ANNOTATION_ROTATE: "1"}}})
        for ahead in (0.0, 200.0):
            world.clock.ahead = ahead
            await tend_secrets(world.cluster, rotated, world.clock, "cluster.local")
            assert await admin.owner() == owner, "before the pod has heard of it"
            await spread(world, tmp_path)
            await asyncio.sleep(1.1)  # the process looks at its token once a second
            assert await admin.owner() == owner, "when the pod has heard of it"
    finally:
        await databases.close()
        process.kill()
        process.wait()
