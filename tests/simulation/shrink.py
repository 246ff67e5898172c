"""From a run that went wrong to a short story of why.

Everything that was done to the run (mishaps of the network, kills, pauses, clocks, commits, others at work beside it) has a
name. The run is played again with half of them left out, then with other halves, quarters, and so on, as long as it still
goes wrong in the same way; what remains is told without the requests that only looked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.world import Broken, World, explore, told

Scenario = Callable[[World], Coroutine[Any, Any, Any]]

REPLAYS = 120
LOOKS = frozenset({"get", "get_ranges", "head", "list", "read_mark", "get_record", "list_records"})
NOTHING_NEW = frozenset({"", "NotFound", "NotModified"})
LONGEST = 150
"""Lines of a story; of a longer one the end is told."""


def prove(scenario: Scenario, seed: int | str, replays: int = REPLAYS) -> Any:
    """:func:`~tests.simulation.world.explore`; and if that finds something, find the shortest story of it first."""
    try:
        return explore(scenario, seed)
    except Broken as broken:
        raise AssertionError(tell(*shrink(scenario, broken, replays))) from broken.error


def shrink(scenario: Scenario, broken: Broken, replays: int = REPLAYS) -> tuple[Broken, frozenset[str]]:
    """The same failure with as little as possible happening, and what was left out for it."""
    without: frozenset[str] = frozenset()
    shortest = broken
    size = len(_happened(broken)) // 2
    while size >= 1:
        for part in _parts(_happened(shortest), size):
            if replays == 0:
                return shortest, without
            replays -= 1
            again = _played(scenario, broken.seed, without | part)
            if again is not None and _kind_of(again) == _kind_of(broken):
                shortest, without = again, without | part
                break
        else:
            size //= 2
    return shortest, without


def tell(broken: Broken, without: frozenset[str]) -> str:
    """What a person should see of a failure: what is wrong, how to play it again, what was done to it, and what happened."""
    world = broken.world
    assert world is not None
    happened = [what for what in world.injector.happened if not what.startswith("commit ")]
    events = [event for event in world.trace if not (event[2] in LOOKS and event[4] in NOTHING_NEW)]
    return "\n".join(
        [
            f"{broken.name}, seed {broken.seed!r}: {type(broken.error).__name__}: {broken.error}",
            f"play it again: python -m tests.simulation '{broken.name}' {broken.seed} --shrink",
            f"it still goes wrong without {len(without)} things that happened; what is needed:",
            *(f"  - {what}" for what in happened),
            f"its story, without {len(world.trace) - len(events)} requests that only looked:",
            *map(told, events[-LONGEST:]),
        ]
    )


def _played(scenario: Scenario, seed: int | str, without: frozenset[str]) -> Broken | None:
    try:
        explore(scenario, seed, without)
    except Broken as broken:
        return broken
    return None


def _kind_of(broken: Broken) -> tuple[type[BaseException], str]:
    """What went wrong, whichever commit or process it was about."""
    return type(broken.error), re.sub(r"[0-9]+|<.*?>", "", str(broken.error))[:40]


def _happened(broken: Broken) -> list[str]:
    return [] if broken.world is None else list(broken.world.injector.happened)


def _parts(things: list[str], size: int) -> list[frozenset[str]]:
    return [frozenset(things[start : start + size]) for start in range(0, len(things), size)]
