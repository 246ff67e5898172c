"""The tests' own tools: a server program is built once, whole or not at all, and says what it lacks."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.servers.process import ServerFailed, ServerProcess, accepts_connections, free_port
from tests.servers.toolbox import ToolMissing, run, tool


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLATEKEEPER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_two_runs_build_once(cache: Path) -> None:
    built: list[Path] = []

    def build(home: Path) -> None:
        built.append(home)
        time.sleep(0.2)
        (home / "program").write_text("x")

    homes: list[Path] = []
    threads = [threading.Thread(target=lambda: homes.append(tool("t", "v1", build, expect="soon"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert homes == [cache / "t-v1"] * 4
    assert len(built) == 1
    assert built[0] != cache / "t-v1"
    assert (cache / "t-v1" / "program").exists()


def test_a_failed_build_leaves_nothing(cache: Path) -> None:
    def build(home: Path) -> None:
        (home / "half").write_text("x")
        run([sys.executable, "-c", "print('why'); raise SystemExit(3)"], cwd=home, package="python3")

    with pytest.raises(RuntimeError, match=r"(?s)failed with code 3.*why"):
        tool("t", "v2", build, expect="soon")
    assert [path.name for path in cache.iterdir()] == [".t-v2.lock"]


def test_a_missing_program_is_named_with_its_package(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="apt-get install golang-go"):
        run(["no-such-go", "install"], cwd=tmp_path, package="golang-go")


def test_a_server_starts_dies_and_starts_again(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    log, ready = tmp_path / "log", lambda: accepts_connections(port)
    with ServerProcess("web", command, log=log, ready=ready, cwd=tmp_path) as server:
        first = server.pid
        server.kill()
        assert not accepts_connections(port)
        server.start()
        assert server.pid != first
        assert server.running
    assert not accepts_connections(port)
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_a_server_that_does_not_start_shows_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('cannot bind'); raise SystemExit(2)"]
    with pytest.raises(ServerFailed, match=r"(?s)ended with code 2.*cannot bind"):
        ServerProcess("broken", command, log=tmp_path / "log", ready=lambda: False).start()
    slow = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(ServerFailed, match="not ready after"):
        ServerProcess("slow", slow, log=tmp_path / "log2", ready=lambda: False, start_timeout=0.3).start()
