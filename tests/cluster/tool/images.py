"""The images of ``images/``: each Dockerfile there, built with Docker or Buildah, kept as an archive that clusters load.

An archive is named by a digest of everything that went into it, so an image whose inputs did not change is not built
again, and one whose inputs did is never mistaken for the old one.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.cluster.tool import builders, spark_operator
from tests.cluster.tool.locking import locked
from tests.cluster.tool.names import PROJECT
from tests.cluster.tool.report import ClusterError, say
from tests.servers import versitygw
from tests.servers.toolbox import cache_dir

_FOLDER = PROJECT / "images"
_FROM = re.compile(r"^FROM\s+(\S+)", re.MULTILINE)
_NOT_OURS = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
_NOT_FOR_PODS = {"test", "spark"}  # extras: what only tests need, and what only Spark's own image has


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
        builders.choose().build(tag(name), context, fresh)
        for old in folder.glob(f"{name}-????????????????.tar"):
            old.unlink()
        shutil.move(fresh, archive)
    return archive


def parents(name: str) -> list[str]:
    """Our own images that this one is made from."""
    used = _FROM.findall((_FOLDER / name / "Dockerfile").read_text())
    return [other for other in known() if tag(other) in used]


def key(name: str, context: Path) -> str:
    """A digest of the context, of the images below, and of how images are built."""
    digest = hashlib.sha256(builders.BASE_RECIPE.encode())
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


def _engine() -> Mapping[str, Path | str]:
    files = ("pyproject.toml", "README.md", "LICENSE", "requirements.lock", "engine", "operator")
    dependencies = "\n".join(_dependencies((PROJECT / "pyproject.toml").read_text()))
    return {**{name: PROJECT / name for name in files}, "dependencies.txt": dependencies + "\n"}


def _dependencies(pyproject: str) -> Iterator[str]:
    project = tomllib.loads(pyproject)["project"]
    yield from project["dependencies"]
    for extra, wanted in project["optional-dependencies"].items():
        if extra not in _NOT_FOR_PODS:
            yield from wanted


_EXTRAS: Mapping[str, Callable[[], Mapping[str, Path | str]]] = {
    "s3": lambda: {"versitygw": versitygw.program()},
    "slate": _engine,
    "spark-operator": lambda: {"spark-operator": spark_operator.home() / "spark-operator"},
}
