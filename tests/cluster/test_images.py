"""What goes into an image, when it is built again, and what the ones that people run are like."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster import pods
from tests.cluster.fixtures import Namespace, image_of
from tests.cluster.tool import builders, images, plan, programs
from tests.cluster.tool.archives import Archive
from tests.cluster.tool.provider import Provider
from tests.cluster.tool.report import ClusterError

MEGABYTES = {"operator": 300, "slate": 600, "spark": 1500}
"""What each image of ours may come to, uncompressed."""


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two images, one made from the other, and the tags that a stand-in for the builder was asked for."""
    for name, text in (("below", "FROM scratch\nCOPY file /\n"), ("above", f"FROM {images.tag('below')}\n")):
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / "Dockerfile").write_text(text)
    (tmp_path / "images" / "below" / "file").write_text("one")
    tags: list[str] = []

    class Notes:
        def build(self, tag: str, context: Path, archive: Path, arguments: Mapping[str, str]) -> None:
            tags.append(tag)
            archive.write_text(tag)

    monkeypatch.setenv("SLATEKEEPER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(images, "_FOLDER", tmp_path / "images")
    monkeypatch.setattr(builders, "choose", Notes)
    return tags


def test_an_image_is_built_once_and_what_it_is_made_from_before_it(built: list[str]) -> None:
    first = images.build("above")
    assert built == [images.tag("below"), images.tag("above")]
    assert images.build("above") == first
    assert len(built) == 2


@pytest.mark.usefixtures("built")
def test_a_change_below_builds_what_is_above_again(tmp_path: Path) -> None:
    first = images.build("above")
    (tmp_path / "images" / "below" / "file").write_text("two")
    second = images.build("above")
    assert second != first
    assert second.exists()
    assert first.exists(), "another run may be about to load it"
    os.utime(first, (0, 0))
    (tmp_path / "images" / "below" / "file").write_text("three")
    assert images.build("above").exists()
    assert not first.exists(), "an old archive is of no use to anybody"


@pytest.mark.usefixtures("built")
def test_a_file_that_becomes_executable_is_a_change(tmp_path: Path) -> None:
    first = images.build("below")
    (tmp_path / "images" / "below" / "file").chmod(0o755)
    assert images.build("below") != first


@pytest.mark.usefixtures("built")
def test_another_image_to_build_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dockerfile = tmp_path / "images" / "below" / "Dockerfile"
    dockerfile.write_text("ARG BASE=one\nFROM ${BASE}\n")
    first = images.build("below")
    monkeypatch.setenv("BASE", "registry.example/python:3.11")
    assert images.base("below") == {"BASE": "registry.example/python:3.11"}
    assert images.base("above") == {}, "it takes none"
    assert images.build("below") != first


@pytest.mark.usefixtures("built")
def test_an_image_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="there are above, below"):
        images.build("beside")


def test_an_engine_builds_and_saves(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    program = tmp_path / "docker"
    program.write_text(f'#!/bin/sh\necho "$*" >>{calls}\n')
    program.chmod(0o755)
    builders.Engine(str(program)).build("a:dev", tmp_path / "context", tmp_path / "a.tar", {"VERSION": "1"})
    assert calls.read_text().splitlines() == [
        f"build --tag a:dev --build-arg=VERSION=1 {tmp_path}/context",
        f"save --output {tmp_path}/a.tar a:dev",
    ]


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        (
            "slate",
            {"numba", "obstore", "pyarrow", "uvloop"},
            {"pytest", "slatedb==0.17.0", "pyspark>=4.1", "kubernetes"},
        ),
        ("spark", {"numba", "obstore", "pyspark>=4.1"}, {"pytest", "uvloop", "kubernetes"}),
        (
            "operator",
            {"kubernetes", "prometheus-client", "pydantic"},
            {"numba", "pyarrow", "numpy", "obstore", "pytest"},
        ),
    ],
)
def test_an_image_gets_what_it_imports_and_nothing_else(
    tmp_path: Path, name: str, has: set[str], lacks: set[str]
) -> None:
    images.stage(name, tmp_path / "context")
    wanted = set((tmp_path / "context" / "dependencies.txt").read_text().split())
    assert has <= wanted
    assert not lacks & wanted
    package = {"operator": "operator/slate_operator"}.get(name, "engine/slate_engine")
    assert [str(found.relative_to(tmp_path / "context")) for found in (tmp_path / "context").glob("*/slate_*")] == [
        package
    ]
    assert not list((tmp_path / "context").rglob("__pycache__")), "what was compiled here stays here"


def test_the_pause_image_is_an_archive_that_runtimes_import(tmp_path: Path) -> None:
    (tmp_path / "pause").write_bytes(b"\x7fELF")
    programs.pause_archive(tmp_path / "pause", tmp_path / "pause.tar")
    with tarfile.open(tmp_path / "pause.tar") as tar:
        [manifest] = json.load(tar.extractfile("manifest.json") or pytest.fail("no manifest"))
        layer = tar.extractfile(manifest["Layers"][0])
        assert manifest["RepoTags"] == [plan.PAUSE_IMAGE]
        with tarfile.open(fileobj=layer) as inner:
            [file] = inner.getmembers()
            assert (file.name, file.mode) == ("pause", 0o755)


def test_an_archive_is_looked_into_from_the_top(tmp_path: Path) -> None:
    def packed(target: Path, files: Mapping[str, bytes]) -> Path:
        with tarfile.open(target, "w") as tar:
            for name, data in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        return target

    layers = [packed(tmp_path / f"{text}.tar", {"./etc/file": text.encode()}).read_bytes() for text in ("old", "new")]
    described = {"config": {"User": "65532:65532", "Labels": {"a": "b"}}}
    manifest = [{"Config": "config.json", "Layers": ["0.tar", "1.tar"]}]
    documents = {"manifest.json": manifest, "config.json": described}
    files = {name: json.dumps(document).encode() for name, document in documents.items()}
    archive = Archive(packed(tmp_path / "image.tar", {**files, "0.tar": layers[0], "1.tar": layers[1]}))
    assert archive.read("/etc/file") == b"new"
    assert archive.size == len(layers[0]) + len(layers[1])
    assert (archive.labels, archive.config["User"]) == ({"a": "b"}, "65532:65532")
    with pytest.raises(ClusterError, match="has no file /etc/other"):
        archive.read("/etc/other")


# --- the images that people run --------------------------------------------------------------------------------------


@pytest.fixture(scope="session", params=sorted(MEGABYTES))
def our_image(request: pytest.FixtureRequest) -> tuple[str, Archive]:
    return request.param, Archive(image_of(request.param))


@pytest.mark.cluster
def test_an_image_is_small_says_what_it_is_and_runs_as_nobody(our_image: tuple[str, Archive]) -> None:
    name, archive = our_image
    print(f"{name}: {archive.size / 1e6:.0f} MB")
    assert archive.size < MEGABYTES[name] * 1e6
    described = {key.removeprefix("org.opencontainers.image."): value for key, value in archive.labels.items()}
    assert described["licenses"] == "Apache-2.0"
    assert described["version"] == "0.1.0"
    assert described["title"].startswith("Slatekeeper")
    assert described["revision"]
    user = str(archive.config["User"]).split(":")[0]
    assert user.isdecimal(), "only a number can be checked to be nobody special"
    assert int(user) > 0


@pytest.mark.cluster
def test_what_an_image_consists_of_lies_beside_it(our_image: tuple[str, Archive]) -> None:
    name, archive = our_image
    beside = json.loads(images.sbom(archive.path).read_text())
    assert beside == json.loads(archive.read(images.SBOM))
    assert (beside["bomFormat"], beside["metadata"]["component"]["name"]) == ("CycloneDX", f"slatekeeper/{name}")
    references = [component["bom-ref"] for component in beside["components"]]
    assert len(references) == len(set(references))
    kinds = {reference.split("/")[0] for reference in references}
    assert kinds == {"pkg:deb", "pkg:generic", "pkg:pypi"} | ({"pkg:maven"} if name == "spark" else set())


INVENTORY = """
import importlib.metadata, importlib.util, json, re, subprocess
def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
listed = json.loads(output("pip", "--python", "/opt/venv/bin/python", "list", "--format", "json"))
names = {(re.sub("[-_.]+", "-", each["name"]).lower(), each["version"]) for each in listed}
document = json.load(open("/usr/share/slatekeeper/sbom.cdx.json"))
told = {(each["name"], each["version"]) for each in document["components"] if each["purl"].startswith("pkg:pypi/")}
assert told == names, told ^ names
debian = output("dpkg-query", "-W", "-f", "${Package}\\n").split()
assert set(debian) == {each["name"] for each in document["components"] if each["purl"].startswith("pkg:deb/")}
print(len(names), "distributions and", len(debian), "packages are told of")
"""

EVERYTHING_LOADS = """
import ctypes, importlib, pathlib, pkgutil, sys
import slate_engine
modules = [each.name for each in pkgutil.walk_packages(slate_engine.__path__, "slate_engine.") if ".spark" not in each.name]
for name in modules:
    if not name.endswith("__main__"):
        importlib.import_module(name)
libraries = [path for path in pathlib.Path(slate_engine.__file__).parents[1].rglob("*.so*")]
for path in libraries:
    ctypes.CDLL(str(path))
import botocore.session, pyarrow, pyarrow.parquet
for service in ("s3", "dynamodb", "sts", "sso", "sso-oidc"):
    botocore.session.get_session().create_client(service, region_name="us-east-1")
pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), "/tmp/a.parquet", compression="zstd")
assert pyarrow.parquet.read_table("/tmp/a.parquet").num_rows == 1
from slate_engine.runtime import SystemRuntime
from slate_engine.store.open import open_store
keys = {"access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}
open_store("s3://bucket", keys, runtime=SystemRuntime())
print(len(modules), "modules and", len(libraries), "libraries load")
"""

SERVICES = """
import os, pathlib, signal, socket, subprocess, sys, time, urllib.request
kernels = pathlib.Path(os.environ["NUMBA_CACHE_DIR"])
before = set(kernels.rglob("*"))
assert any(path.suffix == ".nbc" for path in before)
os.mkdir("/tmp/store")
store = ["slate", "--store", "file:///tmp/store", "--path", "db", "serve"]
running = []
for number, role in enumerate(("writer", "reader", "compactor", "gc")):
    subprocess.run([*store, role, "--help"], check=True, capture_output=True)
    shown = subprocess.run([*store, role, "--show-config"], check=True, capture_output=True, text=True).stdout
    assert "drain_seconds" in shown, shown
    began = time.monotonic()
    ports = ["--set", f"http.port={8080 + number}", "--set", f"resp.port={6379 + number}"]
    running.append(subprocess.Popen([*store, role, *ports]))
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{8080 + number}/readyz", timeout=5)
            break
        except OSError:
            assert running[-1].poll() is None, f"{role} ended"
            time.sleep(0.02)
    print(f"{role} is ready after {time.monotonic() - began:.2f} s", flush=True)
    if role == "writer":
        client = socket.create_connection(("127.0.0.1", 6379))
        for words in (b"SET a 1", b"SLATE.FLUSH MEMTABLE", b"GET a"):
            client.sendall(words + b"\\r\\n")
            assert client.recv(100)[:1] in b"+$:", words
for process in running:
    process.send_signal(signal.SIGTERM)
assert [process.wait(30) for process in running] == [0] * 4
new = [str(path) for path in set(kernels.rglob("*")) - before if path.suffix == ".nbc"]
assert not new, f"compiled anew: {new}"
"""


@pytest.mark.cluster
def test_all_services_start_from_the_image_and_compile_nothing(namespace: Namespace) -> None:
    """As nobody in particular, on a read-only root: the pods of the tests have it no other way."""
    namespace.apply(pods.python("services", SERVICES))
    told = pods.outcome(namespace, "services", timeout=180)
    print(told)
    assert told.count("is ready after") == 4


@pytest.mark.cluster
def test_what_was_taken_out_of_the_image_is_missed_by_nobody(namespace: Namespace) -> None:
    namespace.apply(pods.python("everything", EVERYTHING_LOADS), pods.python("inventory", INVENTORY))
    assert "libraries load" in pods.outcome(namespace, "everything", timeout=180)
    assert "are told of" in pods.outcome(namespace, "inventory")


OPERATOR = """
import importlib, importlib.util, pkgutil
import kopf, kubernetes.aio.client, slate_operator
for module in pkgutil.walk_packages(slate_operator.__path__, "slate_operator."):
    if not module.name.endswith("__main__") and ".plugin" not in module.name:  # that is for people's own machines
        importlib.import_module(module.name)
for absent in ("slate_engine", "numba", "numpy", "pyarrow", "pyspark", "obstore"):
    assert importlib.util.find_spec(absent) is None, absent
print("the operator loads")
"""


@pytest.mark.cluster
def test_the_operator_image_has_all_that_it_imports_and_no_engine(cluster: Provider, namespace: Namespace) -> None:
    cluster.load([image_of("operator")])
    for name, program in (("imports", OPERATOR), ("inventory", INVENTORY)):
        manifest = pods.pod(name, [])
        manifest["spec"]["containers"][0] |= {"image": images.tag("operator"), "command": ["python", "-c", program]}
        namespace.apply(manifest)
    assert "the operator loads" in pods.outcome(namespace, "imports")
    assert "are told of" in pods.outcome(namespace, "inventory")


@pytest.mark.cluster
@pytest.mark.usefixtures("spark_operator")
def test_the_spark_image_has_the_engine_with_its_kernels(namespace: Namespace) -> None:
    manifest = pods.pod("spark", ["python", "/opt/slatekeeper/warm.py"])
    manifest["spec"]["containers"][0]["image"] = images.tag("spark")
    namespace.apply(manifest)
    assert "0 kernels compiled" in pods.outcome(namespace, "spark")
