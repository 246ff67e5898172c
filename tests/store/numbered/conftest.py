"""A store in memory that counts its requests, on a clock that the test sets."""

from __future__ import annotations

import pytest

from slate_engine.store.cost import Tally
from slate_engine.store.memory import MemoryStore
from tests.store.two_phase.doubles import ManualRuntime


@pytest.fixture
def clock() -> ManualRuntime:
    return ManualRuntime()


@pytest.fixture
def requests() -> Tally:
    return Tally()


@pytest.fixture
def store(clock: ManualRuntime, requests: Tally) -> MemoryStore:
    return MemoryStore(clock, meter=requests)
