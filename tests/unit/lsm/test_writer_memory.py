"""The memory that a writer takes is what its settings say."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.store.files import FileStore
from slate_engine.store.protocol import OVERWRITE, Buffer, PutMode

MIB = 1 << 20
LIMIT, L0_SIZE = 32 * MIB, 8 * MIB
STUCK_SECONDS = 3.0
OPTIONS = WriterOptions(max_unflushed_bytes=LIMIT, l0_sst_size_bytes=L0_SIZE, l0_max_ssts=1000)

WAYS = {"batches": (1000, 100), "puts": (1, 100), "large values": (10, 8000)}
"""The rows of a commit, and the bytes of a value."""


class HeldUp(FileStore):
    """Stores nothing whose name has one of these words in it."""

    stuck: tuple[str, ...] = ()

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        if any(word in key for word in self.stuck):
            await asyncio.Event().wait()
        return await super().put(key, data, mode)


async def fill(folder: str, way: str, stuck: str) -> tuple[int, int]:
    """Write until nothing more is taken. How much more memory that took than the same with a little, and how many bytes
    were taken."""
    rows, size = WAYS[way]
    chance = os.urandom(rows + size)
    store = HeldUp(folder, SystemRuntime())
    writer = await Writer.open(DatabaseFiles(store, "db", SystemRuntime()), OPTIONS)
    taken, number = 0, 0

    async def commit() -> None:
        nonlocal taken, number
        await writer.write([Change(b"%016d" % (number + i), chance[i : i + size]) for i in range(rows)])
        taken, number = taken + rows * (16 + size), number + rows

    while taken < MIB:
        await commit()
    await writer.flush_memtable()  # what is loaded once is loaded
    forget_the_most()
    store.stuck, before, taken = tuple(stuck.split()), resident("VmRSS"), 0
    try:
        while taken < 4 * LIMIT:
            await asyncio.wait_for(commit(), STUCK_SECONDS)
    except TimeoutError:
        pass
    return resident("VmHWM") - before, taken


async def write_much(folder: str, megabytes: int) -> int:
    """The most memory that this process has ever had."""
    writer = await Writer.open(DatabaseFiles(FileStore(folder, SystemRuntime()), "db", SystemRuntime()), OPTIONS)
    chance = os.urandom(2000)
    for number in range(megabytes):
        await writer.write([Change(b"%016d" % (number * 1000 + i), chance[i : i + 984]) for i in range(1000)])
    await writer.close(flush_memtable=True)
    return resident("VmHWM")


async def leave(folder: str) -> None:
    """Die with as much in the log as a writer may have unflushed."""
    store = HeldUp(folder, SystemRuntime())
    writer = await Writer.open(DatabaseFiles(store, "db", SystemRuntime()), replace(OPTIONS, flush_interval=0.01))
    store.stuck = ("/compacted/",)
    number = 0
    try:
        while True:
            rows = [Change(b"%016d" % (number + i), b"x" * 20) for i in range(1000)]
            await asyncio.wait_for((await asyncio.wait_for(writer.write(rows), STUCK_SECONDS)).durable(), STUCK_SECONDS)
            number += 1000
    except TimeoutError:
        os._exit(0)


async def open_again(folder: str) -> tuple[int, int]:
    """How much memory it takes to open what is left, and how many rows are in the log."""
    await (
        await Writer.open(DatabaseFiles(FileStore(folder, SystemRuntime()), "other", SystemRuntime()), OPTIONS)
    ).close()
    store = HeldUp(folder, SystemRuntime())
    files = DatabaseFiles(store, "db", SystemRuntime())
    store.stuck = ("/compacted/",)
    forget_the_most()
    before = resident("VmRSS")
    writer = await Writer.open(files, replace(OPTIONS, l0_max_ssts=0))
    return resident("VmHWM") - before, writer.last_seq * 1000


def resident(what: str) -> int:
    """``VmRSS`` is now, ``VmHWM`` the most that ever was."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what)]
    return int(line.split()[1]) * 1024


def forget_the_most() -> None:
    """Count ``VmHWM`` anew: compiling the kernels took much, if that was not done on this machine before."""
    Path("/proc/self/clear_refs").write_text("5")


def in_a_process(*words: str) -> list[int]:
    """A process of its own: this one has memory for many reasons."""
    done = subprocess.run([sys.executable, "-m", __name__, *words], check=True, capture_output=True, timeout=250)
    found: list[int] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("way", "stuck"),
    [("batches", "/compacted/"), ("large values", "/compacted/"), ("puts", "/compacted/ /wal/")],
    ids=["batches, no flush", "large values, no flush", "puts, no flush and no log"],
)
def test_back_pressure_starts_when_the_memory_is_taken(tmp_path: Path, way: str, stuck: str) -> None:
    grown, taken = in_a_process("fill", str(tmp_path), way, stuck)
    assert taken < 4 * LIMIT, "the writer took whatever came"
    assert taken > LIMIT / 8, "the writer gave up early"
    assert grown < LIMIT + 36 * MIB


def test_opening_takes_no_more_memory_than_writing_did(tmp_path: Path) -> None:
    in_a_process("leave", str(tmp_path))
    grown, rows = in_a_process("open", str(tmp_path))
    assert rows > 50_000, "there was little in the log"
    assert grown < LIMIT + 36 * MIB


def test_memory_is_bounded_however_much_is_written(tmp_path: Path) -> None:
    (peak,) = in_a_process("write", str(tmp_path), "200")
    assert peak < LIMIT + 300_000_000


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fill", folder, way, stuck]:
            print(json.dumps(asyncio.run(fill(folder, way, stuck))))
        case ["leave", folder]:
            print("[]", flush=True)
            asyncio.run(leave(folder))
        case ["open", folder]:
            print(json.dumps(asyncio.run(open_again(folder))))
        case ["write", folder, megabytes]:
            print(json.dumps([asyncio.run(write_much(folder, int(megabytes)))]))
