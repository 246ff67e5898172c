"""What a local cluster has on the host itself: one process, one end of a cable, one cgroup. Found by name, not by notes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path

from tests.cluster.tool.kubectl import until
from tests.cluster.tool.names import Addresses, Names
from tests.cluster.tool.node import MODULE
from tests.cluster.tool.programs import search_path
from tests.cluster.tool.report import ClusterError, run

_CGROUPS = Path("/sys/fs/cgroup")
_KUBELET_CONTROLLERS = {"cpu", "cpuset", "hugetlb", "memory", "pids"}


def node_process(names: Names) -> int | None:
    """The first process of the cluster's node, if it lives. Its command line names the cluster's folder, so neither a lost
    nor a stale note of its id can mislead."""
    wanted = [MODULE, str(names.home)]
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if words[2:4] == wanted and _is_first(folder):
                    return int(folder.name)
    return None


def lives(pid: int) -> bool:
    """Whether the first process that was found once is still there."""
    try:
        return _is_first(Path("/proc", str(pid)))
    except OSError:
        return False


def _is_first(folder: Path) -> bool:
    """Whether a process is number 1 of a namespace of its own, and not yet dead."""
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
    ids = status["NSpid"].split()
    return len(ids) > 1 and ids[-1] == "1" and status["State"].split()[0] not in "ZX"


def end_node(names: Names) -> None:
    """Kill the first process: the kernel ends all others of its namespace before it is gone itself."""
    while (pid := node_process(names)) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if not until(lambda: node_process(names) is None, timeout=20, every=0.02):
            raise ClusterError(
                f"process {pid} does not end: some process of the node hangs in the kernel (see `dmesg`)"
            )


def in_use(names: Names) -> list[IPv4Network]:
    """Address blocks that the host has routes to already, other clusters' included."""
    routes = json.loads(run("list routes", ["ip", "-json", "route", "show", "table", "all"], env=_environment()))
    others = [route["dst"] for route in routes if route.get("dev") != names.interface]
    return [IPv4Network(destination) for destination in others if _is_network(destination)]


def free_block(names: Names) -> IPv4Network:
    taken = in_use(names)
    for block in names.blocks():
        if not any(block.overlaps(other) for other in taken):
            return block
    raise ClusterError("every block of 10.128.0.0/9 is in use on this machine: take another cluster down first")


def plug_in(names: Names, addresses: Addresses, pid: int) -> None:
    """Lay the cable: one end in the node's network, the other here, with a route to pods and services."""
    interface, host, node = names.interface, addresses.inside(addresses.host), str(addresses.node)
    for command in (
        ["ip", "link", "add", interface, "type", "veth", "peer", "name", "eth0", "netns", str(pid)],
        ["ip", "address", "add", host, "dev", interface],
        ["ip", "link", "set", interface, "up"],
        ["ip", "route", "add", str(addresses.block), "via", node, "dev", interface],
    ):
        run("connect the node", command, env=_environment())


def unplug(names: Names) -> None:
    if Path("/sys/class/net", names.interface).exists():
        with contextlib.suppress(ClusterError):  # it goes with the node's network, perhaps just now
            run("disconnect the node", ["ip", "link", "delete", names.interface], env=_environment())
    if not until(lambda: not Path("/sys/class/net", names.interface).exists(), timeout=5, every=0.02):
        raise ClusterError(f"the interface {names.interface} does not go away")


def cgroups(names: Names) -> Iterator[Path]:
    """The cluster's cgroup in each hierarchy of version 1, or in the one of version 2."""
    if (_CGROUPS / "cgroup.controllers").exists():
        yield _CGROUPS / names.cgroup
        return
    for hierarchy in _CGROUPS.iterdir():
        if hierarchy.is_dir() and not hierarchy.is_symlink():
            yield hierarchy / names.cgroup


def make_cgroups(names: Names) -> None:
    for folder in cgroups(names):
        folder.mkdir(exist_ok=True)
    if (_CGROUPS / "cgroup.controllers").exists():
        # In version 2 a group has the controllers that its parent passes on, and a kubelet will not start without its own.
        # One that is passed on and not used does nothing, so it is not taken back.
        there = (_CGROUPS / "cgroup.controllers").read_text().split()
        for controller in _KUBELET_CONTROLLERS.intersection(there):
            (_CGROUPS / "cgroup.subtree_control").write_text(f"+{controller}")


def remove_cgroups(names: Names) -> None:
    if not all(until(partial(_removed, folder), timeout=10, every=0.02) for folder in cgroups(names)):
        left = [str(folder) for folder in cgroups(names) if folder.exists()]
        raise ClusterError(f"cgroups stay because something still runs in them: {', '.join(left)}")


def _removed(top: Path) -> bool:
    if not top.exists():
        return True
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):  # busy while its last process is being buried
            os.rmdir(folder)
    return not top.exists()


def _is_network(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return IPv4Network(text).prefixlen > 0
    return False


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": search_path()}


def kill_all_of_node(first: int) -> None:
    """Every process that comes from the node's first one, which lives and starts again what it had started."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    doomed = {first}
    while more := {pid for pid, parent in parents.items() if parent in doomed} - doomed:
        doomed |= more
    for pid in doomed - {first}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
