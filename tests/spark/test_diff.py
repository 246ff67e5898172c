"""Diffs, read without Spark: against what a dictionary says changed, and looking at which objects they read."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slate_engine.errors import InvalidError
from slate_engine.format.columns import MERGE, TOMBSTONE
from slate_engine.lsm.commit import Change
from slate_engine.lsm.compaction.compactor import compact_once
from slate_engine.lsm.compaction.plan import Proposal
from slate_engine.lsm.table import Table
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.spark.lookup import GAP_BYTES
from slate_engine.state.compactions import Compactions, TieredSpec
from slate_engine.state.manifest import Manifest
from tests.interop.history import Concat
from tests.spark.databases import State, Story, pairs, read, write_layers


def changed(before: State, after: State) -> dict[bytes, tuple[str, bytes | None, bytes | None]]:
    """What a diff has to say, where no value was written twice."""
    said: dict[bytes, tuple[str, bytes | None, bytes | None]] = {}
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if old != new:
            said[key] = ("insert" if old is None else "delete" if new is None else "update", old, new)
    return said


async def said(
    story: Story, since: str, until: str, **more: str
) -> dict[bytes, tuple[str, bytes | None, bytes | None]]:
    table = await read({**story.options, "from": since, "to": until, **more})
    assert table["key"].to_pylist() == sorted(set(table["key"].to_pylist()))
    return {
        row["key"]: (row["change"], row["old_value"], row["value"])
        for row in table.select(["key", "change", "old_value", "value"]).to_pylist()
    }


async def test_random_histories(tmp_path: Path) -> None:
    """Rows in the log, in L0 and in runs; compactions between; every pair of checkpoints, in both directions."""
    chance = random.Random(7)
    story = Story(tmp_path)
    number = 0
    for step in range(12):
        changes: dict[bytes, bytes | None] = {}
        for _ in range(chance.choice([1, 10, 200])):
            number += 1
            key = b"k%03d" % chance.randrange(300)
            changes[key] = None if chance.random() < 0.3 else b"v%d" % number
        await story.write(changes, flush=chance.random() < 0.7)
        if step % 3 == 2:
            await story.keep(f"c{step}")
        if chance.random() < 0.4:
            await story.compact()
    names = list(story.kept)
    assert len(names) == 4
    for since in names:
        for until in names:
            expected = changed(story.kept[since], story.kept[until])
            assert await said(story, since, until) == expected
            assert await said(story, since, until, partitionBytes="1k", memoryBytes="16m") == expected


class AboveTheBottom:
    """Compacts level 0 alone, into a run over the others: there an expired row leaves a tombstone under its own number."""

    def propose(self, manifest: Manifest, book: Compactions, limit: int) -> list[Proposal]:
        root = manifest.root
        if not root.l0:
            return []
        run = max((run.id for run in root.runs), default=-1) + 1
        return [Proposal(TieredSpec(tuple(view.id for view in root.l0), (), run), "level 0 only")]


async def commit(story: Story, *changes: Change, flush: bool = True) -> None:
    writer = await Writer.open(story.files(), WriterOptions(operator=Concat()))
    await writer.durable((await writer.write(changes)).seq)
    await writer.close(flush_memtable=flush)


async def compact_level_0(story: Story) -> None:
    files = story.files()
    files.operator = Concat()
    await compact_once(files, AboveTheBottom(), force=True)


def expiring(key: bytes, value: bytes, flags: int = 0) -> Change:
    """Its time is over as soon as somebody who rewrites it looks."""
    return Change(key, value, flags, expire_at_ms=int(time.time() * 1000) + 300)


async def test_a_row_whose_time_is_over_is_deleted_wherever_a_compaction_drops_it(tmp_path: Path) -> None:
    story = Story(tmp_path)
    await story.write({b"k%03d" % i: b"base" for i in range(10)})
    await story.compact()
    await commit(story, expiring(b"k001", b"short"), expiring(b"new", b"short"), Change(b"k002", b"two"))
    await story.keep("before")
    await asyncio.sleep(0.4)
    await story.write({b"tick": b"1"})
    await compact_level_0(story)
    await story.keep("after")
    expected = {
        b"k001": ("delete", b"short", None),
        b"new": ("delete", b"short", None),
        b"tick": ("insert", None, b"1"),
    }
    assert await said(story, "before", "after") == expected
    assert {key: change for key, (change, _, _) in (await said(story, "after", "before")).items()} == {
        b"k001": "insert",
        b"new": "insert",
        b"tick": "delete",
    }


async def test_an_operand_that_expired_below_the_newest_changes_the_value(tmp_path: Path) -> None:
    story = Story(tmp_path)
    await commit(story, Change(b"both", b"a", MERGE), Change(b"same", b"a", MERGE))
    await commit(story, expiring(b"both", b"b", MERGE), Change(b"same", b"b", MERGE))
    await commit(story, Change(b"both", b"c", MERGE), Change(b"same", b"c", MERGE))
    await story.keep("before")
    await asyncio.sleep(0.4)
    await story.write({b"tick": b"1"})
    await compact_level_0(story)
    await story.keep("after")
    concat = {"mergeOperator": "tests.interop.history:Concat"}
    found = await said(story, "before", "after", **concat)
    assert found == {b"both": ("update", b"abc", b"ac"), b"tick": ("insert", None, b"1")}
    with pytest.raises(InvalidError, match=r'option\("mergeOperator"'):
        await said(story, "before", "after")


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_random_histories_with_times_and_operands(tmp_path: Path, seed: int) -> None:
    """Compactions of level 0 and of everything; a diff has to say what two plain reads say."""
    chance = random.Random(seed)
    story = Story(tmp_path)
    number = 0
    for step in range(12):
        changes: dict[bytes, Change] = {}
        for _ in range(chance.choice([1, 10, 60])):
            number += 1
            key, value = b"k%02d" % chance.randrange(60), b"v%d," % number
            flags = chance.choice([0, 0, MERGE, TOMBSTONE])
            # Times are over at once, soon, late, or never.
            times = chance.choice([1, 200, 3_600_000, None]) if flags != TOMBSTONE else None
            expire = None if times is None else int(time.time() * 1000) + times
            changes[key] = Change(key, b"" if flags == TOMBSTONE else value, flags, expire_at_ms=expire)
        await commit(story, Change(b"tick", b"%d" % step), *changes.values(), flush=chance.random() < 0.7)
        if step % 2:
            await story.keep(f"c{step}")
        if chance.random() < 0.6:
            await asyncio.sleep(0.05)
            await compact_level_0(story)
    operator = {"mergeOperator": "tests.interop.history:Concat"}
    states = {name: pairs(await read({**story.options, "checkpoint": name, **operator})) for name in story.kept}
    for since, before in states.items():
        for until, after in states.items():
            found = await said(story, since, until, **operator)
            # Writing again what was there is an update, too.
            assert {key: each for key, each in found.items() if each[1] != each[2]} == changed(before, after)


async def test_only_what_differs_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(tmp_path)
    await story.write({b"k%05d" % i: b"x" * 100 for i in range(0, 20_000, 2)})
    await story.compact()
    await story.keep("before")
    await story.write({b"k00100": b"new", b"k00101": b"inserted", b"k00102": None})
    await story.keep("after")
    read_bytes: list[int] = []
    original = Table.rows

    async def counting(self: Table, first: int, last: int, **how: Any) -> Any:
        blocks = await self.blocks()
        read_bytes.append(int((blocks.ends - blocks.starts)[first:last].sum()))
        return await original(self, first, last, **how)

    monkeypatch.setattr(Table, "rows", counting)
    assert await said(story, "before", "after") == {
        b"k00100": ("update", b"x" * 100, b"new"),
        b"k00101": ("insert", None, b"inserted"),
        b"k00102": ("delete", b"x" * 100, None),
    }
    size = sum(path.stat().st_size for path in (tmp_path / "db" / "compacted").iterdir())
    assert sum(read_bytes) < size / 20


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each request for blocks."""
    asked: list[int] = []
    original = Table.rows

    async def counting(self: Table, first: int, last: int, **how: Any) -> Any:
        blocks = await self.blocks()
        asked.append(int((blocks.ends - blocks.starts)[first:last].sum()))
        return await original(self, first, last, **how)

    monkeypatch.setattr(Table, "rows", counting)
    return asked


async def test_many_keys_are_looked_up_block_by_block(tmp_path: Path, read_bytes: Sequence[int]) -> None:
    """Three thousand keys of a run of 60 MB, far apart: none of the rest is read; close together: in few requests."""
    story = await write_layers(tmp_path, 1, 60_000, 1000)
    await story.write({b"%08d" % i: b"new" for i in range(0, 60_000, 100)})
    await story.write({b"%08d" % i: b"new" for i in range(7, 3000, 2)})
    await story.keep("after")
    read_bytes.clear()  # type: ignore[attr-defined]
    found = await said(story, "c", "after")
    assert len(found) == 600 + 1497
    assert all(change == ("update", bytes(1000), b"new") for change in found.values())
    assert sum(read_bytes) < 600 * 3 * 4096 + 4_000_000
    assert len(read_bytes) < 700
    assert max(read_bytes) < 5_000_000


MEASURE = """
import asyncio, sys
from tests.spark.databases import peak_mib, read
options = {"url": sys.argv[1], "path": "db", "from": "c", "to": "after", "memoryBytes": "16m"}
assert asyncio.run(read(options, drop=True)) == int(sys.argv[2])
print(peak_mib())
"""


@pytest.mark.spark
@pytest.mark.parametrize(("rows", "step", "value_bytes"), [(120_000, 5, 1000), (1200, 1, 100_000)])
async def test_memory_is_bounded_by_the_setting_not_by_what_changed(
    tmp_path: Path, rows: int, step: int, value_bytes: int
) -> None:
    """120 MB of which all blocks are looked at, with 16 MB: for many keys, and for few with large values."""
    large, small = tmp_path / "large", tmp_path / "small"
    for folder, count in ((large, rows), (small, 5 * step)):
        folder.mkdir()
        story = await write_layers(folder, 1, count, value_bytes)
        await story.write({b"%08d" % i: b"new" for i in range(0, count, step)})
        await story.keep("after")

    def peak(folder: Path, changes: int) -> int:
        run = [sys.executable, "-c", MEASURE, f"file://{folder}", str(changes)]
        return int(subprocess.run(run, capture_output=True, check=True, text=True, timeout=120).stdout)

    assert GAP_BYTES > 5 * 1024, "all of it is read"
    assert peak(large, rows // step) - peak(small, 5) < 80


async def test_a_value_written_again_is_an_update_and_what_came_and_went_is_nothing(tmp_path: Path) -> None:
    story = Story(tmp_path)
    await story.write({b"same": b"v", b"moved": b"m"})
    await story.keep("before")
    await story.write({b"same": b"v", b"short": b"s"})
    await story.write({b"short": None})
    await story.compact()
    await story.keep("after")
    assert await said(story, "before", "after") == {b"same": ("update", b"v", b"v")}


async def test_the_sequence_numbers_of_both_sides(tmp_path: Path) -> None:
    story = Story(tmp_path)
    await story.write({b"a": b"1", b"b": b"1"})
    await story.keep("before")
    await story.write({b"b": b"2"})
    await story.write({b"c": b"1", b"a": None})
    await story.keep("after")
    table = await read({**story.options, "from": "before", "to": "after", "columns": "key,change,old_seq,seq"})
    rows = {row["key"]: (row["change"], row["old_seq"], row["seq"]) for row in table.to_pylist()}
    assert rows[b"a"][0] == "delete"
    assert rows[b"a"][2] is None
    assert rows[b"b"][1] < rows[b"b"][2] < rows[b"c"][2]
    assert rows[b"c"][:2] == ("insert", None)


async def test_what_is_gone_names_the_earliest_that_is_left(tmp_path: Path) -> None:
    story = Story(tmp_path)
    await story.write({b"a": b"1"})
    gone = await story.keep("gone")
    await story.write({b"a": b"2"})
    left = await story.keep("left")
    await story.write({b"a": b"3"})
    await story.keep("later")
    await story.forget(gone)
    with pytest.raises(
        InvalidError, match=f"no checkpoint 'gone'.*earliest state that can still be read is {left} .left"
    ):
        await said(story, "gone", "later")


async def test_half_a_diff_is_refused(tmp_path: Path) -> None:
    story = Story(tmp_path)
    for options, message in (
        ({"to": "x"}, "a diff needs a beginning"),
        ({"from": "x", "checkpoint": "y"}, "give either"),
    ):
        with pytest.raises(InvalidError, match=message):
            await read({**story.options, **options})
