"""All scenes by name, and how often each is played in the fast suite."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.play import Play
from tests.simulation.scenes.clones import clones
from tests.simulation.scenes.compactions import compactions
from tests.simulation.scenes.destroys import deletions, destroys
from tests.simulation.scenes.duels import duels, holes, parallel_duels, revenants, stragglers, walless_duels
from tests.simulation.scenes.gc import collectors
from tests.simulation.scenes.snapshots import snapshots
from tests.simulation.scenes.storms import long_logs, outages, pressure, storms
from tests.simulation.scenes.transactions import transactions
from tests.simulation.world import World

Scene = Callable[[World], Coroutine[Any, Any, Play]]

SCENES: dict[str, tuple[Scene, int]] = {
    scene.__name__: (scene, times)
    for scene, times in [
        (storms, 80),
        (long_logs, 40),
        (pressure, 6),
        (outages, 15),
        (duels, 40),
        (parallel_duels, 25),
        (walless_duels, 20),
        (revenants, 30),
        (stragglers, 60),
        (holes, 60),
        (transactions, 40),
        (snapshots, 15),
        (collectors, 12),
        (compactions, 6),
        (clones, 20),
        (destroys, 20),
        (deletions, 20),
    ]
}
