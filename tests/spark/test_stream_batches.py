"""What a batch of a stream is, without Spark: the same rows however often it is planned, whatever happens in between."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from slate_engine.admin.checkpoints import delete_checkpoint
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

    def write(self, changes: dict[bytes, bytes | None], *, flush: bool = False) -> None:
        async def work() -> None:
            writer = await Writer.open(self.story.files(), WriterOptions())
            rows = [Change(key, value or b"", 0 if value is not None else TOMBSTONE) for key, value in changes.items()]
            await writer.durable((await writer.write(rows)).seq)
            await writer.close(flush_memtable=flush)

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
    begin = Position("x", 1, wal=10, replayed=5)
    assert Position("y", 2, wal=14, replayed=5).holds_log_since(begin)
    assert Position("y", 2, wal=14, replayed=10).holds_log_since(begin)
    assert not Position("y", 2, wal=14, replayed=11).holds_log_since(begin)
    assert not Position("y", 2, wal=9, replayed=5).holds_log_since(begin)
    assert Position.of(begin.offset) == begin
    assert Position.of({}) == stream.BEGINNING
