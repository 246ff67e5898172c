"""Seeds that nobody has played before, for as many minutes as one has: ``make sim-soak MINUTES=60``.

Every core plays scenes in the proportions of the fast suite. At the end stands what was covered; a failure is printed when
it is found, with its shortest story, and its seed belongs into ``REGRESSIONS`` of ``test_scenes.py`` once it is fixed.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from tests.simulation.faults import Fault
from tests.simulation.scenes.repertoire import SCENES
from tests.simulation.shrink import shrink, tell
from tests.simulation.world import Broken, World, explore


@dataclass
class Covered:
    """What some runs came to."""

    schedules: int = 0
    simulated_s: float = 0.0
    requests: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def add(self, world: World) -> None:
        self.schedules += 1
        self.simulated_s += world.loop.time()
        self.requests += sum(process.link.requests for process in world.processes)
        self.faults += world.injector.counts

    def __iadd__(self, other: Covered) -> Covered:
        self.schedules += other.schedules
        self.simulated_s += other.simulated_s
        self.requests += other.requests
        self.faults += other.faults
        self.broken += other.broken
        return self

    def table(self, seconds: float) -> str:
        return "\n".join(
            [
                f"schedules         {self.schedules:>12,}  ({60 * self.schedules / seconds:,.0f} a minute)",
                f"simulated hours   {self.simulated_s / 3600:>12,.1f}",
                f"requests          {self.requests:>12,}",
                f"broken            {len(self.broken):>12,}  {' '.join(self.broken)}",
                "faults injected:",
                *(f"  {fault.value:38}{self.faults[fault]:>12,}" for fault in Fault),
            ]
        )


def program(first_seed: int) -> Iterator[tuple[str, int]]:
    """Scenes and seeds without end, in the proportions of the fast suite."""
    seeds = count(first_seed)
    while True:
        for name, (_, times) in SCENES.items():
            for _ in range(max(1, times // 20)):
                yield name, next(seeds)


def play(given: tuple[int, float]) -> Covered:
    """One core's share: from a first seed, for so many seconds."""
    first_seed, seconds = given
    logging.disable(logging.CRITICAL)
    covered = Covered()
    end = time.monotonic() + seconds
    for name, seed in program(first_seed):
        if time.monotonic() >= end:
            break
        try:
            covered.add(explore(SCENES[name][0], seed).world)
        except Broken as broken:
            covered.schedules += 1
            covered.broken.append(f"{name}:{seed}")
            print(tell(*shrink(SCENES[name][0], broken)), flush=True)
    return covered


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation soak")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", type=int, help="the first one; by default it follows from the time")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    seed = int(time.time()) * 1000 if given.seed is None else given.seed
    print(f"from seed {seed} on {given.cores} cores for {given.minutes:g} minutes", flush=True)
    began = time.monotonic()
    shares = [(seed + core * 10**9, given.minutes * 60) for core in range(given.cores)]
    total = Covered()
    with multiprocessing.get_context("spawn").Pool(given.cores) as pool:
        for covered in pool.imap_unordered(play, shares):
            total += covered
    print(total.table(time.monotonic() - began))
    unused = [fault.value for fault in Fault if not total.faults[fault]]
    if unused and given.minutes >= 1:
        print(f"never injected: {', '.join(unused)}")
    return int(bool(total.broken or (unused and given.minutes >= 1)))
