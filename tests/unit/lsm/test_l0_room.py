"""When level 0 is full: by the number of its SSTs, and by how many of them a read of one key has to look at."""

from __future__ import annotations

import pytest

from slate_engine.lsm.commit import Change
from slate_engine.lsm.l0_room import has_room, l0_count, l0_depth
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.store.memory import MemoryStore

RUNTIME = SystemRuntime()


@pytest.mark.parametrize(
    ("tables", "depth"),
    [
        ([], 0),
        (["ab"], 1),
        (["ab", "cd", "ef"], 1),
        (["ab", "bc", "cd"], 2),
        (["ac", "bd", "ce"], 3),
        (["az", "bc", "de", "fg"], 2),
        (["aa", "aa", "aa"], 3),
    ],
)
async def test_depth(tables: list[str], depth: int) -> None:
    files = DatabaseFiles(MemoryStore(RUNTIME), "db", RUNTIME)
    writer = await Writer.open(files, WriterOptions(l0_max_ssts=100))
    for first, last in tables:
        await writer.write([Change(first.encode(), b""), Change(last.encode(), b"")])
        await writer.flush_memtable()
    trees = writer.state.manifest.trees
    assert l0_count(trees) == len(tables)
    assert l0_depth(trees.root.l0) == depth
    assert has_room(trees, len(tables) + 1, None)
    assert not has_room(trees, len(tables), None)
    assert has_room(trees, 100, depth + 1)
    assert not has_room(trees, 100, depth)
    await writer.close()


async def test_flushing_waits_for_depth_and_goes_on_beside_it() -> None:
    files = DatabaseFiles(MemoryStore(RUNTIME), "db", RUNTIME)
    writer = await Writer.open(files, WriterOptions(l0_max_ssts=100, l0_max_ssts_per_key=3))
    for number in range(6):
        await writer.write([Change(b"side by side %d" % number, b"")])
        await writer.flush_memtable()
    for _ in range(2):
        await writer.write([Change(b"side by side 0", b"")])
        await writer.flush_memtable()
    await writer.write([Change(b"elsewhere", b"")])
    writer.freeze()
    await RUNTIME.sleep(0.05)
    assert writer.pending is not None, "level 0 took a fourth SST that may hold one key"
    assert not writer.has_l0_room
    await writer.close()
