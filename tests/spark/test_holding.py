"""The keeper of checkpoints, without Spark."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from slate_engine.admin.checkpoints import list_checkpoints
from slate_engine.errors import InvalidError
from slate_engine.gc.collector import Collector
from slate_engine.gc.options import GcOptions, Task
from slate_engine.runtime import Runtime
from slate_engine.spark import holding, reading
from slate_engine.spark.frame import reader_of
from slate_engine.spark.holding import Keeper, Wanted, hold
from slate_engine.spark.options import Location
from slate_engine.spark.versions import check_batches
from slate_engine.state.manifest import Checkpoint
from slate_engine.store.protocol import ObjectStore
from tests.spark.databases import Story, pairs, read

SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    made = Keeper()
    yield made
    made.close()


async def held(story: Story) -> dict[UUID, Checkpoint]:
    return {each.id: each for each in await list_checkpoints(story.files())}


def wanted(story: Story, lifetime_ms: int = 60_000) -> Wanted:
    return Wanted(uuid4(), Location(story.url, "db"), lifetime_ms)


async def test_made_once_prolonged_and_deleted_at_the_end(tmp_path: Path, keeper: Keeper) -> None:
    story = Story(tmp_path)
    await story.write({b"a": b"1"})
    asked = wanted(story, lifetime_ms=12_000)
    for _ in range(2):
        await asyncio.to_thread(hold, keeper.address, asked)
    made = await held(story)
    assert list(made) == [asked.id] == keeper.held
    first = made[asked.id].expire_time_s
    assert first is not None
    assert first <= time.time() + 12.1
    for _ in range(1000):
        again = (await held(story))[asked.id].expire_time_s
        if again != first:
            break
        await asyncio.sleep(0.1)
    assert again is not None
    assert again > first
    await asyncio.to_thread(keeper.close)
    assert await held(story) == {}
    assert not await asyncio.to_thread(os.path.exists, keeper.address)


async def test_closing_a_keeper_that_ends_by_itself_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session has stopped, and the driver's exit handler comes while the keeper clears up."""
    clearing, go_on = threading.Event(), threading.Event()
    rmtree = holding.shutil.rmtree

    def slow(*arguments: Any, **named: Any) -> None:
        clearing.set()
        go_on.wait(60)
        rmtree(*arguments, **named)

    monkeypatch.setattr(holding.shutil, "rmtree", slow)
    keeper = Keeper(is_over=lambda: True)
    assert await asyncio.to_thread(clearing.wait, 60)
    closing = asyncio.ensure_future(asyncio.to_thread(keeper.close))
    go_on.set()
    await closing
    assert not await asyncio.to_thread(os.path.exists, os.path.dirname(keeper.address))


async def test_release_deletes_what_is_held_and_goes_on(tmp_path: Path, keeper: Keeper) -> None:
    story = Story(tmp_path)
    await story.write({b"a": b"1"})
    before = wanted(story)
    await asyncio.to_thread(hold, keeper.address, before)
    await asyncio.to_thread(keeper.release)
    assert await held(story) == {}
    with pytest.raises(InvalidError, match="load it again"):
        await asyncio.to_thread(hold, keeper.address, before)
    after = wanted(story)
    await asyncio.to_thread(hold, keeper.address, after)
    assert list(await held(story)) == [after.id]


async def test_plans_that_ask_at_once_make_one_checkpoint(
    tmp_path: Path, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that make it with a release between them would show one frame two states."""
    story = Story(tmp_path)
    await story.write({b"a": b"1"})
    asked, made, both_asked = wanted(story), [], asyncio.Event()
    read_line, create = Wanted.of_line, holding.create_checkpoint
    lines: list[bytes] = []

    def of_line(line: bytes) -> Wanted:
        lines.append(line)
        if len(lines) == 2:
            both_asked.set()
        return read_line(line)

    async def late(*how: Any) -> Any:
        made.append(how)
        await both_asked.wait()
        return await create(*how)

    monkeypatch.setattr(Wanted, "of_line", of_line)
    monkeypatch.setattr(holding, "create_checkpoint", late)
    await asyncio.gather(*(asyncio.to_thread(hold, keeper.address, asked) for _ in range(2)))
    assert len(lines) == 2
    assert len(made) == 1
    assert list(await held(story)) == [asked.id] == keeper.held


async def test_a_keeper_survives_whatever_a_store_throws(
    tmp_path: Path, keeper: Keeper, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not only what we know of: clients of stores have errors of their own."""
    story = Story(tmp_path)
    await story.write({b"a": b"1"})
    first, second = wanted(story, lifetime_ms=4000), wanted(story)
    for each in (first, second):
        await asyncio.to_thread(hold, keeper.address, each)
    made = (await held(story))[first.id].expire_time_s
    assert made is not None
    broken = threading.Event()
    original = Location.open

    def open(self: Location, runtime: Runtime) -> ObjectStore:
        if broken.is_set():
            broken.clear()
            raise RuntimeError("torn")
        return original(self, runtime)

    monkeypatch.setattr(Location, "open", open)
    broken.set()
    for _ in range(100):
        await asyncio.sleep(0.1)
        now = (await held(story))[first.id].expire_time_s
        if now is not None and now > made + 1:
            break
    assert not broken.is_set()
    assert now > made + 1, "the next look prolongs it"
    assert "could not be prolonged yet: torn" in caplog.text
    broken.set()
    await asyncio.to_thread(keeper.release)
    assert len(await held(story)) == 1, "the other one is let go"
    assert "could not be deleted, and will expire: torn" in caplog.text


async def test_the_end_of_the_application_is_noticed(tmp_path: Path) -> None:
    over = threading.Event()
    keeper = Keeper(over.is_set)
    story = Story(tmp_path)
    await story.write({b"a": b"1"})
    await asyncio.to_thread(hold, keeper.address, wanted(story))
    assert await held(story)
    over.set()
    for _ in range(50):
        if not await held(story):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the checkpoint is still there")


ENDING = """
import atexit, sys, uuid
from slate_engine.spark.holding import Keeper, Wanted, hold
from slate_engine.spark.options import Location
keeper = Keeper()
atexit.register(keeper.close)
hold(keeper.address, Wanted(uuid.uuid4(), Location(sys.argv[1], "db"), 60_000))
print(len(keeper.held))
"""


async def test_the_end_of_the_interpreter_is_an_end(tmp_path: Path) -> None:
    """When Python has no pool of threads any more, which stores otherwise use."""
    story = Story(tmp_path)
    await story.write({b"a": b"1"})
    run = [sys.executable, "-c", ENDING, story.url]
    ended = await asyncio.to_thread(subprocess.run, run, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1\n", "")
    assert await held(story) == {}


async def test_what_is_wrong_is_told_to_who_asked(tmp_path: Path, keeper: Keeper) -> None:
    nothing = Story(tmp_path)
    with pytest.raises(InvalidError, match="no checkpoint could be made for this read"):
        await asyncio.to_thread(hold, keeper.address, wanted(nothing))
    for nobody in ("", str(tmp_path / "nobody")):
        with pytest.raises(InvalidError, match=r"call slate_engine\.spark\.register\(spark\)"):
            await asyncio.to_thread(hold, nobody, wanted(nothing))


async def test_a_frame_shows_one_state_however_often_it_is_planned(tmp_path: Path, keeper: Keeper) -> None:
    """And the rows that are only in the log yet are part of it."""
    story = Story(tmp_path)
    await story.write({b"a": b"1", b"b": b"1"})
    await story.write({b"b": b"2", b"c": b"2"}, flush=False)
    frame = uuid4()
    for _ in range(2):
        found = pairs(await read(story.options, keeper=keeper.address, id=frame))
        assert found == {b"a": b"1", b"b": b"2", b"c": b"2"}
        await story.write({b"a": None, b"d": b"3"})
        await story.compact()
    assert pairs(await read(story.options, keeper=keeper.address, id=uuid4())) == {b"b": b"2", b"c": b"2", b"d": b"3"}
    assert len(keeper.held) == 2


async def test_a_checkpoint_that_will_be_over_is_held_and_one_for_ever_is_read_as_it_is(
    tmp_path: Path, keeper: Keeper
) -> None:
    story = Story(tmp_path)
    await story.write({b"a": b"1"})
    await story.keep("short", lifetime_ms=60_000)
    await story.keep("ever")
    await story.write({b"a": b"2"})
    ever = await read({**story.options, "checkpoint": "ever"}, keeper=keeper.address)
    assert pairs(ever) == {b"a": b"1"}
    assert keeper.held == []
    frame = uuid4()
    short = await read({**story.options, "checkpoint": "short"}, keeper=keeper.address, id=frame)
    assert pairs(short) == {b"a": b"1"}
    assert keeper.held == [frame]


async def test_a_frame_stays_at_the_checkpoint_that_had_the_name_first(tmp_path: Path, keeper: Keeper) -> None:
    """If that is gone, the frame fails, and does not pass to another state with the name."""
    story = Story(tmp_path)
    await story.write({b"a": b"monday"})
    monday = await story.keep("nightly")
    frame, options = uuid4(), {**story.options, "checkpoint": "nightly"}
    found = await read(options, keeper=keeper.address, id=frame)
    assert pairs(found) == {b"a": b"monday"}
    await story.write({b"a": b"tuesday"})
    tuesday = await story.keep("nightly")
    found = await read(options, keeper=keeper.address, id=frame)
    assert pairs(found) == {b"a": b"monday"}
    await story.forget(monday)
    gone = rf"checkpoint {monday}, which had the name 'nightly' .* has been deleted.*load the frame again"
    with pytest.raises(InvalidError, match=gone):
        await read(options, keeper=keeper.address, id=frame)
    assert pairs(await read(options, keeper=keeper.address, id=uuid4())) == {b"a": b"tuesday"}
    await story.forget(tuesday)
    with pytest.raises(InvalidError, match=gone):
        await read(options, keeper=keeper.address, id=frame)


@pytest.mark.parametrize("end", ["from", "to"])
async def test_a_diff_stays_at_the_checkpoints_that_had_the_names_first(
    tmp_path: Path, keeper: Keeper, end: str
) -> None:
    story = Story(tmp_path)
    await story.write({b"a": b"1"})
    kept = {"from": await story.keep("from")}
    await story.write({b"a": b"2"})
    kept["to"] = await story.keep("to")
    frame, options = uuid4(), {**story.options, "from": "from", "to": "to", "columns": "key,value"}
    assert pairs(await read(options, keeper=keeper.address, id=frame)) == {b"a": b"2"}
    await story.write({b"b": b"3"})
    await story.forget(kept[end])
    await story.keep(end)
    with pytest.raises(InvalidError, match=f"checkpoint {kept[end]}, which had the name '{end}'"):
        await read(options, keeper=keeper.address, id=frame)


@pytest.mark.parametrize("by", ["name", "id"])
async def test_a_frame_outlives_a_checkpoint_with_a_lifetime(tmp_path: Path, keeper: Keeper, by: str) -> None:
    """The driver holds the state by one of its own."""
    story = Story(tmp_path)
    await story.write({b"a": b"monday"})
    monday = await story.keep("nightly", lifetime_ms=60_000)
    frame, options = uuid4(), {**story.options, "checkpoint": "nightly" if by == "name" else str(monday)}
    for _ in range(2):
        assert pairs(await read(options, keeper=keeper.address, id=frame)) == {b"a": b"monday"}
        await story.write({b"a": b"tuesday"})
        await story.forget(monday)
        await story.keep("nightly")


async def test_an_id_needs_no_driver_that_remembers_it(tmp_path: Path) -> None:
    """A name does: without that it may be another state's at the next plan."""
    story = Story(tmp_path)
    await story.write({b"a": b"1"})
    kept, nobody = await story.keep("nightly"), str(tmp_path / "nobody")
    assert pairs(await read({**story.options, "checkpoint": str(kept)}, keeper=nobody)) == {b"a": b"1"}
    with pytest.raises(InvalidError, match='give its id with option\\("checkpoint"'):
        await read({**story.options, "checkpoint": "nightly"}, keeper=nobody)


async def test_a_frame_whose_checkpoint_was_deleted_says_so(tmp_path: Path, keeper: Keeper) -> None:
    story = Story(tmp_path)
    await story.write({b"a": b"1"})
    frame = uuid4()
    await read(story.options, keeper=keeper.address, id=frame)
    await story.forget(frame)
    with pytest.raises(InvalidError, match="that this frame was made with has been deleted: load it again"):
        await read(story.options, keeper=keeper.address, id=frame)


async def test_a_collector_leaves_what_is_held(tmp_path: Path, keeper: Keeper) -> None:
    """A frame is planned, everything it is to read is compacted away, and a collector comes that waits for nothing."""
    story = Story(tmp_path)
    await story.write({b"k%d" % i: b"1" for i in range(100)})
    reader = reader_of(story.options, SCHEMA, uuid4(), keeper.address)
    shares = await asyncio.to_thread(reader.partitions)
    await story.write({b"k%d" % i: b"2" for i in range(100)})
    await story.compact()
    now = Task(min_age=0)
    collector = Collector(story.files(), GcOptions(manifests=now, wal=now, compacted=now, compactions=now))

    def values() -> set[bytes]:
        reading._manifests.clear()  # as in another process
        return {value for share in shares for batch in reader.read(share) for value in batch["value"].to_pylist()}

    await asyncio.sleep(1.1)
    await collector.collect()
    assert await asyncio.to_thread(values) == {b"1"}
    await asyncio.to_thread(keeper.release)
    await collector.collect()
    with pytest.raises(InvalidError, match="load the frame again"):
        await asyncio.to_thread(values)


def test_an_old_spark_is_refused_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("4.1.0", "4.10.0.dev1", "5.0"):
        monkeypatch.setattr("pyspark.__version__", version)
        check_batches()
    for version in ("4.0.2", "3.5.1"):
        monkeypatch.setattr("pyspark.__version__", version)
        with pytest.raises(InvalidError, match=rf"needs PySpark 4\.1 or later, and this is {version}: pip install"):
            check_batches()
