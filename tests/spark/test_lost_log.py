"""Spark on a database whose WAL is in another store: planning fails and names the cause; no frame has only a part of the
rows, and no load fences the writer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from slate_engine.errors import Error
from slate_engine.lsm.replay import WalTruncated
from slate_engine.spark.holding import Keeper
from slate_engine.spark.load.commit import commit_load
from tests.spark.databases import Story, pairs, read
from tests.spark.loads import begun, built

ELSEWHERE = "probably in another store"


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    made = Keeper()
    yield made
    made.close()


@pytest.fixture
async def story(tmp_path: Path) -> Story:
    """One row in an SST and one in the log, kept as ``c``; the log is moved to another store."""
    made = Story(tmp_path / "main")
    made.folder.mkdir()
    await made.write({b"a": b"1"})
    await made.write({b"b": b"2"}, flush=False)
    await made.keep("c")
    (tmp_path / "log" / "db").mkdir(parents=True)
    (made.folder / "db" / "wal").rename(tmp_path / "log" / "db" / "wal")
    return made


@pytest.mark.parametrize("checkpoint", ["", "c"])
async def test_a_frame_is_not_planned_without_the_log(story: Story, keeper: Keeper, checkpoint: str) -> None:
    options = {**story.options, **({"checkpoint": checkpoint} if checkpoint else {})}
    with pytest.raises(Error, match=ELSEWHERE):
        await read(options, keeper=keeper.address, id=uuid4())
    whole = {**options, "walUrl": f"file://{story.folder.parent}/log"}
    assert pairs(await read(whole, keeper=keeper.address, id=uuid4())) == story.rows


async def test_a_load_fences_no_writer_if_it_cannot_read_the_log(tmp_path: Path) -> None:
    story = Story(tmp_path)
    await story.write({b"a": b"1"}, flush=False)
    files = story.files()
    intent = await begun(files, take_over=True)
    part = await built(files, intent, 0, {b"k": b"v"})
    (tmp_path / "db" / "wal").rename(tmp_path / "wal")
    epoch = (await files.manifest()).writer_epoch
    with pytest.raises(WalTruncated, match=ELSEWHERE):
        await commit_load(files, intent, [part])
    with pytest.raises(WalTruncated, match=ELSEWHERE):
        await begun(files, take_over=True)
    assert (await files.manifest()).writer_epoch == epoch
