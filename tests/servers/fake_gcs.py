"""fake-gcs-server: Google Cloud Storage's JSON API on a folder. It has no XML API, so obstore cannot write to it."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

from tests.servers.process import LOOPBACK, ServerProcess, accepts_connections, free_port
from tests.servers.toolbox import run, tool

VERSION = "v1.56.1"


def program() -> Path:
    return tool("fake-gcs-server", VERSION, _build, expect="1 to 5 minutes") / "fake-gcs-server"


def _build(home: Path) -> None:
    package = f"github.com/fsouza/fake-gcs-server@{VERSION}"
    run(["go", "install", package], cwd=home, env={"GOBIN": str(home)}, package="golang-go")


class FakeGcs(ServerProcess):
    """Keeps its objects in the folder ``root``, so that they outlive a kill."""

    def __init__(self, root: Path) -> None:
        self.port = free_port()
        self.endpoint = f"http://{LOOPBACK}:{self.port}"
        root.mkdir(parents=True, exist_ok=True)
        command = [program(), "-backend", "filesystem", "-filesystem-root", root / "objects", "-scheme", "http"]
        address = ["-host", LOOPBACK, "-port", str(self.port), "-external-url", self.endpoint]
        super().__init__(
            "fake-gcs-server",
            [*command, *address, "-log-level", "warn"],
            log=root / "fake-gcs-server.log",
            ready=lambda: accepts_connections(self.port),
        )

    def make_bucket(self, name: str) -> None:
        request = urllib.request.Request(
            f"{self.endpoint}/storage/v1/b?project=test",
            data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=10).close()

    def options(self) -> dict[str, str]:
        """What ``open_store`` needs to reach this server."""
        return {"endpoint": self.endpoint, "anonymous": "true", "allow_http": "true"}
