"""Collectors that run for as long as a process does, and the databases that they find."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from slate_engine.admin.destroying import destroy_softly
from slate_engine.errors import CorruptData, InvalidError
from slate_engine.gc.discovery import find_databases
from slate_engine.gc.loop import collect_all, collect_all_forever, collect_forever
from slate_engine.gc.options import GcOptions, Kind, Task
from slate_engine.gc.report import Report
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import StoreUnavailable
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.admin.workshop import CountingStore, Database

OPTIONS = GcOptions(
    manifests=Task(interval=100),
    wal=Task(interval=300),
    compacted=None,
    compactions=None,
    destroyed=Task(interval=100, min_age=1000),
)


def test_each_kind_at_its_own_pace_until_the_database_is_gone() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await Database(MemoryStore(runtime), runtime).make()
        reports: list[Report] = []
        collecting = asyncio.ensure_future(collect_forever(db.files, OPTIONS, reports.append))
        await runtime.sleep(1000)
        times = Counter(kind.kind for report in reports for kind in report.kinds)
        assert times[Kind.MANIFESTS] == 10
        assert times[Kind.WAL] == 4
        assert times[Kind.CHECKPOINTS] == 2
        assert Kind.COMPACTED not in times
        await destroy_softly(db.files)
        await runtime.sleep(900)
        assert not collecting.done()
        await runtime.sleep(200)
        assert collecting.done()
        assert reports[-1].gone
        assert not db.store._objects  # type: ignore[attr-defined]

    simulate(scenario, 1)


def test_a_database_that_is_made_where_another_one_was_is_collected_too() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = MemoryStore(runtime)
        files = Database(store, runtime).files
        for _ in range(2):
            db = await Database(store, runtime).make()
            for turn in range(3):
                await db.flush({b"a": b"%d" % turn})
            collecting = asyncio.ensure_future(collect_forever(files, OPTIONS))
            await runtime.sleep(1000)
            assert await db.names("manifest") == ["00000000000000000004.manifest"]
            await destroy_softly(db.files)
            await runtime.sleep(1200)
            assert collecting.done()
            assert store._objects == {}

    simulate(scenario, 1)


def test_trouble_with_the_store_passes() -> None:
    class Troubled(MemoryStore):
        away = False

        async def get(self, key: str, *, if_none_match: str | None = None) -> object:  # type: ignore[override]
            if self.away:
                raise StoreUnavailable("away")
            return await super().get(key, if_none_match=if_none_match)

    async def scenario(runtime: SimulatedRuntime) -> None:
        store = Troubled(runtime)
        db = await Database(store, runtime).make()
        reports: list[Report] = []
        collecting = asyncio.ensure_future(collect_forever(db.files, OPTIONS, reports.append))
        await runtime.sleep(150)
        store.away = True
        await runtime.sleep(300)
        seen = len(reports)
        store.away = False
        for _ in range(5):
            await db.flush({b"a": b""})
        await runtime.sleep(500)
        assert len(reports) > seen
        assert len(await db.names("manifest")) == 1
        collecting.cancel()
        with pytest.raises(InvalidError, match="nothing to do"):
            await collect_forever(db.files, GcOptions(**dict.fromkeys(kind.name.lower() for kind in Kind)))

    simulate(scenario, 1)


def test_one_process_for_all_databases_also_for_new_ones() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = MemoryStore(runtime)
        first = await Database(store, runtime, "team/a").make()
        await Database(store, runtime, "other/x").make()
        seen: Counter[str] = Counter()

        def observe(report: Report) -> None:
            seen[report.path] += 1

        collecting = asyncio.ensure_future(
            collect_all_forever(store, runtime, "team", OPTIONS, observe, look_interval=50)
        )
        await runtime.sleep(10)
        await Database(store, runtime, "team/deep/er/b").make()
        await runtime.sleep(1000)
        assert seen.keys() == {"team/a", "team/deep/er/b"}
        assert min(seen.values()) > 5
        await destroy_softly(first.files)
        await runtime.sleep(2000)
        assert await find_databases(store) == ["other/x", "team/deep/er/b"]
        before = seen["team/a"]
        await runtime.sleep(500)
        assert seen["team/a"] == before
        collecting.cancel()
        await asyncio.gather(collecting, return_exceptions=True)

    simulate(scenario, 1)


def test_one_pass_over_all_databases_tells_of_each_also_of_a_broken_one() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = MemoryStore(runtime)
        for path in ("team/a", "team/b", "team/c", "other/x"):
            db = await Database(store, runtime, path).make()
            await db.flush({b"a": b"1"})
        await store.put(f"team/b/manifest/{3:020d}.manifest", b"?")
        await runtime.sleep(1000)
        reports = [report async for report in collect_all(store, runtime, "team")]
        assert [report.path for report in reports] == ["team/a", "team/b", "team/c"]
        assert [len(list(report)) for report in reports] == [1, 0, 1]
        assert [type(report.trouble) for report in reports] == [type(None), CorruptData, type(None)]
        assert reports[1].errors == [reports[1].trouble]
        assert await Database(store, runtime, "other/x").names("manifest") != []

    simulate(scenario, 1)


@pytest.mark.parametrize("path", ["", "db", "a/b/c", "x/manifest", "gc", "wal/compacted"])
def test_a_database_is_found_wherever_it_is_for_a_few_requests(path: str) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = CountingStore(runtime)
        db = await Database(store, runtime, path).make()
        for number in range(3000):
            store._store(db.files.paths.under(f"compacted/{number:026d}.sst"), b"", "")
            store._store(db.files.paths.under(f"wal/{number:020d}.sst"), b"", "")
        await store.put("notes/manifest/readme", b"")
        await store.put("zzz", b"")
        store.take()
        assert await find_databases(store) == [path]
        assert sum(store.take().values()) <= 6
        assert await find_databases(store, "nowhere") == []

    simulate(scenario, 1)
