"""Docker, Podman or Buildah: whatever this machine has to build an image with.

Where an engine answers it is used as anybody would use it. Elsewhere Buildah does it without one; and where no registry can
be reached, the one image that all of ours start from is made from Debian's packages instead of pulled.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tests.cluster.tool.kind import engine
from tests.cluster.tool.locking import locked
from tests.cluster.tool.report import ClusterError, run, say
from tests.servers import debian
from tests.servers.toolbox import cache_dir

BASE = "docker.io/library/python:3.11-slim-bookworm"

# What the real base has and our images use. The marker that forbids pip to install for the whole system is dropped, as
# it is there; and of the two packages that say that /usr is merged, the one that brings 50 MB of Perl is not to be chosen.
BASE_RECIPE = r"""
mmdebstrap --quiet --variant=minbase --include=python3,python3-pip,python3-venv,ca-certificates
--aptopt=Acquire::Check-Valid-Until "false"
--dpkgopt=path-exclude=/usr/share/doc/*
--dpkgopt=path-exclude=/usr/share/man/*
--dpkgopt=path-exclude=/usr/share/locale/*
--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr
--setup-hook=printf 'Package: usrmerge\nPin: release *\nPin-Priority: -1\n' >"$1/etc/apt/preferences.d/usrmerge"
--customize-hook=rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED; ln -s /usr/bin/python3 "$1/usr/local/bin/python"
"""
_BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_APT_SOURCES = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
_STAGE = re.compile(r"^FROM \S+ AS (\S+)$", re.MULTILINE)
_SLOW = 1800.0


class Builder(Protocol):
    def build(self, tag: str, context: Path, archive: Path, arguments: Mapping[str, str]) -> None:
        """Build the Dockerfile of ``context`` with build ``arguments``, and save the image as ``archive``."""


def choose() -> Builder:
    found = engine()
    return Buildah() if found is None else Engine(found)


class Engine:
    """Docker or Podman, which take the same words."""

    def __init__(self, program: str) -> None:
        self._program = program

    def build(self, tag: str, context: Path, archive: Path, arguments: Mapping[str, str]) -> None:
        command = [self._program, "build", "--tag", tag, *_given(arguments), context]
        run(f"build {tag}", command, timeout=_SLOW)
        run(f"save {tag}", [self._program, "save", "--output", archive, tag], timeout=_SLOW)


class Buildah:
    """With a storage of its own in the cache, so that neither the user's nor root's images are touched."""

    def __init__(self) -> None:
        debian.program(lambda: Path("/") if shutil.which("buildah") else None, "buildah", "mmdebstrap", "uidmap")
        self._home = cache_dir() / "images"
        self._command = ["buildah", "--root", str(self._home / "storage"), "--runroot", str(self._home / "run")]

    def build(self, tag: str, context: Path, archive: Path, arguments: Mapping[str, str]) -> None:
        # One at a time: what one build has just made, and not used yet, another would take for what nobody wants.
        with locked(self._home / ".buildah.lock"):
            self._build(tag, context, archive, arguments)

    def _build(self, tag: str, context: Path, archive: Path, arguments: Mapping[str, str]) -> None:
        self._have_base()
        words = ["bud", "--pull-never", "--layers", "--force-rm", "--format", "docker", "--network", "host"]
        command = [*self._command, *words, *_given(arguments), *_host_settings()]
        # A stage that has no name of its own would be forgotten below, and all of it be done again next time.
        for stage in _STAGE.findall((context / "Dockerfile").read_text()):
            kept = tag.replace(":", f"-{stage}:")
            run(f"build {kept}", [*command, "--target", stage, "--tag", kept, context], timeout=_SLOW)
        run(f"build {tag}", [*command, "--tag", tag, context], timeout=_SLOW)
        run(f"save {tag}", [*self._command, "push", "--quiet", tag, f"docker-archive:{archive}:{tag}"], timeout=_SLOW)
        run("forget what it replaces", [*self._command, "rmi", "--prune"], timeout=_SLOW)

    def _have_base(self) -> None:
        """One that was made by another recipe is made anew."""
        note, recipe = self._home / "base", hashlib.sha256(BASE_RECIPE.encode()).hexdigest()
        known = run("list images", [*self._command, "images", "--format", "{{.Name}}:{{.Tag}}"]).split()
        if BASE in known and note.exists() and note.read_text() == recipe:
            return
        try:
            pull = ["pull", "--quiet", "--policy", "always", "--retry", "0", BASE]
            run(f"pull {BASE}", [*self._command, *pull], timeout=180)
        except ClusterError:
            self._bootstrap()
        note.write_text(recipe)

    def _bootstrap(self) -> None:
        debian.program(lambda: Path("/") if shutil.which("mmdebstrap") else None, "mmdebstrap")
        say(f"no registry answers: making {BASE} from Debian's packages (about 2 minutes)")
        sources = [path for path in _APT_SOURCES if path.exists()]
        first, *options = BASE_RECIPE.strip().splitlines()
        with tempfile.TemporaryDirectory(prefix="slate-base-") as scratch:
            root = Path(scratch, "root.tar")
            command = [*first.split(), *options, "bookworm", str(root), *map(str, sources[:1])]
            run("bootstrap Debian", command, timeout=_SLOW)
            container = run("make a base", [*self._command, "from", "scratch"]).strip()
            environment = [f"--env=PATH={_BASE_PATH}", "--env=LANG=C.UTF-8"]
            run("fill the base", [*self._command, "add", "--quiet", container, root, "/"], timeout=_SLOW)
            run("set up the base", [*self._command, "config", *environment, "--cmd=python3", container])
            commit = ["commit", "--quiet", "--rm", "--format", "docker", container, BASE]
            run("keep the base", [*self._command, *commit], timeout=_SLOW)


def _given(arguments: Mapping[str, str]) -> list[str]:
    return [f"--build-arg={name}={value}" for name, value in arguments.items()]


def _host_settings() -> list[str]:
    """How the host reaches package indexes, lent to the build and not kept in the image: certificates and pip's file."""
    bundle = Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")).resolve()
    lent = [(bundle, "/etc/ssl/certs/ca-certificates.crt"), (Path("/etc/pip.conf"), "/etc/pip.conf")]
    return [f"--volume={source}:{target}:ro" for source, target in lent if source.exists()]
