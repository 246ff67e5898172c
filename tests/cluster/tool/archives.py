"""An image's archive, looked into without any engine: how large it is, how it runs, which files it has.

Both `docker save` and `buildah push docker-archive:` write a ``manifest.json`` that names the configuration and the layers.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import IO, Any

from tests.cluster.tool.report import ClusterError


class Archive:
    """Of one image."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with tarfile.open(path) as tar:
            [manifest] = json.load(_opened(tar, "manifest.json"))
            self._layers: list[str] = manifest["Layers"]
            self.size = sum(tar.getmember(layer).size for layer in self._layers)
            self.config: dict[str, Any] = json.load(_opened(tar, manifest["Config"]))["config"]

    @property
    def labels(self) -> dict[str, str]:
        return self.config.get("Labels") or {}

    def read(self, name: str) -> bytes:
        """A file as a container sees it: the uppermost layer that has it counts."""
        with tarfile.open(self.path) as tar:
            for layer in reversed(self._layers):
                with tarfile.open(fileobj=_opened(tar, layer)) as inner:
                    for member in inner:
                        if member.name.removeprefix("./").lstrip("/") == name.lstrip("/"):
                            return _opened(inner, member).read()
        raise ClusterError(f"{self.path.name} has no file {name}")


def _opened(tar: tarfile.TarFile, member: str | tarfile.TarInfo) -> IO[bytes]:
    found = tar.extractfile(member)
    if found is None:
        raise ClusterError(f"{tar.name} is not an image: {member} is no file")
    return found
