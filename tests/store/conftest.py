"""Servers that the store tests share, built once per machine and started once per run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slate_engine.runtime import SystemRuntime
from tests.servers import azurite, fake_gcs, versitygw

pytest.register_assert_rewrite("tests.store.contract.suite")


@pytest.fixture
def runtime() -> SystemRuntime:
    return SystemRuntime()


@pytest.fixture(scope="session")
def server_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="session")
def s3_server(server_root: Path, pytestconfig: pytest.Config) -> Iterator[versitygw.VersityGW]:
    _build(pytestconfig, versitygw.program)
    with versitygw.VersityGW(server_root / "s3") as server:
        server.make_bucket("contract")
        yield server


@pytest.fixture(scope="class")
def azure_server(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[azurite.Azurite]:
    """A new one for each class of tests: it gets slower with every blob that it has ever seen."""
    _build(pytestconfig, azurite.program)
    with azurite.Azurite(tmp_path_factory.mktemp("azure")) as server:
        server.make_container("contract")
        yield server


@pytest.fixture(scope="session")
def gcs_server(server_root: Path, pytestconfig: pytest.Config) -> Iterator[fake_gcs.FakeGcs]:
    _build(pytestconfig, fake_gcs.program)
    with fake_gcs.FakeGcs(server_root / "gcs") as server:
        server.make_bucket("contract")
        yield server


def _build(config: pytest.Config, program: object) -> None:
    """Build outside of pytest's capture: it may take minutes, and must not look like a hang."""
    assert callable(program)
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        program()
        return
    with capture.global_and_fixture_disabled():
        program()
