"""The images of ``images/``: each Dockerfile there, built with Docker or Buildah, kept as an archive that clusters load.

An archive is named by a digest of everything that went into it, so an image whose inputs did not change is not built
again, and one whose inputs did is never mistaken for the old one. What an image consists of lies beside its archive.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.cluster.tool import builders, spark_operator
from tests.cluster.tool.archives import Archive
from tests.cluster.tool.locking import locked
from tests.cluster.tool.names import PROJECT
from tests.cluster.tool.report import ClusterError, run, say
from tests.servers import versitygw
from tests.servers.toolbox import cache_dir

_FOLDER = PROJECT / "images"
_FROM = re.compile(r"^FROM\s+(\S+)", re.MULTILINE)
_NOT_OURS = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")

_STILL_USED = 3600.0
"""An archive that is younger, in seconds, may be what another run on this machine is about to load."""

SBOM = "/usr/share/slatekeeper/sbom.cdx.json"
"""Where our own images say what they consist of."""


def known() -> list[str]:
    return sorted(dockerfile.parent.name for dockerfile in _FOLDER.glob("*/Dockerfile"))


def tag(name: str) -> str:
    """Not ``latest``: for that tag alone a kubelet asks a registry before it looks at what it has."""
    return f"localhost/slatekeeper/{name}:dev"


def build(name: str) -> Path:
    """The archive of an image, built anew if one of its inputs changed since it was last built."""
    if name not in known():
        raise ClusterError(f"there is no images/{name}/Dockerfile; there are {', '.join(known())}")
    folder = cache_dir() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="slate-image-") as scratch, locked(folder / f".{name}.lock"):
        context = Path(scratch, "context")
        stage(name, context)
        archive = folder / f"{name}-{key(name, context)}.tar"
        if archive.exists():
            return archive
        for parent in parents(name):
            build(parent)
        say(f"building the image {tag(name)}")
        fresh = Path(scratch, "image.tar")
        builders.choose().build(tag(name), context, fresh, {**_labels(), **base(name)})
        for old in folder.glob(f"{name}-????????????????.*"):
            if time.time() - old.stat().st_mtime > _STILL_USED:
                old.unlink()
        if name in _OURS:
            sbom(archive).write_bytes(Archive(fresh).read(SBOM))
        shutil.move(fresh, archive)
    return archive


def sbom(archive: Path) -> Path:
    """What the image of an archive of ours consists of, as a CycloneDX document."""
    return archive.with_suffix(".cdx.json")


def _labels() -> dict[str, str]:
    """Arguments of the build that end up in labels. They are no inputs: an image is not built again for a new revision that
    changes nothing in it, and names the one that it was built from."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    found = {"VERSION": str(project["version"])}
    if (head := _git("rev-parse", "HEAD")) is not None:
        changed = _git("status", "--porcelain", "--untracked-files=no")
        found["REVISION"] = f"{head}-dirty" if changed else head
    source = _git("remote", "get-url", "origin")
    if source is not None and source.startswith("https://") and "@" not in source:
        found["SOURCE"] = source
    return found


def _git(*words: str) -> str | None:
    """None where somebody unpacked the sources without their history, or that does not know."""
    try:
        return run("ask git", ["git", "-C", PROJECT, *words]).strip()
    except ClusterError:
        return None


def base(name: str) -> dict[str, str]:
    """Another image to build this one from, if ``BASE`` in the environment says so and the Dockerfile takes one."""
    given = os.environ.get("BASE", "")
    takes = "ARG BASE" in (_FOLDER / name / "Dockerfile").read_text()
    return {"BASE": given} if given and takes else {}


def parents(name: str) -> list[str]:
    """Our own images that this one is made from."""
    used = _FROM.findall((_FOLDER / name / "Dockerfile").read_text())
    return [other for other in known() if tag(other) in used]


def key(name: str, context: Path) -> str:
    """A digest of the context, of the images below, and of how images are built."""
    digest = hashlib.sha256((builders.BASE_RECIPE + base(name).get("BASE", "")).encode())
    for file in sorted(path for path in context.rglob("*") if path.is_file()):
        mode = file.stat().st_mode & 0o111
        digest.update(f"{file.relative_to(context)} {mode:o}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    for parent in parents(name):
        with tempfile.TemporaryDirectory(prefix="slate-image-") as scratch:
            below = Path(scratch, "context")
            stage(parent, below)
            digest.update(key(parent, below).encode())
    return digest.hexdigest()[:16]


def stage(name: str, context: Path) -> None:
    """Lay out what ``docker build`` is given: the image's own folder and what its Dockerfile copies besides."""
    shutil.copytree(_FOLDER / name, context, ignore=_NOT_OURS)
    for target, source in _EXTRAS.get(name, dict)().items():
        if isinstance(source, str):
            (context / target).write_text(source)
        elif source.is_dir():
            shutil.copytree(source, context / target, ignore=_NOT_OURS)
        else:
            shutil.copy(source, context / target)


class _Ours(NamedTuple):
    """An image of our own code: a package, and what ``pyproject.toml`` says it needs, in the versions of the lock file."""

    package: str
    extras: tuple[str, ...]
    core: tuple[str, ...] | None = None
    """Which it needs of the dependencies that no extra names, which are the engine's; all of them, if this is None."""
    common: tuple[str, ...] = ("sbom.py", "trim.sh", "compile.sh", "warm.py", "kernels.sh")

    def files(self) -> Mapping[str, Path | str]:
        project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
        wanted = [each for each in project["dependencies"] if self.core is None or each in self.core]
        for extra in self.extras:
            wanted += project["optional-dependencies"][extra]
        return {
            **{
                name: PROJECT / name
                for name in ("pyproject.toml", "README.md", "LICENSE", "requirements.lock", self.package)
            },
            **{name: PROJECT / "images" / "common" / name for name in self.common},
            "dependencies.txt": "\n".join(sorted(set(wanted))) + "\n",
        }


_OURS = {
    "operator": _Ours(
        "operator", ("operator",), core=("prometheus-client",), common=("sbom.py", "trim.sh", "compile.sh")
    ),
    "slate": _Ours("engine", ("s3", "gcs", "azure", "dynamodb", "sql", "server")),
    "spark": _Ours("engine", ("s3", "dynamodb", "sql", "spark")),
}
_EXTRAS: Mapping[str, Callable[[], Mapping[str, Path | str]]] = {
    **{name: ours.files for name, ours in _OURS.items()},
    "s3": lambda: {"versitygw": versitygw.program()},
    "spark-operator": lambda: {"spark-operator": spark_operator.home() / "spark-operator"},
}
