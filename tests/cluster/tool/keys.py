"""Who is who in a cluster: its certificates, and a kubeconfig for each of its clients."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.cluster.tool import programs
from tests.cluster.tool.report import run

_NAMES = ("localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_FULL_NAME = "kubernetes.default.svc.cluster.local"


def write_keys(folder: Path, *, cluster: str, node: str, server: str, addresses: Sequence[str]) -> None:
    """``server`` is the url that the kubeconfigs name; ``addresses`` are where the API server and the node listen."""
    names = ",".join([*_NAMES, _FULL_NAME, *addresses])
    command: list[str | Path] = [programs.kube() / "kube", "certs", "-dir", folder, "-cluster", cluster, "-node", node]
    run("write the keys", [*command, "-server", server, "-names", names])
