"""What a batch of a stream is, without Spark: the same rows however often it is planned, whatever happens in between."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from slate_engine.admin import restoring
from slate_engine.admin.checkpoints import delete_checkpoint, list_checkpoints
from slate_engine.admin.destroying import destroy_hard, destroy_softly
from slate_engine.admin.restoring import restore
from slate_engine.errors import DataError, InvalidError
from slate_engine.format.columns import TOMBSTONE
from slate_engine.gc.collector import collect_once
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.commit import Change
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.spark import reading, stream
from slate_engine.spark.diff import DiffShare
from slate_engine.spark.reading import Share
from slate_engine.spark.stream import ChangeStream, LogShare, Position, stream_reader_of
from slate_engine.state.checkpoints import without_expired_checkpoints
from slate_engine.state.manifest import Manifest
from tests.spark.databases import State, Story

SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
AT_ONCE = Task(min_age=0)
GREEDY = GcOptions(manifests=AT_ONCE, wal=AT_ONCE, fences=AT_ONCE, compacted=AT_ONCE, compactions=AT_ONCE)
Offset = dict[str, Any]
Changes = list[tuple[bytes, bytes | None]]


class Follower:
    """A query that keeps its offsets as Spark does: written down first, then carried out, then committed."""

    def __init__(self, folder: Path, **options: str) -> None:
        self.story = Story(folder)
        self.options = {**self.story.options, **options}
        self.reader = self.fresh()
        self.offsets: list[Offset] = [self.reader.initialOffset()]

    def fresh(self) -> ChangeStream:
        """As after a restart: nothing is left in any process."""
        reading._manifests.clear()
        made = stream_reader_of(self.options, SCHEMA)
        assert isinstance(made, ChangeStream)
        return made

    def ask(self) -> tuple[Offset, Offset]:
        self.offsets.append(self.reader.latestOffset(self.offsets[-1], None))  # type: ignore[arg-type]
        return self.offsets[-2], self.offsets[-1]

    def rows(self, batch: tuple[Offset, Offset], kind: type = object) -> Changes:
        shares = self.reader.partitions(*batch)
        assert all(isinstance(share, kind) for share in shares)
        return [
            (row["key"], row["value"])
            for share in shares
            for each in self.reader.read(share)
            for row in each.to_pylist()
        ]

    def step(self, kind: type = object) -> Changes:
        """A batch from its beginning to its end."""
        batch = self.ask()
        rows = self.rows(batch, kind)
        self.reader.commit(batch[1])
        return rows

    def write(self, changes: dict[bytes, bytes | None], *, flush: bool = False, log: bool = True) -> None:
        """A writer without a log stores its rows by a flush."""

        async def work() -> None:
            writer = await Writer.open(self.story.files(), WriterOptions(wal_enabled=log))
            committed = await writer.write(rows_of(changes))
            if log:
                await writer.durable(committed.seq)
            await writer.close(flush_memtable=flush or not log)

        asyncio.run(work())

    def destroy(self) -> None:
        """And every checkpoint with it, as a person has to who destroys a database for good."""

        async def work() -> None:
            await destroy_softly(self.story.files())
            for each in await list_checkpoints(self.story.files()):
                await delete_checkpoint(self.story.files(), each.id)
            await destroy_hard(self.story.files())

        asyncio.run(work())

    def tidy(self) -> None:
        """All that the database has is flushed and compacted, and what nobody holds is deleted."""

        async def work() -> None:
            await self.story.write({b"z": b"tidied"}, flush=True)
            await self.story.compact()
            await self.story.write({b"z": b"tidied again"}, flush=True)
            await asyncio.sleep(1.1)
            await collect_once(self.story.files(), GREEDY)

        asyncio.run(work())


def rows_of(changes: dict[bytes, bytes | None]) -> list[Change]:
    return [Change(key, value or b"", 0 if value is not None else TOMBSTONE) for key, value in changes.items()]


def applied(state: State, changes: Changes) -> State:
    for key, value in changes:
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return state


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    made = Follower(tmp_path)
    made.write({b"a": b"1", b"b": b"1"}, flush=True)
    assert made.step(Share) == [(b"a", b"1"), (b"b", b"1")]
    return made


def test_a_batch_of_the_log_is_there_for_as_long_as_it_may_be_asked_for(follower: Follower) -> None:
    """Flushed, compacted and collected between the offset and the plan, the plan and the read, the read and the commit."""
    follower.write({b"a": b"2"})
    follower.write({b"a": b"3", b"b": None})
    batch = follower.ask()
    expected = [(b"a", b"2"), (b"a", b"3"), (b"b", None)]
    follower.tidy()
    shares = follower.reader.partitions(*batch)
    follower.tidy()
    assert all(isinstance(share, LogShare) for share in shares)
    found = [row for share in shares for each in follower.reader.read(share) for row in each.to_pylist()]
    assert [(row["key"], row["value"]) for row in found] == expected
    follower.tidy()
    follower.reader = follower.fresh()  # it died before the commit
    assert follower.rows(batch, LogShare) == expected
    follower.reader.commit(batch[1])
    assert follower.step(DiffShare) == [(b"z", b"tidied again")]


def test_a_batch_that_is_a_difference_stays_one(follower: Follower) -> None:
    """The log is still all there when it is planned, and would tell more."""
    follower.write({b"a": b"2"})
    follower.write({b"a": b"3"}, flush=True)
    follower.write({b"b": None})
    batch = follower.ask()
    expected = [(b"a", b"3"), (b"b", None)]
    assert follower.rows(batch, DiffShare) == expected
    follower.tidy()
    follower.reader = follower.fresh()
    assert follower.rows(batch, DiffShare) == expected


def test_a_restore_is_followed(follower: Follower) -> None:
    """Whatever it goes back to, and although whoever restored has deleted the checkpoint of the state before."""
    story = follower.story
    state = {b"a": b"1", b"b": b"1"}
    past = asyncio.run(story.keep("past"))
    follower.write({b"a": b"2", b"c": b"2"})
    applied(state, follower.step(LogShare))
    assert state == {b"a": b"2", b"b": b"1", b"c": b"2"}
    follower.write({b"d": b"unseen"})
    restored = asyncio.run(restore(story.files(), past))
    asyncio.run(delete_checkpoint(story.files(), restored.kept))
    applied(state, follower.step(DiffShare))
    assert state == {b"a": b"1", b"b": b"1"}
    follower.write({b"e": b"5"})
    applied(state, follower.step())
    assert state == {b"a": b"1", b"b": b"1", b"e": b"5"}
    follower.write({b"f": b"6"})
    assert follower.step(LogShare) == [(b"f", b"6")]


def test_a_restore_that_is_under_way_when_a_batch_ends_is_followed(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writers are fenced then, and the old state is not the present one yet: the batch ends at the end of the log."""
    state = {b"a": b"1", b"b": b"1"}
    past = asyncio.run(follower.story.keep("past"))
    follower.write({b"a": b"2", b"c": b"2"})
    prepare = restoring._with_log_in_ssts

    async def late(*given: Any) -> Manifest:
        applied(state, await asyncio.to_thread(follower.step, LogShare))
        return await prepare(*given)

    monkeypatch.setattr(restoring, "_with_log_in_ssts", late)
    asyncio.run(restore(follower.story.files(), past))
    assert state == {b"a": b"2", b"b": b"1", b"c": b"2"}
    follower.write({b"e": b"5"})
    applied(state, follower.step(DiffShare))
    assert state == {b"a": b"1", b"b": b"1", b"e": b"5"}


@pytest.mark.parametrize("writes", [1, 6], ids=["a shorter log", "a longer log"])
def test_a_stream_does_not_go_on_over_another_database_at_its_path(tmp_path: Path, writes: int) -> None:
    """WAL numbers begin again there, so its log would look like that of the old one, with the first rows left out."""
    follower = Follower(tmp_path)
    follower.write({b"old1": b"1"})
    follower.write({b"old2": b"1"})
    follower.step()
    follower.destroy()
    for i in range(writes):
        follower.write({b"new%d" % i: b"1"})
    follower.reader = follower.fresh()
    with pytest.raises(DataError, match=r"another one made at its path.*begin again with a new checkpointLocation"):
        follower.step()


def test_a_batch_that_begins_in_another_database_is_refused(tmp_path: Path) -> None:
    """Spark may have its end in writing already."""
    follower, other = Follower(tmp_path), Follower(tmp_path)
    follower.write({b"old": b"1"})
    follower.step()
    follower.destroy()
    for i in range(3):
        follower.write({b"new%d" % i: b"1"})
    other.step()
    with pytest.raises(DataError, match="begin again with a new checkpointLocation"):
        follower.rows((follower.offsets[-1], other.offsets[-1]))


def test_rows_of_a_writer_without_a_log_come_with_its_flush(follower: Follower) -> None:
    """Also if their flush is all that has changed, and among rows of writers that keep a log."""
    state = {b"a": b"1", b"b": b"1"}
    follower.write({b"a": b"2", b"c": b"2"}, log=False)
    applied(state, follower.step(DiffShare))
    assert state == {b"a": b"2", b"b": b"1", b"c": b"2"}
    follower.write({b"d": b"3"})
    assert follower.step(LogShare) == [(b"d", b"3")]
    follower.write({b"e": b"4"})
    follower.write({b"a": b"5", b"f": b"5"}, log=False)
    follower.write({b"a": b"6"})
    assert follower.step(DiffShare) == [(b"a", b"6"), (b"e", b"4"), (b"f", b"5")]
    follower.write({b"b": None})
    assert follower.step(LogShare) == [(b"b", None)]


def test_a_flush_without_a_log_is_noticed_while_its_writer_is_open(follower: Follower) -> None:
    """Its fence was in the log before, so the end of the log does not move."""

    async def work() -> None:
        writer = await Writer.open(follower.story.files(), WriterOptions(wal_enabled=False))
        assert await asyncio.to_thread(follower.step) == []
        await writer.write(rows_of({b"c": b"1"}))
        await writer.flush_memtable()
        assert await asyncio.to_thread(follower.step, DiffShare) == [(b"c", b"1")]
        await writer.close()

    asyncio.run(work())


def test_rows_that_are_flushed_before_they_are_in_the_log_come_once(follower: Follower) -> None:
    async def work() -> None:
        writer = await Writer.open(follower.story.files(), WriterOptions(flush_interval=None))
        await writer.write(rows_of({b"a": b"2"}))
        flushed = await writer.write(rows_of({b"a": b"3"}))
        writer.freeze()
        await writer.flushed(flushed.seq)
        assert await asyncio.to_thread(follower.step, DiffShare) == [(b"a", b"3")]
        await writer.write(rows_of({b"b": b"4"}))
        await writer.flush_wal()
        assert await asyncio.to_thread(follower.step, LogShare) == [(b"b", b"4")]
        await writer.close()

    asyncio.run(work())


def test_an_offset_of_an_older_version_is_followed_by_a_difference(follower: Follower) -> None:
    """It does not tell up to which row everything was handed on."""
    old = {name: value for name, value in follower.offsets[-1].items() if name not in ("seq", "flushed")}
    follower.offsets[-1] = old
    follower.write({b"a": b"2"})
    follower.write({b"a": b"3"})
    assert follower.step(DiffShare) == [(b"a", b"3")]
    follower.write({b"a": b"4"})
    follower.write({b"a": b"5"})
    assert follower.step(LogShare) == [(b"a", b"4"), (b"a", b"5")]


def test_a_stream_that_was_down_for_too_long_says_so(follower: Follower) -> None:
    follower.write({b"a": b"2"}, flush=True)
    batch = follower.ask()
    manifest = asyncio.run(follower.story.files().manifest())
    for checkpoint in manifest.checkpoints:
        asyncio.run(delete_checkpoint(follower.story.files(), checkpoint.id))
    with pytest.raises(DataError, match=r"begin again with a new checkpointLocation.*longer checkpointLifetime"):
        follower.rows(batch)


def test_a_time_that_is_over_counts_from_the_moment_on_that_somebody_looks(tmp_path: Path) -> None:
    """And a batch that begins prolongs what it needs."""
    follower = Follower(tmp_path, checkpointLifetime="1s")
    follower.write({b"a": b"1"}, flush=True)
    follower.step()
    follower.write({b"a": b"2"}, flush=True)
    batch = follower.ask()
    asyncio.run(asyncio.sleep(1.5))
    over_ms = follower.story.files().runtime.now_ms()
    assert follower.rows(batch, DiffShare) == [(b"a", b"2")]
    manifest = asyncio.run(follower.story.files().manifest())
    assert without_expired_checkpoints(manifest, now_ms=over_ms) is manifest


def test_what_somebody_deleted_is_named(follower: Follower) -> None:
    follower.write({b"a": b"2"})
    log, folder = follower.ask(), follower.story.folder / "db"
    shutil.rmtree(folder / "wal")
    with pytest.raises(DataError, match=r"wal truncated at wal file \d+: .* is missing"):
        follower.rows(log)
    shutil.rmtree(folder / "compacted")
    with pytest.raises(InvalidError, match="does not exist any more: the checkpoint on which this read stands"):
        follower.rows((follower.offsets[0], follower.offsets[1]))


def test_a_stream_needs_a_new_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.1.2")
    with pytest.raises(InvalidError, match=r"a stream needs PySpark 4\.2 or later, and this is 4\.1\.2: pip install"):
        Follower(tmp_path)


def test_the_mode_of_a_batch_is_a_fact_of_its_two_offsets() -> None:
    begin = Position("x", 1, wal=10, replayed=5, seq=20, flushed=12)

    def end(wal: int = 14, replayed: int = 5, flushed: int = 12) -> Position:
        return Position("y", 2, wal=wal, replayed=replayed, seq=30, flushed=flushed)

    assert end().holds_log_since(begin)
    assert end(replayed=9, flushed=20).holds_log_since(begin)
    assert not end(replayed=9, flushed=21).holds_log_since(begin)
    assert not end(flushed=21).holds_log_since(begin)
    assert not end(replayed=10, flushed=20).holds_log_since(begin)
    assert not end(replayed=11, flushed=20).holds_log_since(begin)
    assert not end(wal=9).holds_log_since(begin)
    flushed = Position("x", 1, wal=10, replayed=10, seq=20, flushed=20)
    assert end(replayed=10, flushed=20).holds_log_since(flushed)
    assert not end(flushed=0).holds_log_since(Position("x", 1, wal=10, replayed=5))
    assert Position.of(begin.offset) == begin
    assert Position.of({}) == stream.BEGINNING
