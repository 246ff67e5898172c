"""What a load promises, on virtual time: all rows or none, the newest of all, and nothing of it garbage before its time."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest

from slate_engine.errors import DataError, Fenced, InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import ALL
from slate_engine.format.sst_meta import Codec
from slate_engine.gc.collector import collect_once
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.commit import Change
from slate_engine.lsm.compaction.commit import take_epoch
from slate_engine.lsm.compaction.compactor import compact_once
from slate_engine.lsm.compaction.plan import Major
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.table import Table
from slate_engine.lsm.tenure import Tenure
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.spark.load import commit as committing
from slate_engine.spark.load.commit import abandon_load, commit_load
from slate_engine.spark.load.intent import QUIET_SECONDS, Intent, WriterAlive
from slate_engine.spark.load.result import Loaded
from slate_engine.state.compactions import Compaction, CompactionStatus, TieredSpec
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import CompactionsStore
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import ObjectStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.spark.loads import begun, built
from tests.unit.admin.crashes import at_every_request
from tests.unit.admin.workshop import Database

HOUR_MS = 3_600_000
AT_ONCE = Task(min_age=0)
GREEDY = GcOptions(manifests=AT_ONCE, wal=AT_ONCE, fences=AT_ONCE, compacted=AT_ONCE, compactions=AT_ONCE)
"""A collector that takes everything that it may."""

NEW = {b"%03d" % key: b"new" for key in range(0, 100, 2)}
OLD = {b"%03d" % key: b"old" for key in range(0, 100, 3)}


def database(store: ObjectStore, runtime: SimulatedRuntime) -> DatabaseFiles:
    return DatabaseFiles(store, "db", runtime)


async def loaded(files: DatabaseFiles, **options: object) -> Intent:
    """All of NEW, by two tasks."""
    intent = await begun(files, range_partitioned=True, **options)
    low = {key: value for key, value in NEW.items() if key < b"050"}
    high = {key: value for key, value in NEW.items() if key >= b"050"}
    parts = [await built(files, intent, 1, high), await built(files, intent, 0, low)]
    await commit_load(files, intent, parts)
    return intent


def test_a_new_database_has_all_rows_in_one_run_with_one_number() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = Database(MemoryStore(runtime), runtime)
        intent = await loaded(db.files)
        manifest = await db.manifest()
        assert await db.values() == NEW
        assert [len(run.views) for run in manifest.root.runs] == [2]
        assert manifest.last_l0_seq == intent.seq
        snapshot = await db.files.latest()
        assert {row[2] async for rows in snapshot.scan(ALL) for row in rows.tuples()} == {intent.seq}

    simulate(scenario, 1)


def test_rows_of_a_load_are_newer_than_level_0_and_the_log() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await Database(MemoryStore(runtime), runtime).make()
        await db.flush(OLD)
        await db.flush({b"000": b"newer", b"zzz": b"flushed"})
        await db.log(1, {b"001": b"logged", b"002": b"logged"})
        await runtime.sleep(QUIET_SECONDS + 1)
        await loaded(db.files)
        assert await db.values() == {**OLD, b"zzz": b"flushed", b"001": b"logged", **NEW}
        manifest = await db.manifest()
        assert len(manifest.root.l0) == 0
        # Whoever writes next goes on after the load, and the log is not replayed over it.
        writer = await Writer.open(db.files, WriterOptions())
        assert writer.last_seq == manifest.last_l0_seq
        await writer.close()
        assert (await db.values())[b"002"] == b"new"

    simulate(scenario, 1)


def test_a_row_without_a_value_deletes() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await Database(MemoryStore(runtime), runtime).make()
        await db.flush(OLD)
        await runtime.sleep(QUIET_SECONDS + 1)
        intent = await begun(db.files)
        await commit_load(db.files, intent, [await built(db.files, intent, 0, {b"000": None, b"x": b"1"})])
        assert await db.values() == {key: value for key, value in {**OLD, b"x": b"1"}.items() if key != b"000"}

    simulate(scenario, 1)


def test_partitions_that_overlap_are_one_commit_with_one_number() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = Database(MemoryStore(runtime), runtime)
        intent = await begun(db.files)
        ranges = [(b"a", b"m"), (b"c", b"d"), (b"n", b"z"), (b"b", b"y")]
        parts = [await built(db.files, intent, i, dict.fromkeys(keys, b"%d" % i)) for i, keys in enumerate(ranges)]
        await commit_load(db.files, intent, [*reversed(parts)])
        assert await db.values() == {key: b"%d" % i for i, keys in enumerate(ranges) for key in keys}
        manifest = await db.manifest()
        # 0 and 2 are apart, and share a run; 1 and 3 lie over 0 and over one another.
        assert sorted(len(run.views) for run in manifest.root.runs) == [1, 1, 2]
        assert manifest.last_l0_seq == intent.seq
        snapshot = await db.files.latest()
        assert {row[2] async for rows in snapshot.scan(ALL) for row in rows.tuples()} == {intent.seq}

    simulate(scenario, 1)


@pytest.mark.parametrize("codec", [None, Codec.ZSTD])
@pytest.mark.parametrize("later", [b"2", None])
def test_a_key_in_two_partitions_is_found_wherever_it_is(codec: Codec | None, later: bytes | None) -> None:
    """Thousands of rows, so that there are many pieces to look through; a deletion counts as a row."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = Database(MemoryStore(runtime), runtime)
        intent = await begun(db.files, codec=codec, sst_bytes=64 << 10, memory_bytes=1 << 20)
        keys = [b"%06d" % key for key in range(40_000)]
        parts = [await built(db.files, intent, i, dict.fromkeys(keys[i::2], b"1" * 100)) for i in range(2)]
        twice = await built(db.files, intent, 2, {b"000000-": b"1", keys[27_183]: later, b"9": b"1"})
        with pytest.raises(InvalidError, match="two partitions have a row with the key b'027183'"):
            await commit_load(db.files, intent, [*parts, twice])
        assert await db.files.manifests.latest() is None
        once = await built(db.files, intent, 2, {b"000000-": b"1", b"9": b"1"})
        await commit_load(db.files, intent, [*parts, once])
        assert len(await db.values()) == len(keys) + 2

    simulate(scenario, 1)


def test_of_partitions_that_are_apart_nothing_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = Database(MemoryStore(runtime), runtime)
        intent = await begun(db.files)
        parts = [
            await built(db.files, intent, i, dict.fromkeys(keys, b"1"))
            for i, keys in enumerate([(b"a", b"b"), (b"c", b"d")])
        ]
        monkeypatch.delattr(Table, "rows_in")
        await commit_load(db.files, intent, parts)

    simulate(scenario, 1)


def test_partitions_that_share_a_number_must_not_overlap() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = Database(MemoryStore(runtime), runtime)
        intent = await begun(db.files, range_partitioned=True)
        parts = [await built(db.files, intent, i, {b"a": b"1", b"%d" % i: b"2"}) for i in range(2)]
        with pytest.raises(InvalidError, match="partitions 0 and 1 of the load overlap"):
            await commit_load(db.files, intent, parts)
        assert await db.files.manifests.latest() is None

    simulate(scenario, 1)


# --- garbage collection ----------------------------------------------------------------------------------------------


async def load_beside_a_greedy_collector(runtime: SimulatedRuntime, duration_ms: int) -> None:
    """A load that lasts for eight hours, while others flush and compact, and a collector takes all that it may."""
    db = await Database(MemoryStore(runtime), runtime).make()
    await db.flush(OLD)
    await runtime.sleep(QUIET_SECONDS + 1)
    intent = await begun(db.files, range_partitioned=True, max_duration_ms=duration_ms)
    parts = []
    for hour in range(8):
        parts.append(await built(db.files, intent, hour, {b"%d" % hour: b"loaded"}))
        runtime.skew_ms += HOUR_MS
        await db.flush({b"beside": b"%d" % hour})
        await runtime.sleep(1)
        await db.compact()
        await db.compact_nothing()
        await runtime.sleep(1)
        await db.flush({b"beside": b"again"})
        assert (await collect_once(db.files, GREEDY)).errors == []
    await runtime.sleep(QUIET_SECONDS + 300)
    await commit_load(db.files, intent, parts)
    await collect_once(db.files, GREEDY)
    expected = {**OLD, b"beside": b"again", **{b"%d" % hour: b"loaded" for hour in range(8)}}
    assert await db.values() == expected


def test_no_collector_takes_what_is_not_yet_committed() -> None:
    simulate(lambda runtime: load_beside_a_greedy_collector(runtime, 24 * HOUR_MS), 1)


def test_without_the_time_in_the_names_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with names of now, which is what keeps everything else: the load notices, and commits nothing."""
    monkeypatch.setattr("slate_engine.spark.load.intent.SPREAD_MS", 0.0)
    monkeypatch.setattr(Intent, "check_time", lambda intent, now_ms: None)
    with pytest.raises(DataError, match="is gone or cut short"):
        simulate(lambda runtime: load_beside_a_greedy_collector(runtime, 0), 1)


def test_a_load_that_takes_too_long_is_refused() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = Database(MemoryStore(runtime), runtime)
        intent = await begun(db.files, max_duration_ms=60_000)
        part = await built(db.files, intent, 0, {b"a": b"1"})
        runtime.skew_ms += 60_000 + 2 * HOUR_MS
        with pytest.raises(InvalidError, match="maxDuration"):
            await commit_load(db.files, intent, [part])
        assert await db.files.manifests.latest() is None

    simulate(scenario, 1)


def test_what_a_dead_load_left_is_garbage_in_the_end() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await Database(MemoryStore(runtime), runtime).make()
        await runtime.sleep(QUIET_SECONDS + 1)
        intent = await begun(db.files, max_duration_ms=HOUR_MS)
        await built(db.files, intent, 0, {b"a": b"1"})
        runtime.skew_ms += 4 * HOUR_MS
        await db.flush(OLD)
        await runtime.sleep(1)
        await db.compact_nothing()
        await runtime.sleep(1)
        await db.flush(OLD)
        await collect_once(db.files, GREEDY)
        assert not [name for name in await db.names("compacted") if name.startswith(intent.name_prefix)]

    simulate(scenario, 1)


def test_a_database_that_is_only_ever_loaded_can_be_collected() -> None:
    """Level 0 has never had an SST, whose time says which others nobody will publish any more."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = Database(MemoryStore(runtime), runtime)
        dead = await begun(db.files, max_duration_ms=HOUR_MS)
        await built(db.files, dead, 0, {b"a": b"dead"})
        for day in range(2):
            intent = await begun(db.files, max_duration_ms=HOUR_MS)
            await commit_load(db.files, intent, [await built(db.files, intent, 0, {b"a": b"%d" % day, b"b": b"1"})])
            runtime.skew_ms += 24 * HOUR_MS
            await db.compact()
        await runtime.sleep(1)
        await db.compact_nothing()
        intent = await begun(db.files, max_duration_ms=HOUR_MS)
        await commit_load(db.files, intent, [await built(db.files, intent, 0, {b"b": b"2"})])
        runtime.skew_ms += 24 * HOUR_MS
        assert (await collect_once(db.files, GREEDY)).errors == []
        assert set(await db.names("compacted")) == {f"{id}.sst" for id in (await db.manifest()).ssts.id}
        assert await db.values() == {b"a": b"1", b"b": b"2"}

    simulate(scenario, 1)


# --- crashes and lost answers ----------------------------------------------------------------------------------------


def test_a_commit_that_dies_at_any_request_leaves_all_or_nothing_and_can_be_made_again() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        before = {**OLD, b"001": b"logged"}
        made: dict[int, tuple[Intent, list[object]]] = {}

        async def world() -> MemoryStore:
            store = MemoryStore(runtime)
            db = await Database(store, runtime).make()
            await db.flush(OLD)
            await db.log(1, {b"001": b"logged"})
            await runtime.sleep(QUIET_SECONDS + 1)
            intent = await begun(db.files, range_partitioned=True)
            made[id(store)] = intent, [await built(db.files, intent, 0, NEW)]
            made[0] = made[id(store)]
            return store

        async def work(store: ObjectStore) -> None:
            intent, parts = made[0]
            await commit_load(database(store, runtime), intent, parts)  # type: ignore[arg-type]

        async def afterwards(bucket: MemoryStore) -> None:
            db = Database(bucket, runtime)
            assert await db.values() in (before, {**before, **NEW})
            intent, parts = made[id(bucket)]
            await runtime.sleep(QUIET_SECONDS + 1)
            await commit_load(db.files, intent, parts)  # type: ignore[arg-type]
            assert await db.values() == {**before, **NEW}

        assert await at_every_request(world, work, afterwards) > 10

    simulate(scenario, 1)


def test_a_load_that_is_given_up_leaves_nothing() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await Database(MemoryStore(runtime), runtime).make()
        await db.flush(OLD)
        await runtime.sleep(QUIET_SECONDS + 1)
        kept = await db.names("compacted")
        intent = await begun(db.files)
        await built(db.files, intent, 0, NEW)
        await abandon_load(db.files, intent)
        assert await db.names("compacted") == kept
        assert await db.values() == OLD

    simulate(scenario, 1)


def test_a_load_that_was_committed_after_all_is_not_given_up() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = Database(MemoryStore(runtime), runtime)
        intent = await loaded(db.files)
        await abandon_load(db.files, intent)
        assert await db.values() == NEW

    simulate(scenario, 1)


def test_a_commit_still_on_its_way_cannot_win_after_the_load_was_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last request of a commit hangs; the driver gives up and deletes the SSTs; then the request arrives."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await Database(MemoryStore(runtime), runtime).make()
        await db.flush(OLD)
        await runtime.sleep(QUIET_SECONDS + 1)
        intent = await begun(db.files)
        part = await built(db.files, intent, 0, NEW)
        given_up = asyncio.Event()
        reached = asyncio.Event()
        slow = db.files
        create = slow.manifests.objects.create_next

        async def late(after_id: int, data: object) -> int:
            shows_load = len(data) > 400  # type: ignore[arg-type]  # the claim before it is smaller
            if shows_load:
                reached.set()
                await given_up.wait()
            return await create(after_id, data)  # type: ignore[arg-type]

        monkeypatch.setattr(slow.manifests.objects, "create_next", late)
        monkeypatch.setattr(slow.manifests, "_patience", -1.0)  # it tries once
        commit = asyncio.ensure_future(commit_load(slow, intent, [part]))
        await reached.wait()
        await abandon_load(db.files, intent)
        given_up.set()
        with contextlib.suppress(Exception):
            await commit
        assert await db.values() == OLD

    simulate(scenario, 1)


def test_what_fails_behind_the_commit_does_not_fail_the_load(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever is told that it has failed would load again, on top of it."""

    async def away(*_: object, **__: object) -> None:
        raise OSError("the store is away")

    async def scenario(runtime: SimulatedRuntime) -> None:
        for broken in ("leave_name", "_delete"):
            db = await Database(MemoryStore(runtime), runtime).make()
            await runtime.sleep(QUIET_SECONDS + 1)
            intent = await begun(db.files)
            part = await built(db.files, intent, 0, NEW)
            with monkeypatch.context() as patch:
                patch.setattr(committing, broken, away)
                committed = await commit_load(db.files, intent, [part])
            assert committed is not None
            assert await db.values() == NEW
            assert f"the load was committed as manifest {committed.id}" in caplog.text
            caplog.clear()

    simulate(scenario, 1)


def test_leftovers_of_attempts_that_do_not_count_are_deleted() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = Database(MemoryStore(runtime), runtime)
        intent = await begun(db.files)
        await built(db.files, intent, 0, NEW)  # an attempt that Spark did not take
        await commit_load(db.files, intent, [await built(db.files, intent, 0, NEW)])
        assert len(await db.names("compacted")) == 1
        assert await db.values() == NEW

    simulate(scenario, 1)


# --- others who write ------------------------------------------------------------------------------------------------


def test_a_writer_of_ours_goes_on_until_the_commit_and_loses_nothing() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = MemoryStore(runtime)
        db = Database(store, runtime)
        writer = await Writer.open(database(store, runtime), WriterOptions())
        await put(writer, b"before", b"1")
        intent = await begun(db.files)
        part = await built(db.files, intent, 0, {**NEW, b"both": b"load"})
        await put(writer, b"meanwhile", b"2")
        await put(writer, b"both", b"writer")
        await commit_load(db.files, intent, [part])
        with pytest.raises(Fenced):
            await put(writer, b"after", b"3")
        assert await db.values() == {**NEW, b"before": b"1", b"meanwhile": b"2", b"both": b"load"}
        again = await Writer.open(database(store, runtime), WriterOptions())
        await put(again, b"both", b"writer")
        await again.close()
        assert (await db.values())[b"both"] == b"writer"

    simulate(scenario, 1)


def test_a_stranger_who_writes_is_left_alone_unless_one_insists() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await Database(MemoryStore(runtime), runtime).make()
        await runtime.sleep(QUIET_SECONDS + 1)
        intent = await begun(db.files)
        part = await built(db.files, intent, 0, NEW)
        await db.log(1, {b"a": b"1"})  # unsigned, as the original's are
        with pytest.raises(WriterAlive, match="takeOver=true"):
            await begun(db.files)
        with pytest.raises(WriterAlive):
            await commit_load(db.files, intent, [part])
        assert await db.values() == {b"a": b"1"}
        await commit_load(db.files, replace(intent, options=replace(intent.options, take_over=True)), [part])
        assert await db.values() == {b"a": b"1", **NEW}

    simulate(scenario, 1)


def test_another_load_in_between_is_noticed() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = Database(MemoryStore(runtime), runtime)
        first, second = await begun(db.files), await begun(db.files)
        parts = [await built(db.files, intent, 0, NEW) for intent in (first, second)]
        await commit_load(db.files, first, [parts[0]])
        with pytest.raises(InvalidError, match="or another load"):
            await commit_load(db.files, second, [parts[1]])
        assert await db.values() == NEW

    simulate(scenario, 1)


def test_a_database_that_became_another_writers_during_the_commit_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await Database(MemoryStore(runtime), runtime).make()
        await runtime.sleep(QUIET_SECONDS + 1)
        intent = await begun(db.files)
        part = await built(db.files, intent, 0, NEW)
        with_log = committing._with_log

        async def overtaken(tenure: Tenure, intent: Intent, loaded: Loaded) -> Loaded:
            ready = await with_log(tenure, intent, loaded)
            writer = await Writer.open(db.files, WriterOptions())
            await put(writer, b"winner", b"1")
            await writer.close()
            return ready

        monkeypatch.setattr(committing, "_with_log", overtaken)
        with pytest.raises(Fenced):
            await commit_load(db.files, intent, [part])
        assert await db.values() == {b"winner": b"1"}

    simulate(scenario, 1)


def test_a_job_in_the_book_is_not_carried_out_over_the_rows_of_a_load() -> None:
    """A compactor of ours has planned level 0, which the load makes sorted runs of: it must not put its result above."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await Database(MemoryStore(runtime), runtime).make()
        await db.flush({b"a": b"old", b"b": b"old"})
        await db.flush({b"b": b"older"})
        book = CompactionsStore.open(db.files.store, db.files.paths.root, runtime)
        claim = await take_epoch(db.files, book)
        level_0 = tuple(view.id for view in (await db.manifest()).root.l0)
        job = Compaction(Ulid.new(runtime), TieredSpec(level_0, (), 0), CompactionStatus.SCHEDULED)
        await book.update(lambda old: old.with_job(job))
        await runtime.sleep(400)
        intent = await begun(db.files, take_over=True)
        part = await built(db.files, intent, 0, {b"a": b"load"})
        await commit_load(db.files, intent, [part])
        expected = {b"a": b"load", b"b": b"older"}
        assert await db.values() == expected
        assert (await db.manifest()).compactor_epoch > claim.epoch
        await compact_once(db.files, Major(), force=True)
        assert await db.values() == expected
        manifest = await db.manifest()
        assert (len(manifest.root.l0), len(manifest.root.runs)) == (0, 1)
        left = (await book.read_latest()).value.job(job.id)
        assert left is None or left.status is not CompactionStatus.SCHEDULED

    simulate(scenario, 1)


def test_segments_are_refused() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = Database(MemoryStore(runtime), runtime)
        await db.files.manifests.create_first(Manifest(segment_extractor_name="fixed3"))
        with pytest.raises(InvalidError, match="segment extractor 'fixed3'"):
            await begun(db.files)

    simulate(scenario, 1)


async def put(writer: Writer, key: bytes, value: bytes) -> None:
    commit = await writer.write([Change(key, value)])
    await writer.durable(commit.seq)
