"""pytest's view of clusters: the fixtures ``apiserver``, ``cluster``, ``namespace``, ``s3_bucket``, ``spark_operator`` and
``helm``.

None of them skips a test. Where a cluster cannot be had the tests that want one fail and say what to install. Each worker
of a parallel run has an API server and a cluster of its own. ``SLATEKEEPER_CLUSTER=name`` uses a cluster that is up
already and leaves it up, which saves its start while one works on a test.
"""

from __future__ import annotations

import contextlib
import functools
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.tool import addons, images, programs
from tests.cluster.tool.apiserver import ApiServer
from tests.cluster.tool.doors import port_forward
from tests.cluster.tool.kubectl import Kubectl, Manifest
from tests.cluster.tool.locking import locked
from tests.cluster.tool.provider import Provider, provider
from tests.cluster.tool.report import run
from tests.servers.versitygw import ACCESS_KEY, REGION, SECRET_KEY

CLUSTER_VARIABLE = "SLATEKEEPER_CLUSTER"


@dataclass(frozen=True)
class Bucket:
    """A bucket of the cluster's S3 server, as pods see it."""

    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    def env(self) -> dict[str, str]:
        """What a container must find in its environment to use it."""
        return {
            "AWS_ENDPOINT": addons.S3_ENDPOINT,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ALLOW_HTTP": "true",
        }


@dataclass(frozen=True)
class Namespace:
    """A namespace of one test, under the restricted Pod Security level: whatever we ship must run in such a one."""

    name: str
    kubectl: Kubectl

    def __call__(self, *words: str, timeout: float = 120.0) -> str:
        return self.kubectl("-n", self.name, *words, timeout=timeout)

    def apply(self, *manifests: Manifest) -> None:
        self.kubectl.apply(manifests, namespace=self.name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that compare the whole host before and after come first: nothing of ours runs there yet that could change."""
    items.sort(key=lambda item: item.path.name != "test_life.py")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what the chosen tests need before the first one runs: a build takes longer than any test may, and whoever
    waits should see it."""
    wanted = {name for item in session.items if isinstance(item, pytest.Function) for name in item.fixturenames}
    builds = [build for name, build in _BUILDS.items() if name in wanted]
    if builds and not session.config.option.collectonly:
        capture = session.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            for build in builds:
                with contextlib.suppress(RuntimeError):  # the tests that need it will fail and say so; others go on
                    build()


@functools.cache
def image_of(name: str) -> Path:
    """An image as it is when the run begins; somebody may be editing what goes into it meanwhile."""
    return images.build(name)


def _build_for_cluster() -> None:
    provider(_name("master")).prepare()
    image_of("slate")


def _build_for_spark() -> None:
    programs.helm()
    images.build("spark-operator")


_BUILDS: Mapping[str, Callable[[], object]] = {
    "apiserver": programs.kube,
    "cluster": _build_for_cluster,
    "s3_addon": lambda: images.build("s3"),
    "our_image": lambda: [image_of(name) for name in ("operator", "slate", "spark")],
    "helm": programs.helm,
    "operator": lambda: images.build("operator"),
    "spark_image": lambda: image_of("spark"),
    "spark_operator": _build_for_spark,
}


def _name(worker_id: str) -> str:
    return os.environ.get(CLUSTER_VARIABLE) or f"test-{worker_id}"


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A real API server with nothing behind it, ready in seconds; needs neither root nor Docker."""
    with ApiServer(tmp_path_factory.mktemp("apiserver")) as server:
        yield server


@pytest.fixture(scope="session")
def cluster(worker_id: str) -> Iterator[Provider]:
    """A whole cluster with the image of the engine in it."""
    found = provider(_name(worker_id))
    with locked(found.names.lock):
        found.up()
        try:
            found.load([image_of("slate")])
            yield found
        finally:
            if CLUSTER_VARIABLE not in os.environ:
                found.down()


@pytest.fixture
def namespace(cluster: Provider) -> Iterator[Namespace]:
    kubectl, name = cluster.kubectl(), f"test-{uuid.uuid4().hex[:8]}"
    kubectl.apply([addons.restricted_namespace(name)])
    yield Namespace(name, kubectl)
    # Its end takes the cluster some seconds, which nobody has to wait for.
    kubectl("delete", "pods", "--all", "-n", name, "--grace-period=1", "--wait=false")
    kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@pytest.fixture(scope="session")
def s3_addon(cluster: Provider) -> None:
    addons.s3(cluster)


@pytest.fixture
def s3_bucket(cluster: Provider, s3_addon: None) -> Iterator[Bucket]:
    kubectl, name = cluster.kubectl(), f"bucket-{uuid.uuid4().hex[:8]}"
    in_server = ("exec", "deployment/s3", "-n", addons.S3_NAMESPACE, "--")
    kubectl(*in_server, "mkdir", f"{addons.S3_FOLDER}/{name}")
    yield Bucket(name)
    kubectl(*in_server, "rm", "-rf", f"{addons.S3_FOLDER}/{name}")


@pytest.fixture(scope="session")
def operator(cluster: Provider) -> None:
    """Slatekeeper itself, installed by its chart, watching every namespace."""
    addons.slatekeeper(cluster)


@pytest.fixture
def upgrade_operator(operator: None, cluster: Provider) -> Iterator[Callable[[], None]]:
    """Replace the operator's pod as an upgrade does: another version of it, which brings another image for databases."""
    yield lambda: addons.slatekeeper(
        cluster,
        "--set",
        f"podAnnotations.upgraded=at-{uuid.uuid4().hex[:8]}",
        "--set",
        "engine.image=example.test/newer:1",
    )
    addons.slatekeeper(cluster)


@pytest.fixture
def s3_from_here(cluster: Provider, s3_addon: None) -> Iterator[dict[str, str]]:
    """The environment with which a process of this machine uses the cluster's S3 server."""
    with port_forward(cluster.kubectl(), addons.S3_NAMESPACE, "service/s3", 7070) as port:
        yield {
            "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ALLOW_HTTP": "true",
        }


@pytest.fixture(scope="session")
def spark_operator(cluster: Provider) -> None:
    """Kubeflow's Spark operator, watching every namespace."""
    addons.spark(cluster)


@pytest.fixture(scope="session")
def helm(cluster: Provider) -> Callable[..., str]:
    """``helm("install", …)`` against the cluster; its caches and plugins are not the user's."""
    program, environment = programs.helm(), cluster.kubectl().environment
    scratch = cluster.names.home / "helm"
    own = {f"HELM_{kind}_HOME": str(scratch / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}

    def call(*words: str | Path, timeout: float = 300.0) -> str:
        return run(f"run `helm {words[0]}`", [program, *words], env={**environment, **own}, timeout=timeout)

    return call
