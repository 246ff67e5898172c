"""The cluster with Docker or Podman: kind makes the node, and the same things hold in it as in a local one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.tool import programs
from tests.cluster.tool.kubectl import Kubectl
from tests.cluster.tool.names import Names
from tests.cluster.tool.provider import Status
from tests.cluster.tool.report import ClusterError, run, say

_CONFIG = """kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
- role: control-plane
"""
_ENGINES = ("docker", "podman")


def engine() -> str | None:
    """Which container engine answers. Its client alone is not enough: many machines have that and no daemon."""
    for name in _ENGINES:
        if shutil.which(name) is not None and _answers([name, "info"]):
            return name
    return None


def _answers(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@dataclass(frozen=True)
class Kind:
    """kind's default network plugin enforces NetworkPolicies and its default StorageClass makes folders of the node, so
    nothing has to be added."""

    names: Names
    engine: str

    def prepare(self) -> None:
        self.command("get", "clusters", named=False)

    def up(self) -> None:
        if self.status().up:
            say(f"{self.names.name} is up already")
            return
        self.down()  # a half-made cluster of the same name would stand in the way
        self.names.home.mkdir(parents=True)
        (self.names.home / "provider").write_text("kind\n")
        self._kind("create", "cluster", "--config", "-", "--wait", "180s", stdin=_CONFIG, timeout=900)
        say(f"{self.names.name} is up")

    def down(self) -> None:
        self._kind("delete", "cluster")
        shutil.rmtree(self.names.home, ignore_errors=True)

    def status(self) -> Status:
        if self.names.name not in self._kind("get", "clusters", named=False).split():
            return Status(False, f"{self.names.name} (kind on {self.engine}): down")
        if not self.names.kubeconfig.exists() or not self.kubectl().answers("get", "--raw", "/readyz"):
            return Status(
                False, f"{self.names.name} (kind on {self.engine}): there, but its API server does not answer"
            )
        nodes = self.kubectl()("get", "nodes", "-o", "wide")
        head = f"{self.names.name} (kind on {self.engine}): KUBECONFIG={self.names.kubeconfig}"
        return Status(" Ready " in nodes, f"{head}\n{nodes}")

    def load(self, archives: Sequence[Path]) -> None:
        for archive in archives:
            self._kind("load", "image-archive", str(archive), timeout=600)

    def crash(self) -> None:
        node = f"{self.names.name}-control-plane"
        run("restart the node", [self.engine, "restart", "--time", "0", node], timeout=120)

    def kubectl(self) -> Kubectl:
        if (program := shutil.which("kubectl")) is None:
            raise ClusterError(
                "kubectl is needed beside kind: install it (Debian: `apt-get install kubernetes-client`)"
            )
        return Kubectl((program,), self.names.kubeconfig)

    def _kind(self, *words: str, named: bool = True, stdin: str | None = None, timeout: float = 120.0) -> str:
        command = self.command(*words, named=named)
        return run(f"{' '.join(words[:2])} with kind", command, env=self.environment(), stdin=stdin, timeout=timeout)

    def command(self, *words: str, named: bool = True) -> list[str]:
        program = shutil.which("kind") or str(programs.kind())
        own = ["--name", self.names.name] if named else []
        config = ["--kubeconfig", str(self.names.kubeconfig)] if words[1] == "cluster" else []
        return [program, *words, *own, *config]

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "KIND_EXPERIMENTAL_PROVIDER": self.engine}
