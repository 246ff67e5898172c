"""A role that is started again because the store did not answer."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from slate_engine.api.db import Db
from slate_engine.api.db_builder import DbBuilder
from slate_engine.errors import UnavailableError
from slate_engine.runtime import SystemRuntime
from slate_engine.server.config import Config, RespConfig, StoreConfig
from slate_engine.server.health import Health
from slate_engine.server.roles.role import Surroundings
from slate_engine.server.roles.writer import WriterRole


async def test_a_start_that_is_tried_again_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SystemRuntime()
    config = Config(store=StoreConfig(url="memory:///"), path="db", resp=RespConfig(port=0))
    surroundings = Surroundings(config, runtime, CollectorRegistry(), Health(runtime))
    role = WriterRole(surroundings)
    build, failures = DbBuilder.build, iter([True, True])

    async def fail_first(builder: DbBuilder) -> Db:
        if next(failures, False):
            raise UnavailableError("no answer")
        return await build(builder)

    monkeypatch.setattr(DbBuilder, "build", fail_first)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await role.start()
    await role.start()
    shown = generate_latest(surroundings.registry).decode().splitlines()
    assert sum(line.startswith("slatedb_db_write_ops_total ") for line in shown) == 1
    await role.drain(5)
