"""etcd and kube-apiserver alone, on loopback, as the user who asks: for tests of controllers against the real API.

Everything that the API server itself does is real: validation with CEL, defaulting, RBAC, watches, server-side apply, pod
security admission. Nothing acts on the objects: no pod starts, no namespace finishes its deletion.
"""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster.tool import plan, programs
from tests.cluster.tool.keys import write_keys
from tests.cluster.tool.kubectl import Kubectl
from tests.servers.process import LOOPBACK, ServerFailed, ServerProcess, accepts_connections, free_port

_SERVICES = "10.0.0.0/16"  # handed out to Service objects, a thousand of them and more; nobody listens there
_TRIES = 3  # another process may take a port between our choosing it and the server's listening


class ApiServer:
    """Both processes die with the process that started them, whatever happens to it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._kube = programs.kube() / "kube"
        self._processes: list[ServerProcess] = []
        self.url = ""
        self.kubeconfig = home / "pki" / "admin.kubeconfig"

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl((str(self._kube), "kubectl"), self.kubeconfig)

    def start(self) -> Self:
        for attempt in range(_TRIES):
            try:
                self._start(self._home / f"etcd-{attempt}")
                return self
            except ServerFailed as error:
                self.stop()
                if "address already in use" not in str(error) or attempt == _TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def stop(self) -> None:
        """The API server first, which would complain for seconds about an etcd that is gone."""
        while self._processes:
            self._processes.pop().kill()  # it keeps nothing that is worth a goodbye

    def _start(self, data: Path) -> None:
        client, peer, port = free_port(), free_port(), free_port()
        self.url = f"https://{LOOPBACK}:{port}"
        pki, etcd = self._home / "pki", f"http://{LOOPBACK}:{client}"
        pki.mkdir(parents=True, exist_ok=True)
        write_keys(pki, cluster="apiserver", node="none", server=self.url, addresses=[])
        self._run("etcd", plan.etcd(str(data), etcd, f"http://{LOOPBACK}:{peer}"), lambda: accepts_connections(client))
        trust = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        flags = plan.apiserver(str(pki), etcd, LOOPBACK, port, _SERVICES)
        # A loopback address cannot be an endpoint of the Service `kubernetes`, so nothing is to keep one up.
        self._run(
            "kube-apiserver",
            [*flags, "--endpoint-reconciler-type=none"],
            lambda: _ready(f"{self.url}/readyz", trust),
        )

    def _run(self, name: str, words: list[str], ready: Callable[[], bool]) -> None:
        process = ServerProcess(name, [self._kube, *words], log=self._home / f"{name}.log", ready=ready, cwd=self._home)
        self._processes.append(process)
        process.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _ready(url: str, trust: ssl.SSLContext) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust))
    try:
        with direct.open(url, timeout=2):
            return True
    except OSError:  # urllib's own errors are of this kind
        return False
