"""Clients that people use elsewhere: go-redis, ioredis, redis-cli and redis-benchmark, as they are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.server.conftest import Start
from tests.servers import debian
from tests.servers.toolbox import run

HERE = Path(__file__).parent / "clients"

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


def output_of(command: list[str], **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return str(done.stdout)


def redis_tool(name: str) -> str:
    return str(debian.program(lambda: Path(found) if (found := shutil.which(name)) else None, "redis-tools"))


def test_go_redis(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "client"
    run(["go", "build", "-o", program, "."], cwd=HERE / "go", package="golang-go")
    writer = start("writer").wait_ready()
    assert output_of([str(program), str(writer.resp_port)]) == "ok\n"


def test_ioredis(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "client"
    shutil.copytree(HERE / "node", folder)
    run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, package="npm")
    writer = start("writer").wait_ready()
    assert output_of(["node", "main.js", str(writer.resp_port)], cwd=folder) == "ok\n"


def test_redis_cli(start: Start) -> None:
    cli = [redis_tool("redis-cli"), "-p", str(start("writer").wait_ready().resp_port)]
    assert output_of([*cli, "set", "a", "1"]) == "OK\n"
    assert output_of([*cli, "-3", "get", "a"]) == "1\n"
    assert output_of([*cli, "--scan"]) == "a\n"
    assert "redis_version" in output_of([*cli, "info", "server"])
    piped = output_of([*cli, "--pipe"], input="SET b 2\r\nSET c 3\r\n")
    assert "errors: 0, replies: 2" in piped
    assert output_of([*cli, "mget", "b", "c"]) == "2\n3\n"


def test_redis_benchmark(start: Start) -> None:
    writer = start("writer").wait_ready()
    command = [redis_tool("redis-benchmark"), "-p", str(writer.resp_port), "-n", "2000", "-c", "20", "-P", "8", "--csv"]
    lines = output_of([*command, "-t", "set,get,incr,mset"]).splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ['"SET"', '"GET"', '"INCR"', '"MSET (10 keys)"']
