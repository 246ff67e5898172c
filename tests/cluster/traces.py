"""What a cluster could leave on a host, as a value that can be compared: taken before and after, it must be the same."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.tool import programs
from tests.servers.toolbox import cache_dir

# What Kubernetes nodes and container networks are known to set for the whole machine.
_SETTINGS = (
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/forwarding",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/conf/all/rp_filter",
    "net/bridge/bridge-nf-call-iptables",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "net/netfilter/nf_conntrack_tcp_be_liberal",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
_FOLDERS = ("/run", "/var/lib", "/var/log", "/var/lib/cni", "/var/lib/kubelet", "/var/lib/containerd", "/etc/cni")


@dataclass(frozen=True)
class Traces:
    processes: frozenset[str]
    mounts: frozenset[str]
    interfaces: frozenset[str]
    routes: frozenset[str]
    firewall: str
    settings: tuple[str, ...]
    cgroups: frozenset[str]
    files: frozenset[str]

    @classmethod
    def take(cls) -> Traces:
        return cls(
            processes=frozenset(f"{pid} {command}" for pid, command in elsewhere().items()),
            mounts=frozenset(_mounts()),
            interfaces=frozenset(os.listdir("/sys/class/net")),
            routes=frozenset(_said("ip", "route", "show", "table", "all").splitlines()),
            firewall=_said("nft", "list", "ruleset"),
            settings=tuple(f"{name}={_setting(name)}" for name in _SETTINGS),
            cgroups=frozenset(str(path) for path in Path("/sys/fs/cgroup").glob("**/slatekeeper-*")),
            files=frozenset(
                f"{folder}/{name}" for folder in _FOLDERS if Path(folder).is_dir() for name in os.listdir(folder)
            ),
        )


def elsewhere() -> dict[int, str]:
    """Every process in a network other than ours, a node's or its pods', by id, with its command line. The dead who wait
    for burial do not count, nor do builds of images, which use the host's network."""
    ours, found = os.readlink("/proc/self/ns/net"), {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it ended while we looked, or is dead
                if os.readlink(folder / "ns" / "net") != ours:
                    found[int(folder.name)] = (folder / "cmdline").read_bytes()[:120].decode(errors="replace")
    return found


def _mounts() -> Iterator[str]:
    """But for those of a build of images, which may be under way."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4]
        if not point.startswith((f"{cache_dir()}/images/", "/var/tmp/buildah")):
            yield point


def _said(*command: str) -> str:
    program = shutil.which(command[0], path=programs.search_path())
    assert program is not None, f"{command[0]} is needed to see what a cluster leaves behind"
    return subprocess.run([program, *command[1:]], capture_output=True, text=True, check=True).stdout


def _setting(name: str) -> str:
    path = Path("/proc/sys", name)
    return path.read_text().strip() if path.exists() else "-"
