"""The programs that a cluster is made of: built from the Go module proxy once per machine, or installed from Debian."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
from pathlib import Path

from tests.cluster.tool.compiling import go_build
from tests.cluster.tool.plan import PAUSE_IMAGE
from tests.servers import debian, toolbox

HELM_VERSION = "v3.22.0"
KIND_VERSION = "v0.33.0"

_SOURCES = Path(__file__).resolve().parents[1] / "kube"
_VERSION = re.compile(r"^\tk8s\.io/kubernetes (v\S+)$", re.MULTILINE)
_STATIC = {"CGO_ENABLED": "0"}

# Which program proves that which Debian package is there.
_RUNTIME = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "nft": "nftables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "iptables": "iptables",
}


def kube() -> Path:
    """The folder with ``kube``, the one binary of all components, and ``pause.tar``, the image that pods rest on."""
    version = kubernetes_version()
    return toolbox.tool("kube", f"{version}-{_fingerprint()}", _build_kube, expect="6 to 12 minutes on two cores")


def kubernetes_version() -> str:
    found = _VERSION.search((_SOURCES / "go.mod").read_text())
    assert found is not None, "go.mod names no version of k8s.io/kubernetes"
    return found[1]


def test_sources() -> None:
    """Run the tests of our own Go code that need no cluster, with the flags of the build, whose packages are then used."""
    command = ["go", "test", "-vet=off", "-trimpath", "./firewall"]
    toolbox.run(command, cwd=_SOURCES, env=_STATIC, package="golang-go")


def helm() -> Path:
    return _installed("helm", HELM_VERSION, "helm.sh/helm/v3/cmd/helm", expect="3 to 6 minutes")


def kind() -> Path:
    return _installed("kind", KIND_VERSION, "sigs.k8s.io/kind", expect="1 to 2 minutes")


def container_runtime() -> None:
    """Make sure that what runs the pods is installed; raise ToolMissing with the packages to install if it cannot be."""

    def lacking() -> list[str]:
        return [package for program, package in _RUNTIME.items() if shutil.which(program, path=search_path()) is None]

    if missing := lacking():
        debian.program(lambda: None if lacking() else Path("/"), *missing)


def search_path() -> str:
    """Debian keeps some of these where only root looks."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def _fingerprint() -> str:
    """Changes with our own sources and with the versions of everybody else's."""
    digest = hashlib.sha256()
    for source in sorted(_SOURCES.rglob("*")):
        if source.is_file() and not source.name.endswith("_test.go"):
            digest.update(f"{source.relative_to(_SOURCES)}\0".encode() + source.read_bytes())
    return digest.hexdigest()[:12]


def _build_kube(home: Path) -> None:
    version = kubernetes_version()
    package, minor = "k8s.io/component-base/version", version.split(".")[1]
    said = {
        f"{package}.gitVersion": version,
        f"{package}.gitMajor": "1",
        f"{package}.gitMinor": minor,
        "k8s.io/client-go/pkg/version.gitVersion": version,
    }
    flags = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in said.items())])
    go_build(home / "kube", ".", flags=flags, cwd=_SOURCES, env=_STATIC)
    go_build(home / "pause", "./pause", flags="-s -w", cwd=_SOURCES, env=_STATIC)
    pause_archive(home / "pause", home / "pause.tar")


def _installed(name: str, version: str, package: str, *, expect: str) -> Path:
    def build(home: Path) -> None:
        command = ["go", "install", "-ldflags", "-s -w", f"{package}@{version}"]
        toolbox.run(command, cwd=home, env={**_STATIC, "GOBIN": str(home)}, package="golang-go")

    return toolbox.tool(name, version, build, expect=expect) / name


def pause_archive(program: Path, archive: Path) -> None:
    """An image with one file in it, in the archive format that Docker saves and containerd imports."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        _add(tar, "pause", program.read_bytes(), mode=0o755)
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine),
        "os": "linux",
        "config": {"Entrypoint": ["/pause"], "User": "65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, mode="w") as tar:
        _add(tar, "manifest.json", json.dumps(manifest).encode())
        _add(tar, "config.json", json.dumps(config).encode())
        _add(tar, "layer.tar", layer.getvalue())


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))
