"""Which provider is chosen, and what kind is asked to do. Docker and kind are stand-ins here that note how they are called:
the workflow of the repository runs the real ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.tool import kind, names, provider
from tests.cluster.tool.report import ClusterError

NOTE_CALL = """#!/bin/sh
echo "${KIND_EXPERIMENTAL_PROVIDER:-} $(basename "$0") $*" >>"$CALLS"
case "$*" in
"get clusters") cat "$CLUSTERS" ;;
"create cluster"*) cat >>"$CALLS"; echo "$8" >"$CLUSTERS" ;;
"delete cluster"*) : >"$CLUSTERS" ;;
*broken*) echo "the engine is on fire" >&2; exit 7 ;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only one on the search path for engines; everything under the project is under it too."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (tmp_path / "calls").touch()
    (tmp_path / "clusters").touch()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("CLUSTERS", str(tmp_path / "clusters"))
    monkeypatch.delenv(provider.PROVIDER_VARIABLE, raising=False)
    monkeypatch.setattr(names, "PROJECT", tmp_path)
    monkeypatch.setattr(kind, "_ENGINES", ("fake-docker", "fake-podman"))
    return folder


def install(folder: Path, name: str, text: str = NOTE_CALL) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def calls(folder: Path) -> str:
    return (folder.parent / "calls").read_text()


def test_no_engine_means_local(programs: Path) -> None:
    assert type(provider.provider("one")).__name__ == "Local"


def test_an_engine_that_answers_means_kind(programs: Path) -> None:
    install(programs, "fake-podman")
    chosen = provider.provider("one")
    assert isinstance(chosen, kind.Kind)
    assert chosen.engine == "fake-podman"


def test_a_client_without_its_daemon_is_no_engine(programs: Path) -> None:
    install(programs, "fake-docker", "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    assert kind.engine() is None


def test_the_provider_that_brought_a_cluster_up_takes_it_down(programs: Path) -> None:
    install(programs, "fake-docker")
    home = names.Names("one").home
    home.mkdir(parents=True)
    (home / "provider").write_text("local\n")
    assert type(provider.provider("one")).__name__ == "Local"
    assert type(provider.provider("two")).__name__ == "Kind"


def test_a_wish_that_cannot_be_met_is_refused(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(provider.PROVIDER_VARIABLE, "kind")
    with pytest.raises(ClusterError, match="start one of them"):
        provider.provider("one")
    monkeypatch.setenv(provider.PROVIDER_VARIABLE, "minikube")
    with pytest.raises(ClusterError, match="choose kind or local"):
        provider.provider("one")


def test_a_life_with_kind(programs: Path) -> None:
    install(programs, "kind")
    install(programs, "kubectl", "#!/bin/sh\ncase \"$*\" in *nodes*) echo 'node Ready control-plane' ;; esac\n")
    cluster = kind.Kind(names.Names("one"), "docker")
    assert not cluster.status().up

    cluster.up()
    config = cluster.names.kubeconfig
    create = f"docker kind create cluster --config - --wait 180s --name one --kubeconfig {config}"
    assert create in calls(programs)
    assert "role: control-plane" in calls(programs), "the configuration goes to its standard input"
    assert (cluster.names.home / "provider").read_text() == "kind\n"

    config.touch()  # the real one writes it
    assert cluster.status().up
    before = calls(programs).count("create cluster")
    cluster.up()
    assert calls(programs).count("create cluster") == before, "up again changes nothing"

    cluster.load([Path("/images/slate.tar")])
    assert "docker kind load image-archive /images/slate.tar --name one\n" in calls(programs)

    cluster.down()
    assert f"docker kind delete cluster --name one --kubeconfig {config}" in calls(programs)
    assert not cluster.names.home.exists()


def test_a_failure_says_what_kind_said(programs: Path) -> None:
    install(programs, "kind")
    with pytest.raises(ClusterError, match=r"(?s)could not load image-archive with kind.*code 7.*engine is on fire"):
        kind.Kind(names.Names("one"), "docker").load([Path("broken.tar")])
