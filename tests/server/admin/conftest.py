"""The admin API of a database in memory, asked over HTTP in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.object_store import ObjectStore
from slate_engine.gc.options import GcOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.server.admin.operations import Operations
from slate_engine.server.admin.routes import AdminApi
from slate_engine.server.admin.work import Workbench
from slate_engine.server.config import HttpConfig
from slate_engine.server.gate import Gate
from slate_engine.server.health import Health
from slate_engine.server.http.application import application
from slate_engine.store.memory import MemoryStore


@dataclass
class Api:
    files: DatabaseFiles
    operations: Operations
    admin: AdminApi
    client: TestClient[web.Request, web.Application]

    async def ask(self, method: str, path: str, document: Any = None, *, raw: bytes | None = None) -> tuple[int, Any]:
        body = {"data": raw} if raw is not None else {"json": document} if document is not None else {}
        async with self.client.request(method, path, **body) as answer:
            return answer.status, await answer.json(content_type=None) if await answer.read() else None

    async def done(self, id: str, work: dict[str, Any]) -> dict[str, Any]:
        """What has become of an operation when it has ended."""
        status, told = await self.ask("PUT", f"/v1/operations/{id}", {"work": work})
        assert status in (200, 202), told
        while told["state"] == "running":
            _, told = await self.ask("GET", f"/v1/operations/{id}")
        return dict(told)


async def make_database(store: MemoryStore) -> None:
    db = await DbBuilder("db", ObjectStore.of(store)).build()
    await db.put(b"a", b"1")
    await db.shutdown()


def files_of(store: MemoryStore) -> DatabaseFiles:
    return DatabaseFiles(store, "db", SystemRuntime())


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(SystemRuntime())


@pytest.fixture
async def api(store: MemoryStore) -> AsyncIterator[Api]:
    await make_database(store)
    files, options, runtime = files_of(store), GcOptions(), SystemRuntime()
    operations = Operations(files, Workbench(files, options).carry)
    admin = AdminApi(files, operations, options)
    made = application(
        HttpConfig(), Gate(None, runtime), Health(starting=None), CollectorRegistry(), lambda: {"role": "gc"}, runtime
    )
    admin.add_to(made)
    async with TestClient(TestServer(made)) as client:
        yield Api(files, operations, admin, client)
    await operations.close()
