"""How many requests a process has sent to stores, as a bill counts them: for summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from slate_engine.store.cost import Request
from slate_engine.store.metrics import StoreMetrics


def counting() -> Callable[[], dict[str, int]]:
    """Begin to count; what it gives tells how many of each kind there have been since. A Python worker does one task at a
    time, so these are the requests of that task."""
    before = _so_far()

    def since() -> dict[str, int]:
        return dict(_so_far() - before)

    return since


def priced(counts: dict[str, int]) -> dict[Request, int]:
    """The same as price lists want it."""
    return {Request(name): count for name, count in counts.items()}


def _so_far() -> Counter[str]:
    total: Counter[str] = Counter()
    for metric in StoreMetrics.of().requests.collect():
        for sample in metric.samples:
            if sample.name.endswith("_total"):
                total[sample.labels["request"]] += int(sample.value)
    return total
