"""What a service's own requests to the object store come to, at the rate at which it has sent them so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from slate_engine.runtime import Runtime
from slate_engine.store.cost import S3_STANDARD, Request, price

MONTH = 30 * 86400


class Bill:
    """Counts from the moment it is made."""

    def __init__(self, registry: CollectorRegistry, runtime: Runtime) -> None:
        self._registry = registry
        self._runtime = runtime
        self._began = runtime.monotonic()

    def document(self) -> Mapping[str, Any]:
        counts = self._counts()
        seconds = max(self._runtime.monotonic() - self._began, 1.0)
        return {
            "seconds": round(seconds, 1),
            "counts": {request.value: times for request, times in counts.items() if times},
            "dollars_a_month": price(counts, S3_STANDARD).total / seconds * MONTH,
            "prices": S3_STANDARD.name,
        }

    def _counts(self) -> dict[Request, int]:
        counts = dict.fromkeys(Request, 0)
        for metric in self._registry.collect():
            if metric.name == "slate_store_requests":
                for sample in metric.samples:
                    if sample.name.endswith("_total"):
                        counts[Request(sample.labels["request"])] += int(sample.value)
        return counts
