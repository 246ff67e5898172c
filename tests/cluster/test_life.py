"""A local cluster comes and goes: beside another, after a crash, after a broken start, and without a trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.tool import host, plan
from tests.cluster.tool.kubectl import until
from tests.cluster.tool.local import Local
from tests.cluster.tool.names import PROJECT, Names
from tests.cluster.tool.node import EVENTS
from tests.cluster.tool.report import ClusterError
from tests.cluster.traces import Traces, elsewhere

pytestmark = pytest.mark.cluster


@pytest.fixture
def before() -> Traces:
    return Traces.take()


@pytest.fixture
def local(before: Traces) -> Iterator[Local]:
    """A cluster of this test alone. Whatever the test did to it, taking it down must leave the host as it was."""
    cluster = Local(Names(f"life-{uuid.uuid4().hex[:6]}"))
    yield cluster
    cluster.down()
    assert not cluster.names.home.exists()
    # Interfaces inside a namespace go a moment after it; routes and rules go with them.
    until(lambda: Traces.take() == before, timeout=5)
    assert Traces.take() == before


def test_up_and_down_leave_the_host_as_it_was(local: Local, before: Traces) -> None:
    assert not local.status().up
    local.up()
    during = Traces.take()
    assert during.processes > before.processes, "what is looked for can be seen"
    assert during.interfaces > before.interfaces
    assert during.routes > before.routes
    assert during.cgroups > before.cgroups
    kept = ("mounts", "firewall", "settings", "files")
    assert [getattr(during, name) for name in kept] == [getattr(before, name) for name in kept], (
        "not even while it is up"
    )
    status = local.status()
    assert status.up, status.detail
    assert str(local.names.kubeconfig) in status.detail
    local.up()  # again, which changes nothing
    local.down()
    assert not local.status().up


def test_what_kill_minus_nine_leaves_goes_too(local: Local) -> None:
    """All processes at once, as a crash of the machine would, but with everything else still lying about."""
    local.up()
    for pid in processes_of(local):
        os.kill(pid, signal.SIGKILL)
    assert until(lambda: host.node_process(local.names) is None, timeout=10)
    assert local.names.home.exists()
    assert any(folder.exists() for folder in host.cgroups(local.names)), "there is something to clear away"


def processes_of(cluster: Local) -> dict[int, str]:
    """Its node's processes and its pods', told from another cluster's by the first process that they all descend from;
    that one comes last."""
    first = host.node_process(cluster.names)
    assert first is not None
    own = {first}
    candidates = elsewhere()
    while more := {pid for pid in candidates.keys() - own if parent(pid) in own}:
        own |= more
    return {pid: candidates[pid] for pid in sorted(own, key=lambda pid: pid == first)}


def parent(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))


def test_up_after_a_reboot_clears_the_leftovers_away(local: Local) -> None:
    """What a reboot leaves is files only: the folder of a cluster whose processes are gone, with another's id in notes."""
    local.names.home.mkdir(parents=True)
    (local.names.home / "provider").write_text("local\n")
    (local.names.home / "pki").mkdir()
    local.names.kubeconfig.write_text("old")
    local.up()
    assert local.status().up
    assert local.names.kubeconfig.read_text() != "old"


def test_a_component_that_dies_comes_back(local: Local) -> None:
    local.up()
    events = local.names.home / "log" / EVENTS
    [scheduler] = [pid for pid, command in processes_of(local).items() if "kube-scheduler" in command]
    os.kill(scheduler, signal.SIGKILL)
    assert until(lambda: "kube-scheduler ended with code -9" in events.read_text(), timeout=10)
    kubectl = local.kubectl()
    kubectl("run", "late", "--image=localhost/slatekeeper/pause:1", "--image-pull-policy=Never")
    kubectl.wait("condition=Ready", "pod/late", timeout=60)


def test_a_start_that_fails_says_why_and_the_next_one_works(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server cannot listen: a step late enough that much has been set up."""
    with monkeypatch.context() as broken:
        broken.setattr(plan, "API_PORT", 70000)
        with pytest.raises(ClusterError) as failed:
            local.up()
    message = str(failed.value)
    assert "could not start the API server" in message
    assert "70000" in message, "the end of the log names the cause"
    assert "Traceback" not in message
    assert host.node_process(local.names) is None
    local.up()
    assert local.status().up


def test_the_command_line_prints_a_cause_and_no_stack_trace(before: Traces) -> None:
    command = [sys.executable, "-m", "tests.cluster.tool", "--name", "No/Name", "up"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "cannot be a cluster's name" in done.stderr
    assert "Traceback" not in done.stderr
    assert Traces.take() == before


def test_two_clusters_stand_side_by_side(local: Local) -> None:
    local.up()
    other = Local(Names(f"life-{uuid.uuid4().hex[:6]}"))
    try:
        other.up()
        for cluster, name in ((local, "one"), (other, "other")):
            cluster.kubectl()("create", "configmap", name)
        assert "other" not in local.kubectl()("get", "configmaps", "-o", "name")
        assert json.loads(other.kubectl()("get", "--raw", "/version"))["gitVersion"].startswith("v1.")
    finally:
        other.down()
    assert local.status().up, "taking one down does not touch the other"


def test_only_root_may(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as nobody:
        nobody.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(ClusterError, match="start Docker or Podman"):
            local.up()
