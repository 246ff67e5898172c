"""A cluster seen through ``kubectl``: the one client that both providers have, and that a person would use."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.tool.report import ClusterError, run

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Kubectl:
    """``program`` with a kubeconfig of its own; the user's never matters."""

    program: tuple[str, ...]
    kubeconfig: Path

    @property
    def environment(self) -> dict[str, str]:
        """For every program that is to talk to this cluster. The cluster is on this machine: no proxy leads there."""
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return {**kept, "KUBECONFIG": str(self.kubeconfig)}

    def __call__(self, *words: str, stdin: str | None = None, timeout: float = 120.0) -> str:
        """The output of one call; a failure is a ClusterError with what kubectl said."""
        step = f"run `kubectl {' '.join(words[:4])}`"
        return run(step, [*self.program, *words], env=self.environment, stdin=stdin, timeout=timeout)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A call that goes on until it is stopped, such as port-forward. Whoever starts it ends it."""
        return subprocess.Popen(
            [*self.program, *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def apply(self, manifests: str | Sequence[Manifest], *, namespace: str = "default") -> None:
        """Server-side: large CRDs do not fit into the annotation that the other way leaves on them."""
        text = manifests if isinstance(manifests, str) else yaml.safe_dump_all(manifests)
        self("apply", "--server-side", "--force-conflicts", "-n", namespace, "-f", "-", stdin=text)

    def installed(self) -> Path:
        """The folder of a command ``kubectl`` that is this one: for people, and for programs that look for it by name."""
        folder = self.kubeconfig.parent / "bin"
        folder.mkdir(exist_ok=True)
        command = folder / "kubectl"
        program = shlex.join(self.program)
        command.write_text(f'#!/bin/sh\nKUBECONFIG=${{KUBECONFIG:-{self.kubeconfig}}} exec {program} "$@"\n')
        command.chmod(0o755)
        return folder

    def get(self, *words: str) -> Any:
        return json.loads(self("get", *words, "-o", "json"))

    def answers(self, *words: str) -> bool:
        try:
            self(*words, timeout=10.0)
        except ClusterError:
            return False
        return True

    def wait(self, what: str, *words: str, timeout: float = 90.0) -> None:
        self("wait", *words, f"--for={what}", f"--timeout={timeout:g}s", timeout=timeout + 10)


def until(condition: Callable[[], bool], *, timeout: float, every: float = 0.1) -> bool:
    """Whether ``condition`` came true in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True
