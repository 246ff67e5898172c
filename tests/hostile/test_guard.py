"""No kernel reads or writes a byte beyond its buffers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(cases: int, timeout: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.hostile.guard", str(cases)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)


def test_buffers_that_end_where_memory_ends() -> None:
    done = run(150, 120)
    assert done.returncode == 0, f"signal {-done.returncode}: {done.stderr}"
    assert done.stdout == "unharmed\n"


@pytest.mark.long
def test_buffers_that_end_where_memory_ends_at_length() -> None:
    done = run(5000, 280)
    assert done.returncode == 0, f"signal {-done.returncode}: {done.stderr}"
    assert done.stdout == "unharmed\n"
