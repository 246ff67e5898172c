"""Compactors that come, go, crash and fight beside a writer, its readers, and a collector that waits for nobody.

Everything here is the engine's own: coordinator, workers, garbage collection. The collector deletes what it may delete at
once, so that an SST which the rules do not protect is gone before it is missed by chance only.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from slate_engine.errors import Error, Fenced
from slate_engine.format.sst_build import SstOptions
from slate_engine.gc.collector import Collector
from slate_engine.gc.options import GcOptions, Kind, Task
from slate_engine.lsm.commit import Change
from slate_engine.lsm.compaction.compactor import EmbeddedCompactor, compact_once
from slate_engine.lsm.compaction.options import CompactorOptions, MergeOptions, WorkerOptions
from slate_engine.lsm.compaction.plan import Leveled, Major, Policy, SizeTiered
from slate_engine.lsm.compaction.triggers import Triggers
from slate_engine.lsm.compaction.worker import CompactionWorker
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.commit import Versioned
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import CompactionsStore
from tests.simulation.faults import Role
from tests.simulation.network import CALM, Weather
from tests.simulation.play import Habits, Play, clients, drawn_options
from tests.simulation.scenes.snapshots import hold
from tests.simulation.scenes.submissions import submitting
from tests.simulation.session import PATH, files_of, newest_manifest, read_all
from tests.simulation.world import HASTY, PATIENT, Process, World

POLICIES: list[Policy] = [
    SizeTiered(min_compaction_sources=2, max_compaction_sources=3),
    SizeTiered(min_compaction_sources=2, max_compaction_sources=4, include_size_threshold=100.0),
    Leveled(min_l0=2, fanout=3.0),
]
AT_ONCE = Task(interval=1.0, min_age=0.0)
GREEDY = GcOptions(compacted=AT_ONCE, compactions=replace(AT_ONCE, min_age=60.0), checkpoints=AT_ONCE)
SLOW_COMMITS = Weather(slow=0.4, longest=5.0, applies=lambda operation, key: operation == "put" and "/manifest/" in key)
"""In which others take over between two steps of a commit."""
SLOW_OUTPUTS = Weather(
    slow=0.5, torn=0.05, longest=5.0, applies=lambda operation, key: "put" in operation and "/compacted/" in key
)
"""In which a merge takes so long that its worker can be taken for dead, or be, in the middle of it."""
LIFETIME = 100.0
"""For how long the inputs of a compaction are kept: longer than any simulated reader takes."""


def drawn_compactor(chance: random.Random) -> CompactorOptions:
    """Small outputs, small chunks, short intervals: what takes an hour elsewhere takes seconds."""
    merge = MergeOptions(
        SstOptions(block_size=chance.choice([64, 256]), min_filter_keys=5),
        max_sst_size=chance.choice([1, 1, 300, 1 << 20]),
        max_subcompactions=chance.choice([1, 3]),
        min_range_bytes=1,
    )
    worker = WorkerOptions(
        merge,
        memory_bytes=chance.choice([1, 1 << 20]),
        max_threads=2,
        compactions_poll_interval=chance.choice([0.2, 2.0]),
        heartbeat_interval=chance.choice([0.3, 1.0]),
    )
    return CompactorOptions(
        chance.choice(POLICIES),
        Triggers(max_tombstones=chance.choice([None, 0.3])),
        worker,
        poll_interval=chance.choice([0.3, 2.0]),
        commit_compacted_interval=0.2,
        enable_trivial_move=chance.random() < 0.5,
        checkpoint_lifetime=LIFETIME,
        worker_heartbeat_timeout=chance.choice([5.0, 8.0]),
    )


async def compactions(world: World) -> Play:
    """One compactor after another, most of which crash, and now and then two at once; workers that help them."""
    play, chance = Play(world), world.chance
    options = replace(
        drawn_options(chance),
        l0_sst_size_bytes=chance.choice([60, 200]),
        manifest_poll_interval=chance.choice([0.3, 3.0]),
    )
    play.beside("collect", CALM, lambda process: collecting(process), 1.0, slower=1.02)
    play.follower("follow", Weather.drawn(chance))
    play.beside("dawdle", CALM, lambda process: _dawdling(process, play), 1.0, slower=1.0)
    play.reader("watch", Weather(slow=0.1, longest=3.0), managed=True)
    play.beside("submit", CALM, submitting, 4.0, slower=1.0)
    writing = asyncio.ensure_future(_write(play, options))
    shifts = [asyncio.ensure_future(_shifts(play, number, lambda: not writing.done())) for number in range(2)]
    helping = asyncio.ensure_future(_help(play, lambda: not writing.done()))
    for task in (writing, *shifts, helping):
        await task
    await play.finish(options)
    await _tidy_up(play, options)
    return play


def collecting(process: Process) -> Callable[[], Awaitable[None]]:
    collector = Collector(files_of(process), GREEDY)
    process.acts_as(Role.COLLECTOR)
    process.world.collects_after(AT_ONCE.min_age)

    async def collect() -> None:
        if await files_of(process).manifests.latest() is not None:
            await collector.collect([Kind.CHECKPOINTS, Kind.COMPACTED, Kind.COMPACTIONS])

    return collect


def _dawdling(process: Process, play: Play) -> Callable[[], Awaitable[None]]:
    """A reader without a checkpoint of his own, who takes a state and reads it much later."""

    async def read() -> None:
        must_have = play.ledger.acknowledged
        files = files_of(process)
        if await files.manifests.latest() is None:
            return
        snapshot = await files.latest()
        await process.runtime.sleep(process.runtime.uniform(0, LIFETIME / 5))
        play.ledger.saw("the dawdler", await read_all(snapshot), must_have)

    return read


async def _write(play: Play, options: WriterOptions) -> None:
    """Writers whose snapshots are read while their SSTs are compacted."""
    world, chance = play.world, play.chance
    for _ in range(chance.randint(1, 3)):
        process = world.process(weather=Weather.drawn(chance), skew_ms=chance.choice([0, 0, -3000]))

        async def reign(process: Process = process) -> None:
            session = await play.open(process, options)
            writing = process.start(clients(session, 2, 6, Habits(pace=1.0, flushes=0.5, keys=chance.choice([12, 40]))))
            await asyncio.gather(*(hold(session, 3.0) for _ in range(2)))
            await writing

        await play.in_process(process, reign())
        process.crash()


async def _shifts(play: Play, number: int, goes_on: Callable[[], bool]) -> None:
    """One compactor's process after another. The second line of them begins later, and fences the first."""
    world, chance = play.world, play.chance
    await asyncio.sleep(chance.uniform(0, 5) + 8 * number)
    while goes_on():
        process = _process(world, chance)
        await play.in_process(process, _shift(process, _modest(drawn_compactor(chance), chance), chance.uniform(1, 15)))
        if chance.random() < 0.7:
            process.crash()
        await asyncio.sleep(chance.uniform(0, 4))


def _process(world: World, chance: random.Random) -> Process:
    process = world.process(
        weather=chance.choice([Weather.drawn(chance), SLOW_COMMITS, SLOW_OUTPUTS, SLOW_OUTPUTS]),
        skew_ms=chance.choice([0, -2000, 2000]),
        patience=chance.choice([PATIENT, HASTY]),
    )
    if chance.random() < 0.6:
        process.doom(1, 150)
    if chance.random() < 0.4:
        process.link.pause_when = _nap(chance.randrange(4))
    return process


def _nap(skips: int) -> Callable[[str, str], float]:
    """Stand still at one of the first uploads, and for so long that another worker has the job by then."""

    def seconds(operation: str, key: str) -> float:
        nonlocal skips
        if "put" not in operation or "/compacted/" not in key:
            return 0.0
        skips -= 1
        return 15.0 if skips == -1 else 0.0

    return seconds


def _modest(options: CompactorOptions, chance: random.Random) -> CompactorOptions:
    """Some leave what is large for them to the workers of others, for a while."""
    if options.worker is None or chance.random() < 0.6:
        return options
    most, seconds = chance.choice([1, 300]), chance.choice([0.5, 4.0, 15.0])
    return replace(options, worker=replace(options.worker, max_job_bytes=most, leave_seconds=seconds))


async def _shift(process: Process, options: CompactorOptions, seconds: float) -> None:
    errors: list[Error] = []
    files = files_of(process)
    if await files.manifests.latest() is None:
        return
    epoch = Epoch(process)
    compactor = EmbeddedCompactor(files, options, failed=errors.append, committed=epoch.committed)
    process.acts_as(Role.COMPACTOR)
    process.acts_as(Role.WORKER)
    process.jump_later(process.runtime.uniform(0, seconds), process.runtime.random.choice([-3000, 3000]))
    await compactor.start()
    await process.runtime.sleep(seconds)
    await compactor.close()
    for error in errors:
        assert isinstance(error, Fenced), f"a compactor stopped: {error.message}"
        assert newest_manifest(process.world).compactor_epoch > epoch.least, "a compactor was fenced by nobody"


class Epoch:
    """That of one coordinator: whatever it commits is of this epoch, and of no later one."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.least = newest_manifest(process.world).compactor_epoch + 1
        self._seen: int | None = None

    def committed(self, manifest: Versioned[Manifest]) -> None:
        found = manifest.value.compactor_epoch
        if found != (self._seen or found):
            wrong = f"{self._process.name} has compactor epoch {self._seen}, and committed under {found}"
            self._process.world.loop.fail(AssertionError(wrong))
        self._seen = found


async def _help(play: Play, goes_on: Callable[[], bool]) -> None:
    """A worker beside those of the compactors."""
    chance = play.chance
    while goes_on():
        await asyncio.sleep(chance.uniform(1, 6))
        process = _process(play.world, chance)

        async def work(process: Process = process) -> None:
            files = files_of(process)
            options = drawn_compactor(chance).worker
            assert options is not None
            worker = CompactionWorker(files, CompactionsStore.open(files.store, PATH, files.runtime), options)
            process.acts_as(Role.WORKER)
            worker.start()
            await process.runtime.sleep(chance.uniform(1, 10))
            await worker.close()

        await play.in_process(process, work())
        process.crash()


async def _tidy_up(play: Play, options: WriterOptions) -> None:
    """When the database has moved on, everything that crashes have left behind can be collected, and nothing else is."""
    process = play.world.process("tidy")
    left = _ssts(play.world)

    async def work() -> None:
        files = files_of(process)
        before = await read_all(await files.latest())
        await compact_once(files, Major(), replace(drawn_compactor(play.chance), policy=Major()), force=True)
        assert await read_all(await files_of(process).latest()) == before, "a compaction has changed what readers see"
        await asyncio.sleep(LIFETIME + 10)
        for compacts in (True, True, False):
            writer = await Writer.open(files_of(process), options)
            await writer.write([Change(b"tidy", b"1")])
            await writer.flush_memtable()
            await writer.close()
            await asyncio.sleep(1)
            if compacts:
                await compact_once(files_of(process), Major(), drawn_compactor(play.chance), force=True)
        await asyncio.sleep(LIFETIME + 10)
        await Collector(files_of(process), GREEDY).collect([Kind.CHECKPOINTS, Kind.COMPACTED])

    await play.within(3600, process.run(work()), "compacting and collecting everything")
    shown = {f"{PATH}/compacted/{id}.sst" for id in newest_manifest(play.world).ssts.id}
    there = _ssts(play.world)
    assert shown <= there, f"SSTs of the newest state are missing: {sorted(shown - there)}"
    orphans = there & left - shown
    assert not orphans, f"orphans that nobody can collect: {sorted(orphans)}"


def _ssts(world: World) -> set[str]:
    return {key for key in world.bucket._keys if key.startswith(f"{PATH}/compacted/")}
