"""Time passes here by days: grace periods and lifetimes, not requests, are what takes long."""

from __future__ import annotations

import pytest

import tests.simulation.loop


@pytest.fixture(autouse=True)
def long_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tests.simulation.loop, "LONGEST", 1e8)
