"""Play scenes by hand: ``python -m tests.simulation SCENE [SEED [COUNT]]``.

With one seed, prints the fingerprint of the run, or what went wrong; ``--story`` prints all that happened, ``--shrink``
finds the shortest story of what went wrong. With a count, plays that many seeds and says how many runs a minute that were.
Without anything, measures every scene. ``soak`` and ``mutants`` are modules of the same names.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tests.simulation import mutants, soak
from tests.simulation.scenes.repertoire import SCENES, Scene, find
from tests.simulation.shrink import shrink, tell
from tests.simulation.world import Broken, explore, name_of


def main() -> int:
    logging.disable(logging.CRITICAL)
    match sys.argv[1:]:
        case ["soak", *rest]:
            return soak.main(rest)
        case ["mutants", *rest]:
            return mutants.main(rest)
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("scene", nargs="?")
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("count", nargs="?", type=int, default=1)
    parser.add_argument("--story", action="store_true")
    parser.add_argument("--shrink", action="store_true")
    given = parser.parse_args()
    if given.scene is None:
        return max(measure(scene, 0, 50) for scene, _ in SCENES.values())
    scene = find(given.scene)
    if given.count > 1:
        return measure(scene, given.seed, given.count)
    return play(scene, given.seed, story=given.story, short=given.shrink)


def play(scene: Scene, seed: int, *, story: bool, short: bool) -> int:
    try:
        world = explore(scene, seed).world
    except Broken as broken:
        print(tell(*shrink(scene, broken)) if short else broken)
        if story and broken.world is not None:
            print(broken.world.story())
        return 1
    if story:
        print(world.story())
    print(world.digest)
    return 0


def measure(scene: Scene, first: int, count: int) -> int:
    broken, started, cpu = 0, time.monotonic(), time.process_time()
    for seed in range(first, first + count):
        try:
            explore(scene, seed)
        except Broken as error:
            broken += 1
            print(str(error).partition("\n")[0])
    seconds, cpu = time.monotonic() - started, time.process_time() - cpu
    rate = f"{60 * count / seconds:.0f} a minute, {60 * count / cpu:.0f} a minute of processor time"
    print(f"{name_of(scene)}: {count} runs, {broken} broken; {rate}", flush=True)
    return int(broken > 0)


if __name__ == "__main__":
    raise SystemExit(main())
