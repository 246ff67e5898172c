"""How random tests run: the fast suite draws the same examples every time, the long one new ones."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# Kernels may compile inside the first example, and databases on disk are slow: no deadline says anything here.
SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile("fast", deadline=None, derandomize=True, max_examples=60, suppress_health_check=SLOW_IS_FINE)
settings.register_profile("long", deadline=None, print_blob=True, max_examples=1000, suppress_health_check=SLOW_IS_FINE)


def pytest_configure(config: pytest.Config) -> None:
    wanted = config.getoption("-m")
    settings.load_profile("long" if wanted == "long" else "fast")
