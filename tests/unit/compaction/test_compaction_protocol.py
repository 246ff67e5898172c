"""What a compactor writes, in which order, and what it does when others or the store get in its way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import slatedb.uniffi as u
from prometheus_client import CollectorRegistry

from slate_engine.errors import CorruptData, Error, Fenced, InvalidError
from slate_engine.format.columns import HAS_CREATE
from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction.compactor import EmbeddedCompactor, compact_once
from slate_engine.lsm.compaction.guard import QUIET_SECONDS, CompactorAlive
from slate_engine.lsm.compaction.metrics import CompactionMetrics
from slate_engine.lsm.compaction.options import CompactorOptions
from slate_engine.lsm.compaction.plan import Major, SizeTiered
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.row import Row
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, DrainSpec, Spec, TieredSpec
from slate_engine.state.compactions_read import decode_compactions
from slate_engine.state.epochs import claim_compactor
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.store.faults import Fault, FaultyStore, Strike
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import StoreUnavailable
from slate_engine.store.retry import RetryingStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.compaction.databases import OPTIONS, WRITES, Mortal, Scribe, book_of, compact, open_files, rows_of

COMPLETED, FAILED, SUBMITTED = CompactionStatus.COMPLETED, CompactionStatus.FAILED, CompactionStatus.SUBMITTED
POLICY = SizeTiered()


async def make(runtime: SimulatedRuntime, flushes: int = 5, segment: bytes = b"") -> tuple[MemoryStore, DatabaseFiles]:
    store = MemoryStore(runtime)
    files = open_files(store, runtime)
    scribe = await Scribe(files).create()
    for _ in range(flushes):
        await scribe.flush(segment=segment)
        await runtime.sleep(0.1)
    return store, files


async def settled(condition: Callable[[], Awaitable[bool]], runtime: SimulatedRuntime, seconds: float = 600) -> None:
    """Let virtual time pass until ``condition`` holds."""
    end = runtime.monotonic() + seconds
    while not await condition():
        assert runtime.monotonic() < end, "what the test waits for does not happen"
        await runtime.sleep(0.5)


# --- the order of writes ---------------------------------------------------------------------------------------------


def test_every_step_is_written_before_the_one_that_relies_on_it() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store, files = await make(runtime)
        before = await files.manifest()
        mortal = Mortal(store, runtime)
        await compact(open_files(mortal, runtime), POLICY)
        writes = [key for operation, key in mortal.requests if operation in WRITES]
        first_output = next(i for i, key in enumerate(writes) if "/compacted/" in key)
        book = await _book(store, [key for key in writes[:first_output] if key.endswith(".compactions")][-1])
        (job,) = book.jobs
        assert job.is_active, "garbage collection goes by the job, so it is in the book before it writes"
        *_, protection, commit, end = writes
        kept, new = [decode_manifest((await store.get(key)).data, object=key) for key in (protection, commit)]
        assert kept.trees == before.trees, "the first manifest only adds a checkpoint"
        (checkpoint,) = kept.checkpoints
        assert protection.endswith(f"{checkpoint.manifest_id:020d}.manifest")
        assert checkpoint.expire_time_s == checkpoint.create_time_s + 900
        assert new.root.runs
        assert new.checkpoints == kept.checkpoints
        assert [each.status for each in (await _book(store, end)).jobs] == [COMPLETED]
        outputs = [Ulid.parse(key.rpartition("/")[2].removesuffix(".sst")) for key in writes if "/compacted/" in key]
        assert all(id.ms >= job.id.ms for id in outputs)
        assert sorted(outputs) == sorted(new.root.runs[0].views.ids), "views are named like their SSTs"

    simulate(scenario, 1)


def test_inputs_are_not_given_up_without_protection() -> None:
    """Somebody deletes the checkpoint in the very moment: it is made again before the inputs go."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        store, files = await make(runtime)
        before = await files.manifest()
        mortal = Mortal(store, runtime)
        deleted = 0

        async def meddle(operation: str, key: str) -> None:
            nonlocal deleted
            checkpoints = (await files.manifest()).checkpoints
            if operation == "put" and key.endswith(".manifest") and checkpoints and not deleted:
                deleted += 1
                await files.manifests.update(lambda old: replace(old, checkpoints=()))

        mortal.after = meddle
        await compact(open_files(mortal, runtime), POLICY)
        assert deleted == 1
        after = await files.manifest()
        (checkpoint,) = after.checkpoints
        assert after.root.runs
        assert (await files.manifests.read(checkpoint.manifest_id)).trees == before.trees

    simulate(scenario, 15)


async def _book(store: MemoryStore, key: str) -> Compactions:
    return decode_compactions((await store.get(key)).data, object=key)


def test_ids_never_seem_older_than_what_is_there() -> None:
    """The clock of this process is an hour behind the one that wrote the book."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        _, files = await make(runtime)
        future = Ulid.new(runtime, runtime.now_ms() + 3_600_000)
        old = Compaction(future, TieredSpec((), (0,), 0), COMPLETED)
        await book_of(files).create_first(Compactions(0, (old,)))
        await compact(files, POLICY)
        (job,) = (await book_of(files).read_latest()).value.jobs
        assert job.id > future
        assert job.outputs.id.ms.min() >= future.ms

    simulate(scenario, 2)


def test_readers_of_the_inputs_are_not_disturbed() -> None:
    """A scan that began before the compaction, and every checkpoint, see what they saw."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        _, files = await make(runtime)
        expected = await rows_of(files)
        scan = (await files.latest()).scan(parts=(1,))
        seen = list((await anext(scan)).tuples())
        await compact(open_files(files.store, runtime), POLICY)
        seen += [row async for rows in scan for row in rows.tuples()]
        assert seen == expected
        assert await rows_of(open_files(files.store, runtime)) == expected
        (checkpoint,) = (await files.manifest()).checkpoints
        kept = await files.checkpoint(checkpoint.id)
        assert [row async for rows in kept.scan() for row in rows.tuples()] == expected

    simulate(scenario, 3)


# --- others ----------------------------------------------------------------------------------------------------------


def test_a_newer_compactor_fences_the_older_one() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        _, files = await make(runtime, 3)
        errors: list[Error] = []
        first = EmbeddedCompactor(open_files(files.store, runtime), OPTIONS, failed=errors.append)
        await first.start()
        second = EmbeddedCompactor(open_files(files.store, runtime), OPTIONS, failed=errors.append)
        await second.start()
        await runtime.sleep(10)
        assert [type(error) for error in errors] == [Fenced]
        scribe = Scribe(files, seq=1000)
        await scribe.flush()
        expected = await rows_of(files)

        async def is_compacted() -> bool:
            return not len((await files.manifest()).root.l0)

        await settled(is_compacted, runtime)
        assert await rows_of(files) == expected
        await first.close()
        await second.close()

    simulate(scenario, 4)


def test_a_fenced_compactor_commits_nothing() -> None:
    """It finds the newer epoch in the manifest, even before the newer one has come to the book."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        store, files = await make(runtime)
        before = (await files.manifest()).root
        slow = FaultyStore(
            store, runtime, [Fault(Strike.DELAY, frozenset({"put_stream"}), probability=1.0, seconds=20)]
        )
        running = asyncio.ensure_future(compact(open_files(RetryingStore(slow, runtime), runtime), POLICY))
        await runtime.sleep(5)
        await files.manifests.update(claim_compactor)
        with pytest.raises(Fenced):
            await running
        assert (await files.manifest()).root == before

    simulate(scenario, 5)


def test_jobs_that_others_submit_are_checked_and_done() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        _, files = await make(runtime, 3)
        await Scribe(files, seq=900).flush(segment=b"s")
        expected = [row for row in await rows_of(files) if not row.key.startswith(b"s")]
        root = (await files.manifest()).root
        segment = (await files.manifest()).trees.tree(b"s")
        assert segment is not None
        l0 = tuple(root.l0.ids)
        specs: list[Spec] = [
            TieredSpec(l0[1:], (), 7),
            TieredSpec(l0[:1], (), 9),
            DrainSpec(b"s", tuple(segment.l0.ids), ()),
        ]
        jobs = [Compaction(Ulid.new(runtime), spec) for spec in specs]
        await book_of(files).create_first(Compactions(0, tuple(sorted(jobs, key=lambda job: job.id))))
        report = await compact(files, SizeTiered(min_compaction_sources=99, max_compaction_sources=99))
        assert report.jobs >= 1
        manifest = await files.manifest()
        assert [run.id for run in manifest.root.runs] == [7]
        assert list(manifest.root.l0.ids) == list(l0[:1]), "it was not the oldest, so its job was refused"
        drained = manifest.trees.tree(b"s")
        assert drained is not None
        assert drained.is_empty
        assert await rows_of(files) == expected

    simulate(scenario, 6)


def test_what_does_not_overlap_is_moved_if_that_is_wanted() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        for wanted in (False, True):
            store = MemoryStore(runtime)
            files = open_files(store, runtime)
            scribe = await Scribe(files).create()
            for prefix in (b"c", b"a", b"d", b"b"):
                await scribe.add(_sample(scribe, prefix))
            expected = await rows_of(files)
            before = list((await files.manifest()).root.l0)
            mortal = Mortal(store, runtime)
            await compact(open_files(mortal, runtime), POLICY, replace(OPTIONS, enable_trivial_move=wanted))
            (run,) = (await files.manifest()).root.runs
            written = [key for operation, key in mortal.requests if operation == "put_stream"]
            assert bool(written) is not wanted
            if wanted:
                assert sorted(run.views, key=lambda view: view.id) == sorted(before, key=lambda view: view.id)
            assert await rows_of(files) == expected

    simulate(scenario, 7)


def _sample(scribe: Scribe, prefix: bytes) -> list[Row]:
    scribe.seq += 1
    return [Row(prefix + b"%02d" % i, b"v" * 50, scribe.seq, HAS_CREATE, 1, 0) for i in range(20)]


def test_a_stranger_at_work_is_not_disturbed_and_our_own_is_replaced() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        _, files = await make(runtime)
        await files.manifests.update(claim_compactor)
        await book_of(files).create_first(Compactions(1))
        with pytest.raises(CompactorAlive, match="force"):
            await compact_once(files, POLICY, OPTIONS)
        assert (await files.manifest()).compactor_epoch == 1, "nothing was taken"
        await runtime.sleep(QUIET_SECONDS + 1)
        assert (await compact_once(files, POLICY, OPTIONS)).jobs == 1
        assert (await compact_once(files, Major(rewrite=True), OPTIONS)).jobs == 1, "right after our own"

    simulate(scenario, 8)


def test_an_unfinished_clone_is_left_alone() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        _, files = await make(runtime)
        await files.manifests.update(lambda old: replace(old, initialized=False))
        with pytest.raises(InvalidError, match="not initialized"):
            await compact(files, POLICY)

    simulate(scenario, 9)


# --- trouble ---------------------------------------------------------------------------------------------------------


def test_a_corrupt_input_stops_its_job_and_nothing_else() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store, files = await make(runtime)
        healthy = Scribe(files, seq=2000)
        for _ in range(5):
            await healthy.flush(segment=b"s")
        damaged = files.paths.compacted((await files.manifest()).root.l0.ids[2])
        data = bytearray((await store.get(damaged)).data)
        data[100] ^= 1
        await store.put(damaged, bytes(data))
        before = (await files.manifest()).root
        registry = CollectorRegistry()
        mortal = Mortal(store, runtime)
        options = replace(OPTIONS, retry_failed_after=120.0)
        running = EmbeddedCompactor(open_files(mortal, runtime), options, metrics=CompactionMetrics(registry))
        await running.start()
        await runtime.sleep(100)
        after = await files.manifest()
        assert after.root == before, "no harm was done"
        segment = after.trees.tree(b"s")
        assert segment is not None
        assert not len(segment.l0), "others go on"
        assert _stopped(registry, damaged) == 1, "and it is not tried again at once"
        await runtime.sleep(100)
        assert _stopped(registry, damaged) == 2, "but after a while"
        # Repaired, it is compacted like any other.
        data[100] ^= 1
        await store.put(damaged, bytes(data))
        expected = await rows_of(files)

        async def is_compacted() -> bool:
            return not len((await files.manifest()).root.l0)

        await settled(is_compacted, runtime)
        assert await rows_of(files) == expected
        await running.close()

    simulate(scenario, 10)


def _stopped(registry: CollectorRegistry, object: str) -> float:
    return registry.get_sample_value("slate_compaction_corrupt_inputs_total", {"object": object}) or 0


def test_the_error_of_a_corrupt_input_names_the_object() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store, files = await make(runtime)
        damaged = files.paths.compacted((await files.manifest()).root.l0.ids[0])
        data = bytearray((await store.get(damaged)).data)
        data[50] ^= 1
        await store.put(damaged, bytes(data))
        report = await compact(files, POLICY)
        (error,) = report.errors
        assert isinstance(error, CorruptData)
        assert error.object == damaged
        (job,) = (await book_of(files).read_latest()).value.jobs
        assert job.status is FAILED

    simulate(scenario, 11)


@pytest.mark.parametrize("seed", range(6))
def test_bad_weather(seed: int) -> None:
    """Lost requests, lost answers, throttling: everything is done in the end, and done once."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        store, files = await make(runtime, 9)
        expected = await rows_of(files)
        faults = [
            Fault(Strike.BEFORE, probability=0.08),
            Fault(Strike.AFTER, probability=0.08),
            Fault(Strike.LATE, probability=0.03, seconds=7.0),
        ]
        faulty = FaultyStore(store, runtime, faults)
        running = EmbeddedCompactor(open_files(RetryingStore(faulty, runtime), runtime), OPTIONS)
        await running.start()

        async def is_compacted() -> bool:
            book = (await book_of(files).read_latest()).value
            return len((await files.manifest()).root.l0) < 4 and not any(job.is_active for job in book.jobs)

        await settled(is_compacted, runtime)
        assert await rows_of(open_files(store, runtime)) == expected
        faulty.faults.clear()
        await running.close()

    simulate(scenario, f"weather {seed}")


def test_a_full_store_puts_a_job_off() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store, files = await make(runtime)
        expected = await rows_of(files)
        full = Fault(
            Strike.BEFORE,
            frozenset({"put_stream"}),
            probability=1.0,
            error=lambda key: StoreUnavailable("no space left", retryable=False),
        )
        faulty = FaultyStore(store, runtime, [full])
        running = EmbeddedCompactor(open_files(RetryingStore(faulty, runtime), runtime), OPTIONS)
        await running.start()
        await runtime.sleep(60)
        assert len((await files.manifest()).root.l0) == 5
        assert await rows_of(files) == expected
        faulty.faults.clear()

        async def is_compacted() -> bool:
            return not len((await files.manifest()).root.l0)

        await settled(is_compacted, runtime)
        assert await rows_of(files) == expected
        await running.close()

    simulate(scenario, 12)


def test_closing_leaves_the_job_to_the_next_at_once() -> None:
    """The next compactor does not have to wait until the worker seems dead."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        store, files = await make(runtime)
        slow = FaultyStore(
            store, runtime, [Fault(Strike.DELAY, frozenset({"put_stream"}), probability=1.0, seconds=20)]
        )
        running = EmbeddedCompactor(open_files(RetryingStore(slow, runtime), runtime), OPTIONS)
        await running.start()
        await runtime.sleep(8)
        await running.close()
        (job,) = (await book_of(files).read_latest()).value.jobs
        assert job.status is CompactionStatus.SCHEDULED
        began = runtime.monotonic()
        await compact(files, POLICY)
        assert runtime.monotonic() - began < 5
        assert len((await files.manifest()).root.runs) == 1

    simulate(scenario, 13)


def test_metrics() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        _, files = await make(runtime)
        registry = CollectorRegistry()
        report = await compact_once(files, POLICY, OPTIONS, metrics=CompactionMetrics(registry))

        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(f"slate_compaction_{name}", labels)

        assert value("read_bytes_total") == report.bytes_read > 0
        assert value("written_bytes_total") == report.bytes_written > 0
        assert value("write_amplification") == 1 + report.bytes_written / (value("l0_bytes_total") or 0)
        assert value("bytes_per_second") == pytest.approx(report.bytes_read / (value("seconds_sum") or 0))
        assert value("jobs_total", outcome="completed") == 1
        assert value("book_jobs", status="completed") == 1
        assert value("sorted_runs") == 1
        assert value("l0_ssts") == value("backlog_bytes") == value("running") == 0
        assert value("seconds_count") == 1

    simulate(scenario, 14)


def test_defaults_are_those_of_slatedb() -> None:
    theirs = json.loads(u.Settings.default().to_json_string())["compactor_options"]
    mine = CompactorOptions()
    assert mine.worker is not None
    for name in ("max_concurrent_compactions", "enable_trivial_move"):
        assert getattr(mine, name) == theirs[name]
    for name in ("poll_interval", "commit_compacted_interval", "checkpoint_lifetime", "worker_heartbeat_timeout"):
        assert f"{getattr(mine, name):g}s" == theirs[name]
    worker = theirs["worker"]
    assert mine.worker.merge.max_sst_size == worker["max_sst_size"]
    assert mine.worker.merge.max_subcompactions == worker["max_subcompactions"]
    assert mine.worker.merge.sst.min_filter_keys == worker["min_filter_keys"]
    assert f"{mine.worker.heartbeat_interval:g}s" == worker["heartbeat_interval"]
    assert f"{mine.worker.compactions_poll_interval:g}s" == worker["compactions_poll_interval"]
