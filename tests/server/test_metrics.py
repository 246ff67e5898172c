"""The times of commands are told as a histogram of prometheus_client's own would tell them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram

from slate_engine.server.metrics import _SECONDS, CommandTimes


def samples(registry: CollectorRegistry) -> list[tuple[str, dict[str, str], float]]:
    [family] = registry.collect()
    found = [(sample.name, sample.labels, sample.value) for sample in family.samples]
    return sorted((one for one in found if not one[0].endswith("_created")), key=repr)


def test_the_same_histogram() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    times = CommandTimes(["GET", "unknown"], ours)
    histogram = Histogram("slate_resp_command_seconds", "", ("command",), registry=theirs, buckets=_SECONDS)
    histogram.labels("unknown")
    for seconds in (0.0, 0.00005, *_SECONDS, 0.3, 0.3, 7.0):
        times.add("GET", seconds)
        histogram.labels("get").observe(seconds)
    assert samples(ours) == samples(theirs)
