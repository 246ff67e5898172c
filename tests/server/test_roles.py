"""A role that is started again because the store did not answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from slate_engine.api.db import Db
from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.prometheus import PrometheusMetricsRecorder
from slate_engine.errors import UnavailableError
from slate_engine.runtime import SystemRuntime
from slate_engine.server.config import Config, RespConfig, StoreConfig
from slate_engine.server.health import Health
from slate_engine.server.roles.role import Surroundings, facts_of
from slate_engine.server.roles.writer import WriterRole
from slate_engine.store.open import open_store
from slate_engine.store.protocol import ObjectStore


async def test_a_start_that_is_tried_again_opens_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SystemRuntime()
    config = Config(store=StoreConfig(url="memory:///"), path="db", resp=RespConfig(port=0))
    surroundings = Surroundings(config, runtime, CollectorRegistry(), Health())
    role = WriterRole(surroundings)
    build, failures = DbBuilder.build, iter([True, True])
    opened: list[str] = []
    recorders: list[PrometheusMetricsRecorder] = []

    async def fail_first(builder: DbBuilder) -> Db:
        if next(failures, False):
            raise UnavailableError("no answer")
        return await build(builder)

    def open_counted(url: str, *args: Any, **options: Any) -> ObjectStore:
        opened.append(url)
        return open_store(url, *args, **options)

    def recorder_counted(registry: CollectorRegistry) -> PrometheusMetricsRecorder:
        recorders.append(PrometheusMetricsRecorder(registry))
        return recorders[-1]

    monkeypatch.setattr(DbBuilder, "build", fail_first)
    monkeypatch.setattr("slate_engine.server.roles.role.open_store", open_counted)
    monkeypatch.setattr("slate_engine.server.roles.role.PrometheusMetricsRecorder", recorder_counted)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            await role.start()
    await role.start()
    assert opened == ["memory:///"]
    assert len(recorders) == 1
    await role.drain(5)


async def test_what_is_told_of_trouble_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for `/readyz` needs no token."""
    config = Config(store=StoreConfig(url="memory:///"), path="db", resp=RespConfig(port=0))
    health = Health(starting=None)
    role = WriterRole(Surroundings(config, SystemRuntime(), CollectorRegistry(), health))
    await role.start()
    healthy = role._open_db().vitals()
    assert facts_of(healthy)["trouble"] is None
    assert health.not_ready() == []
    ill = replace(healthy, trouble="no answer from https://user:hush@store/?sig=hush")
    monkeypatch.setattr(Db, "vitals", lambda db: ill)
    [told] = health.not_ready()
    assert told.startswith("nothing becomes durable at the moment: no answer")
    assert "hush" not in told + str(role.status())
    monkeypatch.undo()
    await role.drain(5)
