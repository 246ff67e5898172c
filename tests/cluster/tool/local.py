"""The cluster without Docker: a node in namespaces of its own on this machine, from one binary and Debian's containerd."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.tool import base, host, plan, programs
from tests.cluster.tool.keys import write_keys
from tests.cluster.tool.kubectl import Kubectl, until
from tests.cluster.tool.names import PROJECT, Addresses, Names
from tests.cluster.tool.node import ENDED, EVENTS, MODULE, PLAN, available
from tests.cluster.tool.provider import Status
from tests.cluster.tool.report import ClusterError, run, say, tail

STATE_SIZE_VARIABLE = "SLATEKEEPER_CLUSTER_MEMORY"
_STATE_SIZE = "8g"  # an upper bound: a tmpfs takes what is written to it, and a set of images is the most of that
_TOO_OFTEN = 4  # ends of one component before `up` believes that it will never stay


class Local:
    def __init__(self, names: Names) -> None:
        self.names = names
        self._home = names.home

    def kubectl(self) -> Kubectl:
        return Kubectl((str(programs.kube() / "kube"), "kubectl"), self.names.kubeconfig)

    def prepare(self) -> None:
        self._must_be_root("bring a local cluster up")
        programs.container_runtime()
        programs.kube()

    def up(self) -> None:
        self.prepare()
        if self.status().up:
            say(f"{self.names.name} is up already")
            return
        begun = time.monotonic()
        self.down()
        try:
            addresses = self._prepare()
            self._start(self._launch(addresses), addresses)
        except ClusterError as error:
            host.end_node(self.names)  # what is left for `down` is harmless; the logs are still wanted
            raise ClusterError(f"{error}\nAll logs: {self._home / 'log'}") from error
        say(f"{self.names.name} is up after {time.monotonic() - begun:.1f} s")

    def down(self) -> None:
        self._must_be_root("take a local cluster down")
        host.end_node(self.names)
        host.unplug(self.names)
        host.remove_cgroups(self.names)
        shutil.rmtree(self._home, ignore_errors=True)

    def status(self) -> Status:
        pid = host.node_process(self.names)
        if pid is None:
            return Status(False, f"{self.names.name} (local): down")
        kubectl = self.kubectl()
        if not kubectl.answers("get", "--raw", "/readyz"):
            return Status(False, f"{self.names.name} (local): process {pid} runs, but its API server does not answer")
        nodes = kubectl("get", "nodes", "-o", "wide")
        ready = " Ready " in nodes
        return Status(ready, f"{self.names.name} (local): process {pid}, KUBECONFIG={self.names.kubeconfig}\n{nodes}")

    def load(self, archives: Sequence[Path]) -> None:
        pid = host.node_process(self.names)
        if pid is None:
            raise ClusterError(f"{self.names.name} is not up: `make cluster-up` first")
        for archive in archives:
            self._import(pid, archive)

    def crash(self) -> None:
        if (pid := host.node_process(self.names)) is None:
            raise ClusterError(f"{self.names.name} is not up: `make cluster-up` first")
        host.kill_all_of_node(pid)

    def _prepare(self) -> Addresses:
        addresses = Addresses(host.free_block(self.names))
        for folder in ("pki", "config", "log"):
            (self._home / folder).mkdir(parents=True)
        (self._home / "provider").write_text("local\n")
        for name, text in plan.files(self.names, addresses).items():
            (self._home / "config" / name).write_text(text)
        size = os.environ.get(STATE_SIZE_VARIABLE, _STATE_SIZE)
        (self._home / PLAN).write_text(plan.plan(self.names, addresses, size).dump())
        write_keys(
            self._home / "pki",
            cluster=self.names.name,
            node=self.names.node,
            server=f"https://{addresses.node}:{plan.API_PORT}",
            addresses=[str(addresses.node), str(addresses.api_service)],
        )
        shutil.copy(self._home / "pki" / "admin.kubeconfig", self.names.kubeconfig)
        (self._home / "base.yaml").write_text(base.manifests(addresses))
        return addresses

    def _launch(self, addresses: Addresses) -> int:
        """The id of the node's first process."""
        host.make_cgroups(self.names)
        command = [sys.executable, "-m", MODULE, str(self._home), str(programs.kube())]
        environment = {"PATH": programs.search_path(), "LANG": "C.UTF-8"}  # not the user's proxies and credentials
        with (self._home / "log" / EVENTS).open("ab") as events:  # not a pipe: the node keeps it for good
            subprocess.run(
                command,
                env=environment,
                cwd=PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=events,
                stderr=events,
                start_new_session=True,  # Ctrl-C is for whoever waits here, not for the node
                check=False,
            )
        if (pid := host.node_process(self.names)) is None:
            raise ClusterError(f"the node ended at once:\n{tail(self._home / 'log' / EVENTS)}")
        host.plug_in(self.names, addresses, pid)
        return pid

    def _start(self, pid: int, addresses: Addresses) -> None:
        kubectl, api = self.kubectl(), f"api:{addresses.node}:{plan.API_PORT}"
        with self._step("containerd", "start containerd"):
            self._until("containerd", pid, lambda: self._containerd_answers(pid), timeout=30)
            self._import(pid, programs.kube() / "pause.tar")
        with self._step("kube-apiserver", "start the API server"):
            self._until("kube-apiserver", pid, lambda: available(api), timeout=60)
            kubectl.apply((self._home / "base.yaml").read_text(), namespace="kube-system")
            (self._home / plan.BASE_APPLIED).touch()
        with self._step("kubelet", "make the node Ready"):
            node = f"node/{self.names.node}"
            self._outcome("kubelet", pid, "wait", "--for=create", node)
            self._outcome("kubelet", pid, "wait", "--for=condition=Ready", node)
        with self._step("kube-controller-manager", "get a service account for pods"):
            account = ("serviceaccount/default", "-n", "default")
            self._outcome("kube-controller-manager", pid, "wait", "--for=create", *account)
        with self._step("kubelet", "start DNS in the cluster"):
            self._outcome("kubelet", pid, "rollout", "status", "deployment/coredns", "-n", "kube-system")

    @contextmanager
    def _step(self, component: str, aim: str) -> Iterator[None]:
        """Whatever fails inside is told with what was being tried and the end of the log that should say why."""
        begun = time.monotonic()
        try:
            yield
            say(f"  {time.monotonic() - begun:4.1f} s to {aim}")
        except (ClusterError, TimeoutError) as error:
            log = self._home / "log" / f"{component}.log"
            raise ClusterError(f"could not {aim}: {error}\nThe end of {component}'s log:\n{tail(log)}") from error

    def _until(self, component: str, pid: int, condition: Callable[[], bool], *, timeout: float) -> None:
        """Wait, but no longer than the component lives: one that keeps dying will never get there."""
        events = self._home / "log" / EVENTS

        def settled() -> bool:
            if not host.lives(pid):
                raise ClusterError(f"the node is gone\n{tail(events)}")
            if len(re.findall(rf"^{component} {ENDED}", events.read_text(), re.MULTILINE)) >= _TOO_OFTEN:
                raise ClusterError(f"{component} does not stay up")
            return condition()

        if not until(settled, timeout=timeout):
            raise TimeoutError(f"not there after {timeout:g} s")

    def _outcome(self, component: str, pid: int, *words: str, timeout: float = 60.0) -> None:
        """One kubectl that waits, instead of many that ask: each of them costs as much as what it waits for."""
        process = self.kubectl().start(*words, f"--timeout={timeout:g}s")
        try:
            self._until(component, pid, lambda: process.poll() is not None, timeout=timeout + 10)
        finally:
            process.kill()
            said, _ = process.communicate()
        if process.returncode != 0:
            raise ClusterError(said.strip())

    def _import(self, pid: int, archive: Path) -> None:
        self._ctr(pid, f"import {archive.name}", "images", "import", str(archive), timeout=600)

    def _ctr(self, pid: int, step: str, *words: str, timeout: float = 30.0) -> str:
        """containerd's own client, on the socket of the node's containerd."""
        socket = self._inside(pid, str(plan.CONTAINERD_SOCKET))
        environment = {**os.environ, "PATH": programs.search_path()}
        command = ["ctr", "--address", str(socket), "--namespace", "k8s.io", *words]
        return run(step, command, env=environment, timeout=timeout)

    def _containerd_answers(self, pid: int) -> bool:
        try:
            self._ctr(pid, "ask containerd", "version")
        except ClusterError:
            return False
        return True

    @staticmethod
    def _inside(pid: int, path: str) -> Path:
        """A file of the node's, seen from the host."""
        return Path(f"/proc/{pid}/root{path}")

    @staticmethod
    def _must_be_root(aim: str) -> None:
        if os.geteuid() != 0:
            raise ClusterError(
                f"only root can {aim}: it makes namespaces and mounts. Run it as root, or start Docker or Podman and it "
                "will use kind"
            )
