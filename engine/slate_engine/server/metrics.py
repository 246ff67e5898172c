"""What a service counts for Prometheus, beside what the engine and the store count."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from slate_engine.server.resp.catalogue import TABLE

_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)


class CommandTimes(Collector):
    """How long each command took, as a histogram that is made when somebody asks for it. prometheus_client's own would take
    two locks for each command; here only the event loop counts."""

    def __init__(self, names: list[str], registry: CollectorRegistry) -> None:
        self._counts = {name: [0] * (len(_SECONDS) + 1) for name in names}
        self._sums = dict.fromkeys(names, 0.0)
        registry.register(self)

    def add(self, name: str, seconds: float) -> None:
        self._counts[name][bisect_left(_SECONDS, seconds)] += 1
        self._sums[name] += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(
            "slate_resp_command_seconds",
            "Time to carry a command out, without the wait for durability",
            labels=("command",),
        )
        bounds = [*map(floatToGoString, _SECONDS), "+Inf"]
        for name, counts in self._counts.items():
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            family.add_metric([name.lower()], buckets, self._sums[name])
        yield family


class RespMetrics:
    """The Redis protocol in numbers. The time of a command does not include the wait for durability."""

    def __init__(self, registry: CollectorRegistry) -> None:
        failed = Counter(
            "slate_resp_command_failures", "Commands answered with an error", ("command",), registry=registry
        )
        names = [command.name for command in TABLE.values()] + ["unknown"]
        # Looked up once: a label lookup takes longer than a GET of a cached key.
        self._failed = {name: failed.labels(name.lower()) for name in names}
        self._times = CommandTimes(names, registry)
        self._clients = Gauge("slate_resp_clients", "Clients that are connected", registry=registry)
        self._refused = Counter(
            "slate_resp_refusals", "Clients that were refused or cut off, by reason", ("reason",), registry=registry
        )

    def command(self, name: str, seconds: float, failed: bool) -> None:
        self._times.add(name, seconds)
        if failed:
            self._failed[name].inc()

    def connected(self, now: int) -> None:
        self._clients.set(now)

    def refused(self, why: str) -> None:
        self._refused.labels(why).inc()
