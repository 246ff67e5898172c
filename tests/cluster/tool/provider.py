"""The two ways to have a cluster, behind one interface.

``kind`` where a Docker or Podman engine answers, ``local`` where none does. Both give a kubeconfig in the project's
folder, DNS, Services, a default StorageClass, enforced NetworkPolicies, and images from archives.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.cluster.tool.kubectl import Kubectl
from tests.cluster.tool.names import Names
from tests.cluster.tool.report import ClusterError

PROVIDER_VARIABLE = "SLATEKEEPER_CLUSTER_PROVIDER"


@dataclass(frozen=True)
class Status:
    """``up`` when the API server is ready and the node is too; ``detail`` says more, for a person."""

    up: bool
    detail: str


class Provider(Protocol):
    """A cluster's life. Each method is safe to repeat."""

    @property
    def names(self) -> Names: ...

    def prepare(self) -> None:
        """Build or install what ``up`` needs: minutes on a new machine, nothing on any other."""

    def up(self) -> None:
        """Return when the node is Ready and names resolve; clear away first what an earlier, broken up has left."""

    def down(self) -> None:
        """Leave nothing behind, whatever state things are in."""

    def status(self) -> Status: ...

    def load(self, archives: Sequence[Path]) -> None:
        """Bring images into the node, so that pods can use them without a registry."""

    def crash(self) -> None:
        """End every process of the node at once, as a power failure does; what was stored is there when they start again."""

    def kubectl(self) -> Kubectl: ...


def provider(name: str) -> Provider:
    """The provider of the cluster ``name``: the one that brought it up, else the one that fits this machine."""
    from tests.cluster.tool.kind import Kind, engine
    from tests.cluster.tool.local import Local

    names = Names(name)
    wanted = os.environ.get(PROVIDER_VARIABLE, "")
    if wanted not in ("", "kind", "local"):
        raise ClusterError(f"{PROVIDER_VARIABLE} is {wanted!r}: choose kind or local, or leave it out")
    if not wanted and (names.home / "provider").exists():
        wanted = (names.home / "provider").read_text().strip()
    if wanted == "local":
        return Local(names)
    if (found := engine()) is not None:
        return Kind(names, found)
    if wanted == "kind":
        raise ClusterError(
            "neither `docker info` nor `podman info` answers: start one of them, or use the local provider"
        )
    return Local(names)
