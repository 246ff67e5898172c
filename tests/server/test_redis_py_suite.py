"""redis-py's own tests, from its source distribution, against our server.

They cover all of Redis. Those that need a command we do not have fail with its name, and with nothing else; every other one
has to pass, but for a few that ask for more of Redis itself, which are named here with the reason.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from importlib.metadata import version
from pathlib import Path

import pytest

from slate_engine.server.resp.catalogue import TABLE
from tests.server.conftest import Start
from tests.servers.toolbox import tool

EXCUSED = {
    "test_command": "wants a hundred commands",
    "test_command_count": "wants a hundred commands",
    "test_config_get": "wants settings of Redis that have no meaning here",
    "test_config_get_multi_params": "the same",
    "test_config_set": "the configuration is a file here",
    "test_config_set_multi_params": "the same",
    "test_client_pause_all": "CLIENT PAUSE",
    "test_client_kill_filter_by_laddr": "CLIENT KILL",
    "test_client_setinfo": "opens a connection to the port of a Redis beside the one under test",
    "test_client_setinfo_with_driver_info": "the same",
    "test_exec_error_in_response": "needs lists, inside a transaction",
}
ELSEWHERE = (
    "acl cluster geo zset stream hash list bitop module function lua script vset sort hscan zadd xadd pubsub latency memory "
    "slowlog replica json"
)
"""Parts of Redis that are plainly not ours, and take minutes to fail."""

FEWEST = 110
"""So many pass; fewer would mean that something was not run."""


def sources() -> Path:
    def download(home: Path) -> None:
        wanted = f"redis=={version('redis')}"
        command = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(home), wanted]
        subprocess.run([sys.executable, "-m", "pip", *command], check=True)
        [archive] = home.glob("redis-*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(home, filter="data")

    home = tool("redis-py-tests", version("redis"), download, expect="a few seconds")
    return next(path for path in home.iterdir() if path.is_dir())


@pytest.mark.servers
@pytest.mark.timeout(900)
def test_the_suite_of_redis_py(start: Start, tmp_path: Path) -> None:
    writer = start("writer", resp__allow_flush="true").wait_ready()
    report = tmp_path / "report.xml"
    files = [f"tests/test_{name}.py" for name in ("commands", "pipeline", "encoding")]
    chosen = f"not ({' or '.join(ELSEWHERE.split())})"
    options = [
        "-k",
        chosen,
        "--timeout=60",
        "-p",
        "no:cacheprovider",
        "-o",
        "asyncio_mode=auto",
        "--tb=line",
        f"--junitxml={report}",
    ]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *files, *options, f"--redis-url=redis://127.0.0.1:{writer.resp_port}/0"],
        cwd=sources(),
        check=False,
        capture_output=True,
        timeout=800,
    )
    passed, wrong = judged(ET.parse(report).getroot())
    assert wrong == {}
    assert len(passed) >= FEWEST


def judged(report: ET.Element) -> tuple[set[str], dict[str, str]]:
    """The tests that passed, and those that failed for a reason that counts."""
    passed: set[str] = set()
    wrong: dict[str, str] = {}
    for case in report.iter("testcase"):
        name = case.attrib["name"].partition("[")[0]
        found = [each for kind in ("failure", "error") for each in case.findall(kind)]
        if not found:
            if case.find("skipped") is None:
                passed.add(name)
            continue
        text = "".join((each.text or "") + each.attrib.get("message", "") for each in found)
        missing = re.findall(r"unknown (?:sub)?command '(\w+)'", text)
        foreign = [command for command in missing if command.upper().encode() not in TABLE]
        if name not in EXCUSED and not foreign:
            wrong[name] = text[-2000:]
    return passed, wrong
