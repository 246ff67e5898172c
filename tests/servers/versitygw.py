"""VersityGW: a real S3 server on a folder, whose conditional writes hold under a per-object lock."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path

from tests.servers.process import LOOPBACK, ServerProcess, free_port
from tests.servers.toolbox import run, tool

VERSION = "v1.8.0"
ACCESS_KEY = "slate-test-access"
SECRET_KEY = "slate-test-secret-0123456789"
REGION = "us-east-1"


def program() -> Path:
    return tool("versitygw", VERSION, _build, expect="2 to 10 minutes, most of it download") / "versitygw"


def _build(home: Path) -> None:
    package = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
    run(["go", "install", package], cwd=home, env={"GOBIN": str(home)}, package="golang-go")


class VersityGW(ServerProcess):
    """Serves the folder ``root``; a bucket is a folder in it."""

    def __init__(self, root: Path) -> None:
        self.port = free_port()
        self.endpoint = f"http://{LOOPBACK}:{self.port}"
        self._buckets = root / "buckets"
        self._buckets.mkdir(parents=True)
        super().__init__(
            "versitygw",
            [
                program(),
                "--port",
                f"{LOOPBACK}:{self.port}",
                "--region",
                REGION,
                "--quiet",
                "--keep-alive",
                "posix",
                self._buckets,
            ],
            log=root / "versitygw.log",
            ready=self._answers,
            env={"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY},
        )

    def make_bucket(self, name: str) -> None:
        os.mkdir(self._buckets / name)

    def options(self) -> dict[str, str]:
        """What ``open_store`` needs to reach this server."""
        return {
            "endpoint": self.endpoint,
            "region": REGION,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
            "allow_http": "true",
        }

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.endpoint, timeout=1).close()
        except urllib.error.HTTPError:
            return True  # it speaks HTTP and refuses the anonymous caller
        except OSError:
            return False
        return True
