"""Azurite: Microsoft's own emulator of Azure Blob Storage."""

from __future__ import annotations

from pathlib import Path

from azure.storage.blob import BlobServiceClient

from tests.servers.process import LOOPBACK, ServerProcess, accepts_connections, free_port
from tests.servers.toolbox import run, tool

VERSION = "3.35.0"
ACCOUNT = "devstoreaccount1"
# The account key that every installation of the emulator has, printed in its documentation; it opens nothing else.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def program() -> Path:
    home = tool("azurite", VERSION, _build, expect="about a minute")
    return home / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def _build(home: Path) -> None:
    run(["npm", "install", "--no-audit", "--no-fund", "--prefix", home, f"azurite@{VERSION}"], cwd=home, package="npm")


class Azurite(ServerProcess):
    """Keeps its blobs in the folder ``root``, so that they outlive a kill."""

    def __init__(self, root: Path) -> None:
        self.port = free_port()
        self.endpoint = f"http://{LOOPBACK}:{self.port}/{ACCOUNT}"
        root.mkdir(parents=True, exist_ok=True)
        command = ["node", program(), "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--location", root]
        super().__init__(
            "azurite",
            [*command, "--blobHost", LOOPBACK, "--blobPort", str(self.port)],
            log=root / "azurite.log",
            ready=lambda: accepts_connections(self.port),
        )

    def make_container(self, name: str) -> None:
        credential = {"account_name": ACCOUNT, "account_key": KEY}
        with BlobServiceClient(self.endpoint, credential=credential) as client:
            client.create_container(name)

    def options(self) -> dict[str, str]:
        """What ``open_store`` needs to reach this server."""
        return {"endpoint": self.endpoint, "account_name": ACCOUNT, "account_key": KEY, "allow_http": "true"}
