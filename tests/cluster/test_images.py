"""What goes into an image, and when it is built again."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.cluster.tool import builders, images, plan, programs
from tests.cluster.tool.report import ClusterError


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two images, one made from the other, and the tags that a stand-in for the builder was asked for."""
    for name, text in (("below", "FROM scratch\nCOPY file /\n"), ("above", f"FROM {images.tag('below')}\n")):
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / "Dockerfile").write_text(text)
    (tmp_path / "images" / "below" / "file").write_text("one")
    tags: list[str] = []

    class Notes:
        def build(self, tag: str, context: Path, archive: Path) -> None:
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
    assert not first.exists(), "an old archive is of no use to anybody"


@pytest.mark.usefixtures("built")
def test_a_file_that_becomes_executable_is_a_change(tmp_path: Path) -> None:
    first = images.build("below")
    (tmp_path / "images" / "below" / "file").chmod(0o755)
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
    builders.Engine(str(program)).build("a:dev", tmp_path / "context", tmp_path / "a.tar")
    assert calls.read_text().splitlines() == [
        f"build --tag a:dev {tmp_path}/context",
        f"save --output {tmp_path}/a.tar a:dev",
    ]


def test_pods_get_no_test_dependencies(tmp_path: Path) -> None:
    images.stage("slate", tmp_path / "context")
    wanted = (tmp_path / "context" / "dependencies.txt").read_text().split()
    assert {"numba", "obstore", "pyarrow"} <= set(wanted)
    assert not {"pytest", "hypothesis", "slatedb==0.17.0"} & set(wanted)
    assert (tmp_path / "context" / "engine" / "slate_engine" / "__init__.py").exists()
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
