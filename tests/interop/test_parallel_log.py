"""A writer of ours that stores several WAL files at once is killed: the original has every row that was acknowledged."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import slatedb.uniffi as u

from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from tests.interop import ours
from tests.interop.original import Original
from tests.interop.style import Style

ROOT = Path(__file__).parents[2]
COMMITS = 5


def killed_with_a_gap(folder: Path, how: str) -> set[str]:
    """What was acknowledged."""
    command = [sys.executable, "-m", "tests.interop.doomed_parallel_writer", str(folder), str(COMMITS), how]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    stored = sorted(int(path.stem) for path in (folder / "db" / "wal").iterdir())
    assert stored[-1] > len(stored), "the scenario has to leave a gap, and something behind it"
    return set(ended.stdout.split())


async def have_all(them: Any, acknowledged: set[str]) -> bool:
    return all([await them.get(key.encode()) == b"1" for key in acknowledged])


@pytest.mark.parametrize("how", ["flush", "no flush"])
async def test_nothing_that_was_acknowledged_lies_behind_a_gap(tmp_path: Path, how: str) -> None:
    them = Original(tmp_path, Style())
    acknowledged = await asyncio.to_thread(killed_with_a_gap, tmp_path, how)
    assert acknowledged == {f"early{number}" for number in range(COMMITS)}
    builder = u.DbReaderBuilder("db", them.store)
    builder.with_reader_mode(u.ReaderMode.FOLLOW_LATEST())
    reader = await builder.build()
    assert await have_all(reader, acknowledged)
    await reader.shutdown()
    # A writer of the original cannot read across a gap, and says so. One of ours fills it.
    if how == "no flush":
        with pytest.raises(u.Error.Data, match="wal truncated"):
            await u.DbBuilder("db", them.store).build()
    writer = await Writer.open(ours.database(ours.folder_store(tmp_path), "db", Style()), WriterOptions())
    await writer.close()
    async with them.writer("db") as db:
        assert await have_all(db, acknowledged)
        await (await db.put(b"after", b"1")).await_durable()


async def test_the_original_opens_what_has_a_gap_right_behind_level_0(tmp_path: Path) -> None:
    them = Original(tmp_path, Style())
    acknowledged = await asyncio.to_thread(killed_with_a_gap, tmp_path, "flush")
    db = await u.DbBuilder("db", them.store).build()
    assert await have_all(db, acknowledged)
    # It fills the gap by its fence, and takes the file behind that for another writer's. The next one goes on.
    with pytest.raises(u.Error.Closed):
        await (await db.put(b"after", b"1")).await_durable()
    async with them.writer("db") as db:
        assert await have_all(db, acknowledged)
        await (await db.put(b"after", b"1")).await_durable()
