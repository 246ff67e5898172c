"""Every name and address of a cluster, from its name and the folder of its checkout, so that clusters stand side by side and
``down`` knows what to look for even when nothing was written down."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from tests.servers.toolbox import cache_dir

PROJECT = Path(__file__).resolve().parents[3]
DEFAULT_NAME = "slatekeeper"

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?")
_BLOCKS = [IPv4Network(f"10.{second}.0.0/16") for second in range(128, 256)]
_INTERFACE_LIMIT = 15  # of the kernel, for the name of a network interface


class BadName(ValueError):
    """The cluster's name cannot be the name of everything that is derived from it."""


@dataclass(frozen=True)
class Names:
    """What a cluster called ``name`` calls its things on this machine."""

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadName(f"{self.name!r} cannot be a cluster's name: up to 30 of a-z, 0-9 and -, a letter first")

    @property
    def home(self) -> Path:
        """Kubeconfig, keys, configuration and logs: in the project's folder, which git ignores."""
        return PROJECT / ".cluster" / self.name

    @property
    def lock(self) -> Path:
        """Held by whoever changes the cluster. It stays, as a lock that is removed could be held by two."""
        return cache_dir() / f".{self.cgroup}.lock"

    @property
    def kubeconfig(self) -> Path:
        return self.home / "kubeconfig"

    @property
    def node(self) -> str:
        return f"{self.name}-node"

    @property
    def cgroup(self) -> str:
        return f"slatekeeper-{self.name}-{self._digest.hex()[:6]}"

    @property
    def interface(self) -> str:
        """The host's end of the cable to the node."""
        return f"sk-{self._digest.hex()}"[:_INTERFACE_LIMIT]

    @property
    def _digest(self) -> bytes:
        """Differs from checkout to checkout too: each may have a cluster of the same name."""
        return hashlib.sha256(f"{PROJECT}\0{self.name}".encode()).digest()

    def blocks(self) -> list[IPv4Network]:
        """All address blocks, the one that the name itself points to first; the next is for when that one is in use."""
        first = self._digest[0] % len(_BLOCKS)
        return _BLOCKS[first:] + _BLOCKS[:first]


@dataclass(frozen=True)
class Addresses:
    """How a block is divided: pods in its first half, services in the third quarter, the cable at its end."""

    block: IPv4Network

    @property
    def pods(self) -> IPv4Network:
        return next(self.block.subnets(new_prefix=17))

    @property
    def services(self) -> IPv4Network:
        return list(self.block.subnets(new_prefix=18))[2]

    @property
    def api_service(self) -> IPv4Address:
        return self.services[1]

    @property
    def dns(self) -> IPv4Address:
        return self.services[10]

    @property
    def host(self) -> IPv4Address:
        return self.block[-3]

    @property
    def node(self) -> IPv4Address:
        return self.block[-2]

    def inside(self, address: IPv4Address) -> str:
        """The address with the length of the cable's network, as ``ip addr add`` takes it."""
        return f"{address}/30"
