"""The plan of a local node, and the process that carries it out."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tomllib
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from tests.cluster.tool import plan
from tests.cluster.tool.kubectl import until
from tests.cluster.tool.names import PROJECT, Addresses, Names
from tests.cluster.tool.node import available
from tests.servers.process import free_port

NAMES, ADDRESSES = Names("one"), Addresses(IPv4Network("10.200.0.0/16"))


def test_a_plan_survives_the_way_to_the_node() -> None:
    made = plan.plan(NAMES, ADDRESSES, "1g")
    assert plan.Plan.load(made.dump()) == made
    assert len({component.name for component in made.components}) == len(made.components)


def test_nothing_of_a_plan_names_the_host() -> None:
    """Paths are the node's own, so that a checkout anywhere, and any number of clusters, work the same."""
    text = plan.plan(NAMES, ADDRESSES, "1g").dump() + "".join(plan.files(NAMES, ADDRESSES).values())
    assert str(PROJECT) not in text
    assert str(Path.home()) not in text


def test_the_files_are_what_their_readers_can_read() -> None:
    files = plan.files(NAMES, ADDRESSES)
    tomllib.loads(files["containerd.toml"])
    for name, text in files.items():
        if name.endswith((".yaml", ".conflist")):
            json.loads(text)


@pytest.mark.parametrize("need", ["file:/no/such", "tcp:127.0.0.1:{port}", "api:127.0.0.1:{port}"])
def test_what_is_not_there_is_not_available(need: str) -> None:
    assert not available(need.format(port=free_port()))


def test_a_supervisor_starts_in_order_starts_again_and_buries_orphans(tmp_path: Path) -> None:
    """As the first process of a namespace it would do the same; here it runs as an ordinary one."""
    program = f"""
import pathlib, sys
from tests.cluster.tool import node, plan
node.HOME = pathlib.PurePosixPath({str(tmp_path)!r})
python = lambda code: (sys.executable, "-c", code)
first = "import pathlib, time; time.sleep(0.2); pathlib.Path({str(tmp_path / "there")!r}).touch(); time.sleep(60)"
second = "import pathlib; print(pathlib.Path({str(tmp_path / "there")!r}).exists(), flush=True); raise SystemExit(3)"
node.Supervisor((
    plan.Component("second", python(second), ("file:{tmp_path / "there"}",)),
    plan.Component("first", python(first)),
), lambda event: print(event, end="", flush=True)).run()
"""
    (tmp_path / "log").mkdir()
    events = tmp_path / "events"
    with events.open("w") as out:
        process = subprocess.Popen([sys.executable, "-c", program], cwd=PROJECT, stdout=out, process_group=0)
    try:
        assert until(lambda: events.read_text().count("second ended with code 3\n") >= 2, timeout=20)
        assert set((tmp_path / "log" / "second.log").read_text().split()) == {"True"}, "it waited for what it needs"
    finally:
        first = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
        for pid in first:
            subprocess.run(["kill", "-9", str(pid)], check=False, capture_output=True)
