"""How random tests run: with the same examples every time, or with new ones if SLATEKEEPER_NEW_EXAMPLES is set."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Fixtures that tests of several folders use; pytest finds them here by name.
from tests.cluster.fixtures import (  # noqa: F401
    apiserver,
    cluster,
    helm,
    namespace,
    operator,
    pytest_collection_finish,
    pytest_collection_modifyitems,
    s3_addon,
    s3_bucket,
    s3_from_here,
    spark_operator,
    upgrade_operator,
)

# A run in the background of a shell ignores interrupts, and so would the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Kernels may compile inside the first example, and databases on disk are slow: no deadline says anything here.
SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile("fast", deadline=None, derandomize=True, max_examples=60, suppress_health_check=SLOW_IS_FINE)
settings.register_profile(
    "long",
    deadline=None,
    derandomize="SLATEKEEPER_NEW_EXAMPLES" not in os.environ,
    print_blob=True,
    max_examples=300,
    suppress_health_check=SLOW_IS_FINE,
)


def forget_stale_kernels() -> None:
    """Numba looks only at the file that a kernel stands in, but kernels call kernels of other files, all of which are in
    ``format``: after a change there, everything is compiled anew."""
    package = Path(__file__).parents[1] / "engine" / "slate_engine"
    newest = max(file.stat().st_mtime for file in (package / "format").glob("*.py"))
    for cached in package.rglob("*.nb[ci]"):
        if cached.stat().st_mtime < newest:
            cached.unlink(missing_ok=True)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        forget_stale_kernels()
    wanted = config.getoption("-m")
    settings.load_profile("long" if wanted == "long" else "fast")


@pytest.fixture
def no_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests by the real clock in which no process uses what is deleted: deleting it does not wait for any."""
    monkeypatch.setattr("slate_engine.admin.deletion.LINGER", 0.0)
