"""A loop that is stuck makes a service not alive, by name; a store that is slow does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.enums import FlushType
from slate_engine.api.object_store import ObjectStore
from slate_engine.api.options import FlushOptions
from slate_engine.api.settings import Settings
from slate_engine.gc.collector import Collector
from slate_engine.lsm.compaction.coordinator import Coordinator
from slate_engine.lsm.compaction.execution import Execution
from slate_engine.lsm.compaction.worker import CompactionWorker
from slate_engine.lsm.flusher import Flusher
from slate_engine.lsm.loops import Loop, Watch
from slate_engine.lsm.reader import Reader
from slate_engine.lsm.wal_writer import WalWriter
from slate_engine.lsm.writer import Writer
from slate_engine.runtime import SystemRuntime
from slate_engine.server import health as health_module
from slate_engine.server.config import Config
from slate_engine.server.gate import Gate
from slate_engine.server.health import Health
from slate_engine.server.http.application import application
from slate_engine.server.roles.compactor import CompactorRole
from slate_engine.server.roles.gc import GcRole
from slate_engine.server.roles.reader import ReaderRole
from slate_engine.server.roles.role import Role, Surroundings
from slate_engine.server.roles.writer import WriterRole
from slate_engine.store.open import open_store
from tests.server.resp.test_durability import HeldStore

STALL = 0.4
POLLS = {"manifest_poll_interval": "50ms", "compactor_options": None, "garbage_collector_options": None}
SETTINGS = {**POLLS, "compactor_options": {"poll_interval": "50ms", "worker": {"compactions_poll_interval": "50ms"}}}


@asynccontextmanager
async def running(role: Callable[[Surroundings], Role], url: str, **settings: Any) -> AsyncIterator[tuple[Any, Health]]:
    """A role as a process runs it, that is asked for its health."""
    config = Config.model_validate(
        {
            "store": {"url": url},
            "path": "db",
            "resp": {"port": 0},
            "reader": {"poll_seconds": 0.05, "checkpoint_seconds": 10},
            "gc": {"interval": 0.05},
            **settings,
        }
    )
    health = Health(STALL, starting=None)
    health.watch.open()
    made = role(Surroundings(config, SystemRuntime(), CollectorRegistry(), health))
    await made.start()
    try:
        yield made, health
    finally:
        await asyncio.wait_for(asyncio.gather(made.drain(1.0), return_exceptions=True), 20)


async def told(ask: Callable[[], list[str]]) -> str:
    async with asyncio.timeout(20):
        while True:
            if reasons := ask():
                return "; ".join(reasons)
            await asyncio.sleep(0.02)


async def for_ever(*args: object, **options: object) -> None:
    await asyncio.Event().wait()


async def make_database(url: str, path: str = "db") -> None:
    """With enough in level 0 to be compacted."""
    settings = Settings.default()
    settings.set("compactor_options", "null")
    builder = DbBuilder(path, ObjectStore.of(open_store(url, runtime=SystemRuntime())))
    builder.with_settings(settings)
    db = await builder.build()
    for number in range(6):
        await db.put(b"key:%d" % number, b"v" * 100)
        await db.flush_with_options(FlushOptions(flush_type=FlushType.MEM_TABLE))
    await db.shutdown()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}"


@pytest.mark.parametrize(
    ("place", "method", "loop"),
    [
        (WalWriter, "_encode", "writing the log"),
        (Flusher, "_flush", "flushing memtables"),
        (Writer, "refresh", "manifest"),
    ],
    ids=["log", "flush", "poll"],
)
async def test_a_writer(monkeypatch: pytest.MonkeyPatch, place: type, method: str, loop: str) -> None:
    async with running(WriterRole, "memory:///", settings=POLLS) as (role, health):
        await role._db.put(b"a", b"1")
        assert health.dead() == []
        monkeypatch.setattr(place, method, for_ever)
        await role._db.put(b"b", b"2")
        flushing = asyncio.ensure_future(role._flush(True))
        why = await told(health.dead)
        assert loop in why
        assert "has not gone round since" in why
        assert " UTC, " in why
        flushing.cancel()


async def test_a_reader(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    await make_database(url)
    async with running(ReaderRole, url) as (_, health):
        monkeypatch.setattr(Reader, "refresh", for_ever)
        assert "following the writer has not gone round" in await told(health.dead)


@pytest.mark.parametrize(
    ("place", "method", "loop"),
    [
        (Coordinator, "turn", "planning compactions"),
        (CompactionWorker, "claim", "claiming compactions"),
        (Execution, "run", "merging"),
    ],
)
async def test_a_compactor(monkeypatch: pytest.MonkeyPatch, url: str, place: type, method: str, loop: str) -> None:
    await make_database(url)
    monkeypatch.setattr(place, method, for_ever)
    async with running(CompactorRole, url, settings=SETTINGS) as (_, health):
        assert f"{loop} has not gone round" in await told(health.dead)


@pytest.mark.parametrize("prefix", ["", "all"], ids=["one", "all"])
async def test_a_collector(monkeypatch: pytest.MonkeyPatch, url: str, prefix: str) -> None:
    await make_database(url, "all/db")
    async with running(GcRole, url, path="all/db", gc={"interval": 0.05, "prefix": prefix}) as (_, health):
        monkeypatch.setattr(Collector, "collect", for_ever)
        assert "collecting the garbage of 'all/db' has not gone round" in await told(health.dead)


async def test_a_loop_that_broke_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Writer) -> Awaitable[None]:
        raise ZeroDivisionError("a defect")

    async with running(WriterRole, "memory:///", settings=POLLS) as (_, health):
        monkeypatch.setattr(Writer, "refresh", broken)
        why = await told(health.dead)
        assert "following the manifest broke down at" in why
        assert "ZeroDivisionError" in why


async def test_services_at_rest_and_at_work_are_alive(url: str) -> None:
    await make_database(url)
    async with (
        running(WriterRole, url, settings={**POLLS, "garbage_collector_options": {}}) as (role, writer),
        running(ReaderRole, url) as (_, reader),
        running(CompactorRole, url, settings=SETTINGS) as (_, compactor),
        running(GcRole, url) as (_, collector),
    ):
        for round in range(15):
            await role._db.put(b"key:%d" % round, b"v")
            await role._flush(round % 3 == 0)
            await asyncio.sleep(STALL / 5)
            assert [health.dead() for health in (writer, reader, compactor, collector)] == [[]] * 4
        names = {name for health in (writer, reader, compactor, collector) for name in health.watch.loops}
        assert {"writing the log", "flushing memtables", "following the manifest", "following the writer"} <= names
        assert {"planning compactions", "claiming compactions", "collecting the garbage of 'db'"} <= names


@pytest.mark.parametrize("slow", ["/wal/", "/manifest/"])
async def test_a_slow_store_is_no_wedge(monkeypatch: pytest.MonkeyPatch, slow: str) -> None:
    held = HeldStore(SystemRuntime(), slow)
    monkeypatch.setattr("slate_engine.server.roles.role.open_store", lambda *args, **options: held)
    monkeypatch.setattr(health_module, "SLOW", 0.1)
    async with running(WriterRole, "memory:///", settings=POLLS) as (role, health):
        held.free.clear()
        await role._db.put(b"a", b"1")
        flushing = asyncio.ensure_future(role._flush(True))
        assert "has waited for the store since" in await told(health.not_ready)
        await asyncio.sleep(3 * STALL)
        assert health.dead() == []
        held.free.set()
        await flushing
        assert health.not_ready() == []


async def test_what_probes_get(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, health = SystemRuntime(), Health(STALL, starting=None)
    health.watch.open()
    stuck = asyncio.ensure_future(_stand_still(Loop("turning", runtime)))
    made = application(Config().http, Gate(None, runtime), health, CollectorRegistry(), dict, runtime)
    livez = next(route for route in made.router.routes() if route.resource and route.resource.canonical == "/livez")
    request: Any = None
    response = await livez.handler(request)
    assert isinstance(response, web.Response)
    assert response.status == 200
    await told(health.dead)
    response = await livez.handler(request)
    assert isinstance(response, web.Response)
    assert response.status == 503
    assert str(response.text).startswith("not alive: turning has not gone round since ")
    stuck.cancel()


async def _stand_still(loop: Loop) -> None:
    with loop.running():
        await for_ever()


class Clock(SystemRuntime):
    """Stands still until it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


async def test_a_loop_that_oversleeps() -> None:
    clock, watch = Clock(), Watch()
    watch.open()
    loop = Loop("polling", clock)
    with loop.running():
        resting = asyncio.ensure_future(loop.rest(for_ever(), 10.0))
        await asyncio.sleep(0)
        clock.now += 15
        assert loop.stuck(5.0) is None
        clock.now += 1
        assert "polling was to go on at" in str(loop.stuck(5.0))
        resting.cancel()
        await asyncio.gather(resting, return_exceptions=True)
        assert watch.loops == {"polling": loop}
    assert watch.loops == {}
