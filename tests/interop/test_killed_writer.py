"""What is left of a database when its writer is killed: we find what the original finds, and nothing durable is lost."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from tests.interop import ours
from tests.interop.doomed_writer import operations
from tests.interop.history import Commit, Model
from tests.interop.original import Original
from tests.interop.style import Style

ROOT = Path(__file__).parents[2]
COMMITS = 123


async def test_a_killed_writer_leaves_a_readable_database(tmp_path: Path) -> None:
    them, style = Original(tmp_path, Style()), Style()
    command = [sys.executable, "-m", "tests.interop.doomed_writer", str(tmp_path), "db", str(COMMITS)]
    for _ in range(2):  # the second one opens what the first one left
        ended = await asyncio.to_thread(run, command)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        durable = int(ended.stdout.split()[-1])
        assert durable == (COMMITS - 1) // 5 * 5
    rows = await them.rows("db")
    us = ours.database(ours.folder_store(tmp_path), "db", style)
    manifest = await us.manifest()
    snapshot = await us.latest()
    assert manifest.root.l0, "the scenario has to leave SSTs"
    assert snapshot.max_seq > manifest.last_l0_seq, "and rows that are only in the WAL"
    await ours.check(snapshot, rows)
    ends = range(durable, COMMITS)
    assert [row[:2] for row in rows] in [seen_after(first, second) for first in ends for second in ends]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def seen_after(first: int, second: int) -> list[tuple[bytes, bytes]]:
    """The keys and values, if these were the last commits of the two writers that became durable."""
    model = Model()
    for seq, number in enumerate([*range(first + 1), *range(second + 1)], 1):
        model.apply(Commit(seq, 0, tuple(operations(number))))
    return [row[:2] for row in model.rows()]
