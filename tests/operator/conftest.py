"""The fixture ``kinds``: the real API server with our CRDs in it, for tests of everything that is written there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.tool.apiserver import ApiServer
from tests.cluster.tool.kubectl import until

CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(scope="session")
def kinds(apiserver: ApiServer) -> ApiServer:
    """The API server once it serves our kinds, under their short names and their category too."""
    apiserver.kubectl.apply("---\n".join(file.read_text() for file in sorted(CRDS.glob("*.yaml"))))
    apiserver.kubectl.wait("condition=Established", "crd", "--all", timeout=30)
    assert until(lambda: apiserver.kubectl.answers("get", "slate"), timeout=30), "the category is not known"
    return apiserver
