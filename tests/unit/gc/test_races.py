"""The races that SlateDB's public threads tell of, replayed one by one.

Each is played twice. With its guard everything must come out well; and with the guard taken away something must be lost, or
else the race does not test the guard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from unittest import mock
from uuid import UUID

import pytest

import tests.simulation.loop
from slate_engine.admin import cloning
from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint
from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.admin.parents import neighbour
from slate_engine.errors import Error, Fenced
from slate_engine.format.ids import Ids, Ulid
from slate_engine.gc import compacted
from slate_engine.gc.collector import Collector, collect_once
from slate_engine.gc.options import GcOptions, Kind, Task
from slate_engine.gc.references import Referenced, States
from slate_engine.lsm import reader as reading
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reader import Reader, ReaderOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state import checkpoints, stores
from slate_engine.state.checkpoints import CheckpointMissing, with_checkpoint
from slate_engine.state.commit import StateStore, Versioned
from slate_engine.state.compactions import Compaction, TieredSpec
from slate_engine.state.invariants import InvalidManifest
from slate_engine.state.manifest import Checkpoint, ExternalDb, Manifest
from slate_engine.store.boundary import Boundary
from slate_engine.store.memory import MemoryStore
from slate_engine.store.numbered import NumberedObjects
from slate_engine.store.protocol import OVERWRITE, Buffer, Conflict, PutMode, Update
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.admin.workshop import Database, scan
from tests.unit.gc.stalling import StallingStore

T = TypeVar("T")
EAGER = Task(min_age=0)
OPTIONS = GcOptions(
    manifests=EAGER, wal=EAGER, fences=Task(min_age=0, dry_run=True), compacted=EAGER, compactions=EAGER, detach=EAGER
)
"""What was made a second ago is old enough: nothing but the guards protects it."""

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Race:
    """``play`` fails if something is lost. ``unguard`` takes the guard away, and returns the options to collect with; then
    it has to fail in just this way."""

    play: Callable[[SimulatedRuntime, GcOptions], Awaitable[None]]
    unguard: Callable[[Patch], GcOptions | None]
    loss: str


async def later(runtime: SimulatedRuntime) -> None:
    await runtime.sleep(2)


def collected(report: Any) -> None:
    assert report.errors == []


# --- a writer that was fenced, and wakes up after its WAL id was collected (#352, #1622, #1672) -----------------------


async def stalled_writer(runtime: SimulatedRuntime, options: GcOptions) -> None:
    bucket = MemoryStore(runtime)
    store = StallingStore(bucket)
    slow = WriterOptions(manifest_poll_interval=1e6)
    first = await Writer.open(DatabaseFiles(store, "db", runtime), slow)
    store.stall(lambda key: "/wal/" in key)
    row = asyncio.ensure_future(_put(first, b"k", b"v"))
    await store.stalled.wait()
    files = DatabaseFiles(bucket, "db", runtime)
    second = await Writer.open(files, slow)
    await _put(second, b"other", b"v")
    await second.flush_memtable()
    await later(runtime)
    collected(await collect_once(DatabaseFiles(bucket, "db", runtime), options))
    store.go_on()
    try:
        await row
    except Fenced:
        return  # it was never acknowledged
    assert b"k" in await scan(await DatabaseFiles(bucket, "db", runtime).latest()), "an acknowledged row is lost"


async def _put(writer: Writer, key: bytes, value: bytes) -> None:
    await (await writer.write([Change(key, value, 0)])).durable()


def without_fences(patch: Patch) -> GcOptions:
    return replace(OPTIONS, fences=EAGER)


# --- a state that is committed to a number which was used and collected (#355, #1635, #1646, #1657) -------------------


async def stalled_manifest(runtime: SimulatedRuntime, options: GcOptions) -> None:
    bucket = MemoryStore(runtime)
    db = await Database(bucket, runtime).make()
    store = StallingStore(bucket)
    store.stall(lambda key: "/manifest/" in key)
    id = UUID(int=1, version=4)
    made = asyncio.ensure_future(create_checkpoint(DatabaseFiles(store, "db", runtime), CheckpointOptions(id=id)))
    await store.stalled.wait()
    for turn in range(3):
        await db.flush({b"a": b"%d" % turn})
    await later(runtime)
    collected(await collect_once(db.files, options))
    store.go_on()
    await made
    assert (await db.manifest()).checkpoint(id) is not None, "a commit was reported, and is not there"


async def stalled_book(runtime: SimulatedRuntime, options: GcOptions) -> None:
    bucket = MemoryStore(runtime)
    db = await Database(bucket, runtime).make()
    await db.compact_nothing()
    store = StallingStore(bucket)
    store.stall(lambda key: "/compactions/" in key)
    stale = Database(store, runtime).books
    job = Compaction(Ulid.of(runtime.now_ms() + 60_000, 1), TieredSpec((), (), 0))
    submitted = asyncio.ensure_future(stale.update(lambda book: book.with_job(job)))
    await store.stalled.wait()
    for _ in range(3):
        await db.compact_nothing()
    await later(runtime)
    collected(await collect_once(db.files, options))
    store.go_on()
    await submitted
    assert (await db.books.read_latest()).value.job(job.id) is not None, "a commit was reported, and is not there"


def without_boundaries(patch: Patch) -> GcOptions:
    async def not_overtaken(*arguments: object) -> int:
        """What was followed may be gone."""
        return 0

    patch.setattr(NumberedObjects, "_overtaken", not_overtaken)
    return replace(OPTIONS, boundary_files=False)


# --- a store that refuses every conditional update (#1816) ------------------------------------------------------------


class WithoutUpdates(MemoryStore):
    """A service that answers 412 to every If-Match."""

    refused = 0

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        if isinstance(mode, Update):
            self.refused += 1
            raise Conflict(key, mode)
        return await super().put(key, data, mode, mark=mark)


async def refused_boundary(runtime: SimulatedRuntime, options: GcOptions) -> None:
    bucket = WithoutUpdates(runtime)
    db = await Database(bucket, runtime).make()
    await db.flush({b"a": b"0"})
    await later(runtime)
    collected(await collect_once(db.files, options))
    for turn in range(3):
        await db.log(turn + 1, {b"l": b"%d" % turn})
        await db.publish(await db.upload(db.rows({b"a": b"%d" % turn})), db.seq, wal_id=turn + 1)
        await later(runtime)
    began, manifests = runtime.monotonic(), await db.names("manifest")
    report = await collect_once(db.files, options)
    assert runtime.monotonic() - began < 120
    assert bucket.refused < 500
    assert await db.names("manifest") == manifests, "something was deleted that no boundary protects"
    assert report.kind(Kind.MANIFESTS).error is not None
    assert report.kind(Kind.WAL).garbage, "the others are to be collected nevertheless"


def without_patience(patch: Patch) -> None:
    made = Boundary.__init__

    def endless(self: Boundary, *args: Any, **settings: Any) -> None:
        made(self, *args, **{**settings, "advance_timeout": float("inf")})

    patch.setattr(Boundary, "__init__", endless)
    patch.setattr(tests.simulation.loop, "LONGEST", 300.0)


# --- SSTs that are uploaded and not published yet (#1028, #1044; #984, #1029, #1031) ----------------------------------


async def unpublished_l0(runtime: SimulatedRuntime, options: GcOptions) -> None:
    db = await Database(MemoryStore(runtime), runtime).make()
    await db.flush({b"a": b"1"})
    await later(runtime)
    rows = db.rows({b"b": b"2"})
    sst, seq = await db.upload(rows), db.seq
    await later(runtime)
    await db.compact()
    await later(runtime)
    collected(await collect_once(db.files, options))
    await db.publish(sst, seq)
    assert await db.values() == {b"a": b"1", b"b": b"2"}


def without_l0_watermark(patch: Patch) -> None:
    patch.setattr(compacted, "newest_l0_ms", lambda newest: 2**62)


async def unpublished_output(runtime: SimulatedRuntime, options: GcOptions) -> None:
    db = await Database(MemoryStore(runtime), runtime).make()
    await db.flush({b"a": b"1"})
    await later(runtime)
    job = await db.begin_job()
    output, made_from = await db.merged()
    await later(runtime)
    await db.flush({b"b": b"2"})
    await later(runtime)
    collected(await collect_once(db.files, options))
    await db.commit_job(output, made_from)
    await db.end_job(job)
    assert await db.values() == {b"a": b"1", b"b": b"2"}


def without_job_watermark(patch: Patch) -> None:
    patch.setattr(compacted, "oldest_job_ms", lambda book: 2**62)


# --- the inputs of a compaction, which are older than the job (#1035) -------------------------------------------------


async def inputs(runtime: SimulatedRuntime, options: GcOptions) -> None:
    db = await Database(MemoryStore(runtime), runtime).make()
    await db.flush({b"a": b"1"})
    await later(runtime)
    await db.flush({b"b": b"2"})
    await later(runtime)
    job = await db.begin_job()
    await later(runtime)
    collected(await collect_once(db.files, options))
    output, made_from = await db.merged()
    await db.commit_job(output, made_from)
    await db.end_job(job)
    assert await db.values() == {b"a": b"1", b"b": b"2"}


def by_watermarks_alone(patch: Patch) -> None:
    real = States.referenced

    async def referenced(self: States, newest: Versioned[Manifest]) -> Referenced:
        return replace(await real(self, newest), ssts=Ids.of([]))

    patch.setattr(States, "referenced", referenced)


# --- SSTs that are published in another order than they were named in (#1758, RFC-0029) -------------------------------


async def out_of_order(runtime: SimulatedRuntime, options: GcOptions) -> None:
    db = await Database(MemoryStore(runtime), runtime).make()
    slow_rows = db.rows({b"slow": b"1"})
    slow, slow_seq = await db.upload(slow_rows), db.seq
    await later(runtime)
    await db.flush({b"fast": b"2"})
    await later(runtime)
    await db.compact_nothing()
    await later(runtime)
    collected(await collect_once(db.files, options))
    try:
        await db.publish(slow, slow_seq)
    except InvalidManifest:
        # A collector may have taken it for an orphan: it is uploaded anew, under a name of now.
        await db.publish(await db.upload(slow_rows), slow_seq)
    assert await db.values() == {b"slow": b"1", b"fast": b"2"}


def without_order(patch: Patch) -> None:
    patch.setattr(stores, "check_succession", lambda before, after: None)


# --- a compaction that ends while a collector in another process looks (#1044) ----------------------------------------


async def ending_compaction(runtime: SimulatedRuntime, options: GcOptions) -> None:
    db = await Database(MemoryStore(runtime), runtime).make()
    await db.flush({b"a": b"1"})
    await later(runtime)
    job = await db.begin_job()
    output, made_from = await db.merged()
    await later(runtime)
    await db.flush({b"b": b"2"})
    await later(runtime)

    async def between() -> None:
        await db.commit_job(output, made_from)
        await db.end_job(job)
        await later(runtime)
        await db.compact_nothing()
        await db.flush({b"c": b"3"})
        await later(runtime)

    collector = Collector(db.files, options)
    _interrupt(collector, between)
    collected(await collector.collect({Kind.COMPACTED}))
    assert await db.values() == {b"a": b"1", b"b": b"2", b"c": b"3"}


def _interrupt(collector: Collector, between: Callable[[], Awaitable[None]]) -> None:
    """Do something after the first of the two objects is read that decide over SSTs, whichever comes first."""
    armed = False
    look = collector._book_and_manifest

    async def look_armed(kinds: Collection[Kind]) -> Any:
        nonlocal armed
        armed = True
        return await look(kinds)

    def interrupted(read: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
        async def reading_it() -> T:
            nonlocal armed
            found = await read()
            if armed:
                armed = False
                await between()
            return found

        return reading_it

    collector._book_and_manifest = look_armed  # type: ignore[method-assign]
    books, manifests = collector._books, collector._files.manifests
    books.latest = interrupted(books.latest)  # type: ignore[method-assign]
    manifests.latest = interrupted(manifests.latest)  # type: ignore[method-assign]


def manifest_before_book(patch: Patch) -> None:
    async def the_wrong_way_round(self: Collector, kinds: Collection[Kind]) -> Any:
        newest = await self._files.manifests.latest()
        return await self._books.latest(), newest

    patch.setattr(Collector, "_book_and_manifest", the_wrong_way_round)


# --- a reader that goes on to the next state while somebody still reads (#2073) ---------------------------------------


async def long_scan(runtime: SimulatedRuntime, options: GcOptions) -> None:
    db = await Database(MemoryStore(runtime), runtime).make()
    await db.flush({b"a": b"1"})
    reader = await Reader.managed(db.files, ReaderOptions(poll_interval=1e6, checkpoint_lifetime=3e6))
    begun = reader.snapshot()
    await later(runtime)
    await db.flush({b"a": b"2"})
    await later(runtime)
    await db.compact()
    await later(runtime)
    await db.flush({b"b": b"3"})
    for _ in range(3):
        await reader.refresh()
    await later(runtime)
    collected(await collect_once(db.files, options))
    assert await scan(begun) == {b"a": b"1"}
    assert await scan(reader.snapshot()) == {b"a": b"2", b"b": b"3"}
    await reader.close()


def without_leases(patch: Patch) -> None:
    made = reading.LeasedSnapshot
    patch.setattr(reading, "LeasedSnapshot", lambda *parts, **more: made(*parts[:-1], None, **more))


# --- a checkpoint that expires while its log is slowly read, or copied (#1657) ----------------------------------------


async def slow_replay(runtime: SimulatedRuntime, options: GcOptions) -> None:
    """What is written between the reader's look and its checkpoint is read under that."""
    bucket = MemoryStore(runtime)
    db = await Database(bucket, runtime).make()
    await db.log(1, {b"a": b"1"})
    store = StallingStore(bucket)
    frontier, last = reading.wal_frontier, "db/wal/00000000000000000002.sst"

    async def written_meanwhile(*args: Any) -> int:
        await db.log(2, {b"b": b"2"})
        store.stall(lambda key: key == last, reads=True)
        return await frontier(*args)

    files = DatabaseFiles(store, "db", runtime)
    with mock.patch.object(reading, "wal_frontier", written_meanwhile):
        opening = asyncio.ensure_future(Reader.managed(files, ReaderOptions(poll_interval=4, checkpoint_lifetime=10)))
        await store.stalled.wait()
    await db.publish(await db.upload(db.rows({b"a": b"1", b"b": b"2"})), db.seq, wal_id=3)
    await runtime.sleep(100)
    collected(await collect_once(db.files, options))
    store.go_on()
    reader = await opening
    assert await scan(reader.snapshot()) == {b"a": b"1", b"b": b"2"}, "what was written long ago is not there"
    await reader.close()


def without_renewal(patch: Patch) -> None:
    async def nothing(self: Reader, leases: Any) -> None:
        """The checkpoint is left alone until the log is read."""

    patch.setattr(Reader, "_tend", nothing)


async def slow_copy(runtime: SimulatedRuntime, options: GcOptions) -> None:
    bucket = MemoryStore(runtime)
    db = await Database(bucket, runtime).make()
    await db.log(1, {b"a": b"1"})
    await db.log(2, {b"b": b"2"})
    store = StallingStore(bucket)
    store.stall(lambda key: key.startswith("copy/wal/"))
    files = DatabaseFiles(store, "copy", runtime)
    made = asyncio.ensure_future(create_clone(files, [CloneSource("db")]))
    await store.stalled.wait()
    await runtime.sleep(2 * cloning.SOURCE_LIFETIME_MS / 1000)
    await db.publish(await db.upload(db.rows({b"a": b"3"})), db.seq, wal_id=3)
    await later(runtime)
    collected(await collect_once(db.files, options))
    store.go_on()
    await made
    assert await Database(bucket, runtime, "copy").values() == {b"a": b"1", b"b": b"2"}


def with_an_end(patch: Patch) -> None:
    async def keep(files: DatabaseFiles, external: ExternalDb) -> None:
        final, source = external.final_checkpoint_id, external.source_checkpoint_id
        assert final is not None
        lifetime_ms = cloning.SOURCE_LIFETIME_MS
        await neighbour(files, external.path).manifests.update(
            lambda old: with_checkpoint(
                old, id=final, now_ms=files.runtime.now_ms(), lifetime_ms=lifetime_ms, source=source
            )
        )

    patch.setattr(cloning, "_keep", keep)


# --- a compactor that commits what it knew of checkpoints (#430, #435, #437) ------------------------------------------


async def merged_checkpoints(runtime: SimulatedRuntime, options: GcOptions) -> None:
    bucket = MemoryStore(runtime)
    db = await Database(bucket, runtime).make()
    await db.flush({b"a": b"1"})
    await later(runtime)
    job = await db.begin_job()
    output, made_from = await db.merged()
    store = StallingStore(bucket)
    store.stall(lambda key: "/manifest/" in key)
    committing = asyncio.ensure_future(Database(store, runtime).commit_job(output, made_from))
    await store.stalled.wait()
    await create_checkpoint(db.files, CheckpointOptions(name="kept"))
    store.go_on()
    await committing
    await db.end_job(job)
    await later(runtime)
    await db.flush({b"a": b"2"})
    await later(runtime)
    await db.compact()
    await later(runtime)
    await db.flush({b"b": b"2"})
    collected(await collect_once(db.files, options))
    assert await scan(await db.files.checkpoint("kept")) == {b"a": b"1"}


def from_memory(patch: Patch) -> None:
    async def update(self: Any, transition: Callable[[Any], Any]) -> Any:
        newest = await self.read_latest()
        value = transition(newest.value)
        if value is newest.value:
            return newest
        while True:
            newest = await self.read_latest()
            try:
                return Versioned(await self._create(newest.id, value.numbered(newest.id + 1)), value)
            except Conflict:
                continue

    real = StateStore.update

    async def of_manifests(self: Any, transition: Callable[[Any], Any]) -> Any:
        return await (update if isinstance(self, stores.ManifestStore) else real)(self, transition)

    patch.setattr(StateStore, "update", of_manifests)


# --- a clone whose parents do not know of it (#1551) ------------------------------------------------------------------


async def union(runtime: SimulatedRuntime, options: GcOptions) -> None:
    bucket = MemoryStore(runtime)
    parents = [await Database(bucket, runtime, path).make() for path in ("p1", "p2")]
    for number, parent in enumerate(parents):
        await parent.flush({b"%d" % number: b"old"})
    both = Database(bucket, runtime, "both")
    await create_clone(both.files, [CloneSource("p1"), CloneSource("p2")])
    await runtime.sleep(600)
    for number, parent in enumerate(parents):
        await parent.flush({b"%d" % number: b"new"})
        await later(runtime)
        await parent.compact()
        await later(runtime)
        await parent.flush({b"x": b"x"})
        await later(runtime)
        collected(await collect_once(parent.files, options))
    collected(await collect_once(both.files, options))
    assert await both.values() == {b"0": b"old", b"1": b"old"}


def without_final_checkpoints(patch: Patch) -> None:
    async def nothing(files: DatabaseFiles, external: ExternalDb) -> None:
        """The parents are not told."""

    patch.setattr(cloning, "_keep", nothing)


# --- a checkpoint of a manifest that nothing keeps (#278) -------------------------------------------------------------

REMEMBERED = Checkpoint(UUID(int=7, version=4), 2, None, 0)


async def old_manifest(runtime: SimulatedRuntime, options: GcOptions) -> None:
    db = await Database(MemoryStore(runtime), runtime).make()
    await db.flush({b"a": b"1"})
    assert (await db.files.manifests.read_latest()).id == REMEMBERED.manifest_id
    await db.flush({b"a": b"2"})
    await later(runtime)
    collected(await collect_once(db.files, options))
    try:
        await create_checkpoint(db.files, CheckpointOptions(source=REMEMBERED.id, name="of old"))
    except CheckpointMissing:
        return
    assert await scan(await db.files.checkpoint("of old")) == {b"a": b"1"}


def with_any_manifest(patch: Patch) -> None:
    patch.setattr(checkpoints, "_found", lambda manifest, id: manifest.checkpoint(id) or REMEMBERED)


MISSING = r"SST \S+ does not exist, although the manifest that was read refers to it"
UNDONE = "a commit was reported, and is not there"

RACES = {
    "stalled writer": Race(stalled_writer, without_fences, "an acknowledged row is lost"),
    "stalled commit of a manifest": Race(stalled_manifest, without_boundaries, UNDONE),
    "stalled commit of compactions": Race(stalled_book, without_boundaries, UNDONE),
    "refused boundary": Race(refused_boundary, without_patience, "has not ended after 300 virtual seconds"),
    "unpublished L0": Race(unpublished_l0, without_l0_watermark, MISSING),
    "unpublished output": Race(unpublished_output, without_job_watermark, MISSING),
    "inputs of a compaction": Race(inputs, by_watermarks_alone, MISSING),
    "named and published out of order": Race(out_of_order, without_order, MISSING),
    "compaction ends meanwhile": Race(ending_compaction, manifest_before_book, MISSING),
    "long scan": Race(long_scan, without_leases, MISSING),
    "expires while the log is read": Race(slow_replay, without_renewal, "wal truncated at wal file 2"),
    "expires while the log is copied": Race(slow_copy, with_an_end, "is needed for .* but does not exist any more"),
    "checkpoint and compactor": Race(merged_checkpoints, from_memory, "has no checkpoint 'kept'"),
    "union": Race(union, without_final_checkpoints, MISSING),
    "checkpoint of an old manifest": Race(old_manifest, with_any_manifest, "manifest 2, which does not exist any more"),
}


@pytest.mark.parametrize("name", RACES)
def test_nothing_is_lost(name: str) -> None:
    race = RACES[name]
    simulate(lambda runtime: _play(race, runtime, OPTIONS), name)


@pytest.mark.parametrize("name", RACES)
def test_without_its_guard_something_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    race = RACES[name]
    options = race.unguard(monkeypatch) or OPTIONS
    with pytest.raises((AssertionError, Error), match=race.loss):
        simulate(lambda runtime: _play(race, runtime, options), name)


async def _play(race: Race, runtime: SimulatedRuntime, options: GcOptions) -> None:
    await race.play(runtime, options)
