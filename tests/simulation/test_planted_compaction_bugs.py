"""The safety mechanisms of compaction, switched off in turn: the simulation has to notice."""

from __future__ import annotations

import pytest

from slate_engine.errors import Error
from tests.simulation import planted_compaction
from tests.simulation.loop import Deadlock
from tests.simulation.planted import Switch
from tests.simulation.scenes.repertoire import SCENES
from tests.simulation.world import Broken, explore

PLANTED = [
    # The right rows stay.
    (planted_compaction.tombstones_always_dropped, 12),
    # Also noticed by tests/unit/compaction, and sooner.
    pytest.param(planted_compaction.snapshots_forgotten, 20, marks=pytest.mark.long),
    # What somebody still reads is not collected.
    (planted_compaction.inputs_not_protected, 12),
]


def _play(switch: Switch, seeds: int) -> None:
    with switch():
        for seed in range(seeds):
            explore(SCENES["compactions"][0], seed)


@pytest.mark.parametrize(("switch", "seeds"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_the_simulation_notices(switch: Switch, seeds: int) -> None:
    with pytest.raises(Broken) as noticed:
        _play(switch, seeds)
    # It must be a promise that was broken, and not the switch.
    assert isinstance(noticed.value.__cause__, AssertionError | Deadlock | Error)
