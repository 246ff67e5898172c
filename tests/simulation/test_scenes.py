"""Every scene, with many seeds. A failure names its scene and seed, and ``python -m tests.simulation`` plays it again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.network import Moment
from tests.simulation.scenes.crashes import KINDS, count_requests, crashes
from tests.simulation.scenes.repertoire import SCENES
from tests.simulation.world import explore

CHUNK = 20
LONGER = 10
"""So many times as many seeds as in the fast suite: scenes that take longer are played less often there, too."""


def chunks(times: int) -> Iterator[range]:
    """Seeds in portions, so that several processes can share them."""
    for first in range(0, times, CHUNK):
        yield range(first, min(first + CHUNK, times))


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_at_any_request(kind: str) -> None:
    """The one who opens the database next has everything that was acknowledged, whatever request was the last."""
    moments = list(Moment) if kind in ("plain", "parallel") else [Moment.AFTER]
    requests = count_requests(KINDS[kind])
    assert requests > 30, "the script has become too short to show anything"
    for crash in crashes(KINDS[kind], requests, moments):
        explore(crash, 0)


@pytest.mark.parametrize(
    ("name", "seeds"), [(name, seeds) for name, (_, times) in SCENES.items() for seeds in chunks(times)], ids=str
)
def test_scene(name: str, seeds: range) -> None:
    for seed in seeds:
        explore(SCENES[name][0], seed)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCENES)
def test_scene_for_long(name: str) -> None:
    scene, times = SCENES[name]
    for seed in range(1000, 1000 + LONGER * times):
        explore(scene, seed)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_at_any_request_with_other_chances(kind: str) -> None:
    for seed in range(1, 6):
        for crash in crashes(KINDS[kind], count_requests(KINDS[kind]), Moment):
            explore(crash, seed)
