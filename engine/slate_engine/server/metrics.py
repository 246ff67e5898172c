"""What a service counts for Prometheus, beside what the engine and the store count."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from slate_engine.server.resp.catalogue import TABLE

_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)


class RespMetrics:
    """The Redis protocol in numbers. The time of a command does not include the wait for durability."""

    def __init__(self, registry: CollectorRegistry) -> None:
        failed = Counter(
            "slate_resp_command_failures", "Commands answered with an error", ("command",), registry=registry
        )
        seconds = Histogram(
            "slate_resp_command_seconds",
            "Time to carry a command out, without the wait for durability",
            ("command",),
            registry=registry,
            buckets=_SECONDS,
        )
        names = [command.name.lower() for command in TABLE.values()] + ["unknown"]
        # Looked up once: a label lookup takes longer than a GET of a cached key.
        self._failed = {name.upper(): failed.labels(name) for name in names}
        self._seconds = {name.upper(): seconds.labels(name) for name in names}
        self._failed["unknown"], self._seconds["unknown"] = failed.labels("unknown"), seconds.labels("unknown")
        self._clients = Gauge("slate_resp_clients", "Clients that are connected", registry=registry)
        self._refused = Counter(
            "slate_resp_refusals", "Clients that were refused or cut off, by reason", ("reason",), registry=registry
        )

    def command(self, name: str, seconds: float, failed: bool) -> None:
        self._seconds[name].observe(seconds)
        if failed:
            self._failed[name].inc()

    def connected(self, now: int) -> None:
        self._clients.set(now)

    def refused(self, why: str) -> None:
        self._refused.labels(why).inc()
