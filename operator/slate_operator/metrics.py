"""What the operator counts of itself."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Of one process. The names are a promise to dashboards and alerts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = Counter(
            "slatekeeper_reconciles",
            "Looks at objects, by how they ended: done, conflict, unreachable, refused, invalid, failed or timeout.",
            ["kind", "result"],
            registry=self.registry,
        )
        self.durations = Histogram(
            "slatekeeper_reconcile_seconds",
            "How long a look takes.",
            ["kind"],
            registry=self.registry,
            buckets=_SECONDS,
        )
        self.requests = Counter(
            "slatekeeper_api_requests",
            "Requests to the API server, watches not counted. Code 0: no answer.",
            ["verb", "resource", "code"],
            registry=self.registry,
        )
        self.objects = Gauge("slatekeeper_objects", "Objects in the cache.", ["kind"], registry=self.registry)
        self.not_ready = Gauge(
            "slatekeeper_objects_not_ready", "Objects whose Ready is not True.", ["kind"], registry=self.registry
        )
        self.waiting = Gauge("slatekeeper_queue_waiting", "Objects that wait to be looked at.", registry=self.registry)
        self.working = Gauge("slatekeeper_queue_working", "Objects that are looked at now.", registry=self.registry)
        self.leading = Gauge("slatekeeper_leader", "1 while this process holds the Lease.", registry=self.registry)

    def request(self, verb: str, resource: str, status: int) -> None:
        self.requests.labels(verb, resource, str(status)).inc()
