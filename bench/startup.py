"""How long a user waits before anything happens: import, help, and the first scan of a fresh process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIRST_SCAN = """
import asyncio, sys
from slate_engine.format.kernel import compilations
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.store.open import open_store

async def main():
    runtime = SystemRuntime()
    snapshot = await DatabaseFiles(open_store("file://" + sys.argv[1], runtime=runtime), "codec_lz4", runtime).latest()
    return sum([len(rows) async for rows in snapshot.scan()])

assert asyncio.run(main()) > 0
print(compilations())
"""


def run() -> Iterator[dict[str, Any]]:
    yield timed("warm import slate_engine", [sys.executable, "-c", "import slate_engine"], bar=1.0)
    yield timed("slate --help", [str(Path(sys.executable).with_name("slate")), "--help"], bar=0.4)
    sample = Path(__file__).parents[1] / "tests" / "data" / "store"
    command = [sys.executable, "-c", FIRST_SCAN, str(sample)]
    subprocess.run(command, check=True, capture_output=True)
    compiled = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    yield {"what": "kernels compiled by the first scan of a process", "figure": compiled, "bar": 0, "ok": compiled == 0}


def timed(what: str, command: list[str], bar: float) -> dict[str, Any]:
    """The best of five, so that the disk's first read does not count."""
    best = min(_seconds(command) for _ in range(5))
    return {"what": what, "seconds": round(best, 3), "bar": bar, "ok": best <= bar}


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start
