"""NetworkPolicies become the right rules: the Go tests beside the code, which speak of every kind of peer and port."""

from __future__ import annotations

import pytest

from tests.cluster.tool import programs

pytestmark = pytest.mark.cluster


def test_rules() -> None:
    programs.test_sources()
