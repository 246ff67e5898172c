"""All scenes by name, and what is played of them in the fast suite."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from tests.simulation.network import Moment
from tests.simulation.play import Play
from tests.simulation.scenes.backlogs import backlogs
from tests.simulation.scenes.bank import bank
from tests.simulation.scenes.clones import CrashedClone, clones, crashed_clones, rivals
from tests.simulation.scenes.closes import closes
from tests.simulation.scenes.compactions import compactions
from tests.simulation.scenes.crashes import Crash, crashes
from tests.simulation.scenes.destroys import deletions, destroys
from tests.simulation.scenes.duels import duels, holes, parallel_duels, revenants, stragglers, walless_duels
from tests.simulation.scenes.evictions import evictions
from tests.simulation.scenes.families import families
from tests.simulation.scenes.gc import collectors
from tests.simulation.scenes.graces import graces
from tests.simulation.scenes.leases import leases
from tests.simulation.scenes.restores import restores
from tests.simulation.scenes.snapshots import snapshots
from tests.simulation.scenes.storms import long_logs, outages, pressure, storms
from tests.simulation.scenes.tables import tables
from tests.simulation.scenes.transactions import transactions
from tests.simulation.scenes.unions import unions
from tests.simulation.world import World

Scene = Callable[[World], Coroutine[Any, Any, Play]]

SCENES: dict[str, tuple[Scene, int]] = {
    scene.__name__: (scene, times)
    for scene, times in [
        (storms, 140),
        (long_logs, 90),
        (pressure, 5),
        (outages, 60),
        (closes, 60),
        (duels, 100),
        (parallel_duels, 50),
        (walless_duels, 40),
        (revenants, 60),
        (stragglers, 160),
        (holes, 150),
        (transactions, 170),
        (snapshots, 15),
        (collectors, 40),
        (compactions, 16),
        (backlogs, 12),
        (clones, 30),
        (rivals, 30),
        (destroys, 80),
        (deletions, 100),
        (evictions, 100),
        (bank, 30),
        (leases, 12),
        (graces, 30),
        (families, 20),
        (unions, 20),
        (tables, 40),
        (restores, 20),
    ]
}

"""How often each is played in the fast suite."""

MOMENTS: dict[str, list[Moment]] = {
    "plain": list(Moment),
    "small memtables": [Moment.AFTER],
    "parallel": list(Moment),
    "no WAL": [Moment.AFTER],
}
"""When a writer of each kind is killed there, at each of its requests."""

PAUSES = 0.0, 400.0
"""How long whoever makes a clone anew waits there: the parent keeps what a first attempt began with for 300 seconds."""


def fast_suite() -> Iterator[tuple[Scene, int]]:
    """Everything that it plays, with its seed."""
    for scene, times in SCENES.values():
        yield from ((scene, seed) for seed in range(times))
    for kind, moments in MOMENTS.items():
        yield from ((crash, 0) for crash in crashes(kind, moments))
    for pause in PAUSES:
        for moment in Moment:
            yield from ((clone, 0) for clone in crashed_clones(moment, pause))


def find(name: str) -> Scene:
    """A scene by the name that a failure gives it; those that crash at one request have it in their name."""
    match name.split("/"):
        case ["crash", kind, request, moment]:
            return Crash(kind, int(request), Moment[moment.upper()])
        case ["clone", request, moment, pause]:
            return CrashedClone(int(request), Moment[moment.upper()], float(pause))
        case _ if name in SCENES:
            return SCENES[name][0]
        case _:
            raise ValueError(f"there is no scene {name!r}; there are {', '.join(SCENES)}")
