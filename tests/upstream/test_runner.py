"""The runner of SlateDB's own tests, tried on a few lines that look like them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PASSING = """
import asyncio
from slatedb.uniffi import DbBuilder, ObjectStore


def test_module():
    assert DbBuilder.__module__.startswith("slate_engine")


def test_put():
    async def put():
        db = await DbBuilder("db", ObjectStore.resolve("memory:///")).build()
        await db.put(b"k", b"v")
        assert await db.get(b"k") == b"v"
        await db.shutdown()

    asyncio.run(put())
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.upstream", *arguments]
    root = Path(__file__).parents[2]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=240, check=False)


def test_tests_run_with_the_import_changed(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(PASSING)
    done = run(str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert file.read_text() == PASSING, "the original is left alone"
    other = run("--original", str(tmp_path), "-k", "module")
    assert other.returncode == 1, "it tests what it says"


def test_a_folder_without_tests_is_refused(tmp_path: Path) -> None:
    done = run(str(tmp_path))
    assert done.returncode == 2
    assert "holds no tests" in done.stderr
