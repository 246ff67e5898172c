"""The leases of managed readers, over hours of virtual time: kept while needed, renewed in time, given back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from slate_engine.errors import ClosedError, DataError
from slate_engine.format.ids import Ulid
from slate_engine.lsm.commit import Change
from slate_engine.lsm.leases import MOST_AHEAD_MS, SKEW_MS
from slate_engine.lsm.reader import Reader, ReaderOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.checkpoints import without_checkpoint, without_expired_checkpoints
from slate_engine.state.manifest import Manifest
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import NotFound, Object, StoreUnavailable
from tests.simulation.loop import SimulatedRuntime, simulate

OPTIONS = ReaderOptions(poll_interval=10.0, checkpoint_lifetime=60.0)


class Flaky(MemoryStore):
    """A store that can be switched off."""

    down = False

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        if self.down:
            raise StoreUnavailable("the store is down")
        return await super().get(key, if_none_match=if_none_match)


@dataclass
class World:
    runtime: SimulatedRuntime
    store: Flaky

    def files(self) -> DatabaseFiles:
        return DatabaseFiles(self.store, "db", self.runtime)

    async def writer(self) -> Writer:
        return await Writer.open(self.files(), WriterOptions())

    async def manifest(self) -> Manifest:
        return (await self.files().manifests.read_latest()).value

    async def checkpoints(self) -> list[str]:
        return [str(each.id) for each in (await self.manifest()).checkpoints]

    async def collect(self) -> int:
        """A garbage collector without mercy: expired checkpoints go, and at once every SST that nothing refers to."""
        manifests = self.files().manifests
        now = self.runtime.now_ms()
        newest = (await manifests.update(lambda old: without_expired_checkpoints(old, now_ms=now))).value
        kept = [newest, *[await manifests.read(each.manifest_id) for each in newest.checkpoints]]
        live = {str(id) for manifest in kept for id in manifest.ssts.id}
        doomed = []
        async for page in self.store.list("db/compacted/"):
            doomed += [meta.key for meta in page if meta.key[-30:-4] not in live]
        await self.store.delete(doomed)
        return len(doomed)

    async def replace_l0(self) -> None:
        """What a compaction does to readers: the same rows in other objects."""

        files = self.files()
        newest = (await files.manifests.read_latest()).value
        view = newest.root.l0[0]
        copy = Ulid.new(self.runtime, view.sst.id.ms + 1)
        await self.store.copy(files.paths.compacted(view.sst.id), files.paths.compacted(copy))
        moved = replace(view, id=copy, sst=replace(view.sst, id=copy))

        def change(old: Manifest) -> Manifest:
            views = type(old.root.l0).of([moved, *[each for each in old.root.l0 if each.id != view.id]])
            return old.with_root(replace(old.root, l0=views))

        await files.manifests.update(change)


def run(scenario: Callable[[World], Awaitable[Any]]) -> None:
    async def inside(runtime: SimulatedRuntime) -> None:
        await asyncio.wait_for(scenario(World(runtime, Flaky(runtime))), 6 * 3600)

    simulate(inside, 1)


async def keys(snapshot: Any) -> list[bytes]:
    return [key async for rows in snapshot.scan() for key in rows.keys]


async def written(world: World, key: bytes = b"k", *, flush: bool = True) -> Writer:
    writer = await world.writer()
    await writer.write([Change(key, b"v")])
    await (writer.flush_memtable() if flush else writer.flush_wal())
    return writer


def test_a_lease_is_renewed_as_long_as_the_reader_lives() -> None:
    async def scenario(world: World) -> None:
        writer = await written(world)
        reader = await Reader.managed(world.files(), OPTIONS)
        (lease,) = await world.checkpoints()
        for _ in range(20):
            await world.runtime.sleep(60)
            await world.collect()
            assert await world.checkpoints() == [lease]
        assert await keys(reader.snapshot()) == [b"k"]
        await reader.close()
        assert await world.checkpoints() == []
        await writer.close()

    run(scenario)


def test_a_lease_covers_the_log_that_is_written_by_then() -> None:
    async def scenario(world: World) -> None:
        writer = await written(world, flush=False)
        before = await world.manifest()
        reader = await Reader.managed(world.files(), OPTIONS)
        newest = await world.manifest()
        kept = await world.files().manifests.read(newest.checkpoints[0].manifest_id)
        assert before.wal_id_last_seen < writer.last_wal_id
        assert kept.wal_id_last_seen == writer.last_wal_id
        await reader.close()
        await writer.close()

    run(scenario)


def test_what_a_reader_scans_does_not_hold_up_the_event_loop() -> None:
    """Much is merged by the runtime, as in a writer."""

    async def scenario(world: World) -> None:
        writer = await written(world, b"a")
        for made in (Reader.managed(world.files(), OPTIONS), Reader.latest(world.files(), OPTIONS)):
            reader = await made
            assert reader.snapshot().runtime is world.runtime
            await reader.close()
        await writer.close()

    run(scenario)


def test_a_long_scan_outlives_compactions_and_collections() -> None:
    async def scenario(world: World) -> None:
        writer = await written(world, b"a")
        reader = await Reader.managed(world.files(), OPTIONS)
        scan = reader.snapshot()
        (first,) = await world.checkpoints()
        await world.replace_l0()
        await world.runtime.sleep(30)
        after = await world.checkpoints()
        assert first in after
        assert len(after) == 2, "the new state has a checkpoint of its own, the old one is still in use"
        for _ in range(20):
            await world.runtime.sleep(60)
            await world.collect()
            assert first in await world.checkpoints()
        assert await keys(scan) == [b"a"]
        assert await keys(reader.snapshot()) == [b"a"]
        del scan
        await world.runtime.sleep(30)
        assert first not in await world.checkpoints(), "nobody uses it any more"
        assert len(await world.checkpoints()) == 1
        assert await world.collect() == 1
        assert await keys(reader.snapshot()) == [b"a"]
        await reader.close()
        await writer.close()

    run(scenario)


def test_without_its_lease_such_a_scan_fails() -> None:
    """The test above would pass without leases if the collector were harmless. It is not."""

    async def scenario(world: World) -> None:
        writer = await written(world, b"a")
        reader = await Reader.latest(world.files(), OPTIONS)
        scan = reader.snapshot()
        await world.replace_l0()
        assert await world.collect() == 1
        with pytest.raises(NotFound):
            await keys(scan)
        await world.runtime.sleep(30)
        assert await keys(reader.snapshot()) == [b"a"]
        assert await world.checkpoints() == []
        await reader.close()
        await writer.close()

    run(scenario)


def test_a_reader_that_lost_its_lease_establishes_itself_again() -> None:
    async def scenario(world: World) -> None:
        writer = await written(world)
        reader = await Reader.managed(world.files(), OPTIONS)
        lost = reader.state.snapshot.lease
        assert lost is not None
        await world.files().manifests.update(lambda old: without_checkpoint(old, lost.id))
        await world.runtime.sleep(11)
        (renewed,) = await world.checkpoints()
        assert renewed != str(lost.id)
        await writer.write([Change(b"later", b"v")])
        await writer.flush_memtable()
        await world.runtime.sleep(11)
        assert await keys(reader.snapshot()) == [b"k", b"later"]
        await reader.close()
        assert await world.checkpoints() == []
        await writer.close()

    run(scenario)


def test_an_outage_longer_than_the_lifetime_is_survived(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        writer = await written(world)
        await writer.close()
        reader = await Reader.managed(world.files(), OPTIONS)
        (before,) = await world.checkpoints()
        assert await keys(reader.snapshot()) == [b"k"]
        world.store.down = True
        await world.runtime.sleep(300)
        assert reader.snapshot() is not None
        world.store.down = False
        await world.collect()
        assert await world.checkpoints() == []
        await world.runtime.sleep(21)
        (after,) = await world.checkpoints()
        assert after != before
        assert await keys(reader.snapshot()) == [b"k"]
        await reader.close()

    with caplog.at_level(logging.INFO, logger="slate_engine"):
        run(scenario)
    trouble = [record for record in caplog.records if "trying again" in record.message]
    assert len(trouble) == 1, "thirty failed polls are one trouble"
    assert any("follows its database again" in record.message for record in caplog.records)


class Late(SimulatedRuntime):
    """The clock of a process that is behind, or ahead."""

    def __init__(self, world: World, off_ms: int) -> None:
        super().__init__(world.runtime.loop, 2)
        self.off_ms = off_ms

    def now_ms(self) -> int:
        return super().now_ms() + self.off_ms


@pytest.mark.parametrize(("behind_s", "busy"), [(40, False), (3600, True)], ids=["a little", "far, but busy"])
def test_a_reader_whose_clock_is_behind_keeps_what_it_reads(behind_s: int, busy: bool) -> None:
    """By less than what every lease is given; or by an hour, where others write their times into the manifest."""

    async def scenario(world: World) -> None:
        writer = await written(world)
        late = DatabaseFiles(world.store, "db", Late(world, -1000 * behind_s))
        reader = await Reader.managed(late, OPTIONS)
        (lease,) = await world.checkpoints()
        scan = reader.snapshot()
        for _ in range(5):
            await world.runtime.sleep(25)
            if busy:
                await writer.write([Change(b"k", b"v")])
                await writer.flush_memtable()
            await world.collect()
            assert lease in await world.checkpoints()
        assert await keys(scan) == [b"k"]
        await reader.close()
        await writer.close()

    run(scenario)


def test_a_clock_that_is_years_ahead_is_not_believed() -> None:
    async def scenario(world: World) -> None:
        ahead = Late(world, 10 * 365 * MOST_AHEAD_MS)
        writer = await Writer.open(DatabaseFiles(world.store, "db", ahead), WriterOptions())
        await writer.write([Change(b"k", b"v")])
        await writer.flush_memtable()
        await writer.close()
        reader = await Reader.managed(world.files(), OPTIONS)
        (lease,) = (await world.manifest()).checkpoints
        assert lease.expire_time_s is not None
        lasts_ms = lease.expire_time_s * 1000 - world.runtime.now_ms()
        assert lasts_ms <= MOST_AHEAD_MS + SKEW_MS + 61_000
        await reader.close()

    run(scenario)


def test_closing_with_the_store_down_leaves_the_lease_to_expire() -> None:
    async def scenario(world: World) -> None:
        writer = await written(world)
        await writer.close()
        reader = await Reader.managed(world.files(), OPTIONS)
        world.store.down = True
        await reader.close()
        await reader.close()
        with pytest.raises(ClosedError):
            reader.snapshot()
        world.store.down = False
        assert len(await world.checkpoints()) == 1
        await world.runtime.sleep(62 + SKEW_MS / 1000)
        await world.collect()
        assert await world.checkpoints() == []

    run(scenario)


def test_changes_that_leave_the_ssts_alone_need_no_new_lease() -> None:
    async def scenario(world: World) -> None:
        writer = await written(world)
        reader = await Reader.managed(world.files(), OPTIONS)
        (lease,) = await world.checkpoints()
        for step in range(3):
            await writer.write([Change(b"log-%d" % step, b"v")])
            await writer.flush_wal()
            other = await Reader.managed(world.files(), OPTIONS)
            await other.close()
            await world.runtime.sleep(11)
            assert await world.checkpoints() == [lease]
            assert len(await keys(reader.snapshot())) == step + 2
        await reader.close()
        await writer.close()

    run(scenario)


def test_a_checkpoint_reader_misses_no_file_of_its_log() -> None:
    async def scenario(world: World) -> None:
        writer = await written(world, flush=False)
        reader = await Reader.managed(world.files(), OPTIONS)
        lease = reader.state.snapshot.lease
        assert lease is not None
        fixed = await Reader.at_checkpoint(world.files(), lease.id, OPTIONS)
        assert await keys(fixed.snapshot()) == [b"k"]
        await world.store.delete([world.files().paths.wal(writer.last_wal_id)])
        with pytest.raises(DataError, match="wal truncated at wal file"):
            await Reader.at_checkpoint(world.files(), lease.id, OPTIONS)
        await reader.close()
        await writer.close()

    run(scenario)


@pytest.mark.parametrize("opened", [True, False], ids=["a reader that looks again", "a new reader"])
def test_a_log_that_is_collected_under_a_reader_is_not_at_its_end(opened: bool) -> None:
    """What it was about to read of the log is in SSTs by now, and it shows that."""

    async def scenario(world: World) -> None:
        writer = await written(world, flush=False)
        reader = await Reader.latest(world.files(), OPTIONS) if opened else None
        await writer.write([Change(b"l", b"v")])
        await writer.flush_wal()
        get = world.store.get
        log_key = world.files().paths.wal(writer.last_wal_id)

        async def late(key: str, *, if_none_match: str | None = None) -> Object:
            if key == log_key and key in world.store._objects:
                world.store.get = get  # type: ignore[method-assign]
                await writer.flush_memtable()
                await world.store.delete([key])
            return await get(key, if_none_match=if_none_match)

        world.store.get = late  # type: ignore[method-assign]
        if reader is None:
            reader = await Reader.latest(world.files(), OPTIONS)
        else:
            await reader.refresh()
        assert log_key not in world.store._objects
        assert await keys(reader.snapshot()) == [b"k", b"l"]
        await reader.close()
        await writer.close()

    run(scenario)


def test_polls_cost_few_requests() -> None:
    async def scenario(world: World) -> None:
        writer = await written(world)
        await writer.close()
        reader = await Reader.latest(world.files(), OPTIONS)
        await world.runtime.sleep(25)
        asked: list[str] = []
        original = world.store.get

        async def counting(key: str, *, if_none_match: str | None = None) -> Object:
            asked.append(key)
            return await original(key, if_none_match=if_none_match)

        world.store.get = counting  # type: ignore[method-assign]
        await reader.refresh()
        assert len(asked) <= 3, asked
        await reader.close()

    run(scenario)
