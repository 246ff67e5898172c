"""The page on simulation names what there is: scenes, and the races of the catalogue."""

from __future__ import annotations

import re

from tests.simulation.mutants import PAGE
from tests.simulation.scenes.repertoire import SCENES
from tests.simulation.test_scenes import REGRESSIONS
from tests.unit.gc.test_races import RACES


def section(title: str) -> list[list[str]]:
    """The rows of the table under a heading."""
    part = PAGE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]


def test_every_scene_is_on_the_page() -> None:
    named = [name for scenes, _ in section("What runs") for name in re.findall(r"`([a-z_]+)`", scenes)]
    assert sorted(named) == sorted(SCENES)


def test_every_race_is_on_the_page() -> None:
    named = [name.strip() for _, _, names in section("The races that are known") for name in names.split(",")]
    assert sorted(named) == sorted(RACES)


def test_every_seed_that_found_something_is_on_the_page() -> None:
    named = [
        (scene, int(seed))
        for found, _ in section("What it has found")
        for scene, seeds in re.findall(r"`([a-z_]+)` ([0-9]+(?:, [0-9]+)*)", found)
        for seed in seeds.split(",")
    ]
    assert sorted(named) == sorted(REGRESSIONS)
