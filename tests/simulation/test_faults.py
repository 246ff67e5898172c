"""Every fault has struck: one that is never injected proves nothing, however many schedules are played."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.faults import Fault, Injector
from tests.simulation.scenes.repertoire import SCENES
from tests.simulation.world import explore

MOST = 20
"""So many runs at most are played of a scene until it has seen all that is looked for in it, twice."""

WHERE: dict[str, set[Fault]] = {
    "storms": {
        Fault.LATENCY,
        Fault.REORDERING,
        Fault.THROTTLING,
        Fault.ERROR_BEFORE,
        Fault.ERROR_AFTER,
        Fault.LATE,
        Fault.TWICE,
        Fault.SLOW_LIST,
        Fault.KILL_AT_REQUEST,
        Fault.KILL_AT_AWAIT,
        Fault.RESTART,
        Fault.CLOCK_SKEW,
        Fault.CLOCK_JUMP,
        Fault.TWO_READERS,
    },
    "duels": {Fault.UNREACHABLE, Fault.PAUSE, Fault.TWO_WRITERS},
    "revenants": {Fault.LONG_STALL},
    "leases": {Fault.LEASE_STALL},
    "tables": {Fault.TABLE_UNREACHABLE},
    "compactions": {Fault.TORN, Fault.TWO_COMPACTORS, Fault.TWO_WORKERS},
    "collectors": {Fault.TWO_COLLECTORS, Fault.TWO_KEEPERS},
    "clones": {Fault.TWO_CLONERS},
    "deletions": {Fault.TWO_ADMINISTRATORS},
}
"""Where each is looked for. It strikes elsewhere, too; ``make sim-soak`` counts them all."""


def test_every_fault_is_looked_for() -> None:
    assert set().union(*WHERE.values()) == set(Fault)


@pytest.mark.parametrize("scene", WHERE)
def test_every_fault_is_used(scene: str) -> None:
    counts: Counter[Fault] = Counter()
    for seed in range(MOST):
        counts += explore(SCENES[scene][0], seed).world.injector.counts
        if all(counts[fault] >= 2 for fault in WHERE[scene]):
            return
    unused = [fault.value for fault in WHERE[scene] if counts[fault] < 2]
    raise AssertionError(f"{scene} in {MOST} runs has not seen twice: {unused}")


def test_a_run_without_some_mishap_is_without_it() -> None:
    injector = Injector(frozenset({"throttling of a, request 1"}))
    assert not injector.strikes(Fault.THROTTLING, "a, request 1")
    assert injector.strikes(Fault.THROTTLING, "a, request 2")
    assert injector.counts == {Fault.THROTTLING: 1}
    assert list(injector.happened) == ["throttling of a, request 2"]
