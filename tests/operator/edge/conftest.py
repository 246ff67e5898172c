"""A namespace of the API server for one test."""

from __future__ import annotations

import uuid

import pytest

from tests.cluster.tool.apiserver import ApiServer


@pytest.fixture
def place(kinds: ApiServer) -> str:
    """The name of a new namespace, in an API server that knows our kinds."""
    name = f"edge-{uuid.uuid4().hex[:8]}"
    kinds.kubectl("create", "namespace", name)
    return name
