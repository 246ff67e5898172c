"""The package as a program meets it: quick to import, and complete."""

from __future__ import annotations

import subprocess
import sys

import pytest
import slatedb.uniffi as wheel

import slate_engine


def test_importing_it_brings_nothing_heavy_along() -> None:
    heavy = ["numpy", "numba", "pyarrow", "obstore", "yaml", "prometheus_client", "slatedb"]
    code = (
        f"import sys, slate_engine; slate_engine.Settings.default(); sys.exit(any(n in sys.modules for n in {heavy}))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_every_name_of_the_original_is_exported() -> None:
    theirs = {name for name in wheel.__all__ if not name.endswith(("Protocol", "Impl"))}
    assert not theirs - set(slate_engine.__all__)
    assert set(slate_engine.__all__) <= set(dir(slate_engine))
    for name in slate_engine.__all__:
        assert getattr(slate_engine, name) is not None


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Database'"):
        _ = slate_engine.Database
    assert not hasattr(slate_engine, "api_that_never_was")
