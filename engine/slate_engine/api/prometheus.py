"""The database's metrics for Prometheus."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector, CollectorRegistry

from slate_engine.api.metrics import Metric, MetricValue
from slate_engine.api.recorder import DefaultMetricsRecorder


class PrometheusMetricsRecorder(DefaultMetricsRecorder, Collector):
    """A recorder that a registry scrapes: hand the same one to the builder and to ``start_http_server``'s registry.

    Values are read when they are scraped; recording costs what it costs :class:`DefaultMetricsRecorder`. Dots in names
    become underscores: ``slatedb.db.request_count`` is scraped as ``slatedb_db_request_count_total``.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        registry.register(self)

    def describe(self) -> list[Family]:
        # The metrics are not known before a database registers them, and collecting has no side effects to avoid.
        return []

    def collect(self) -> Iterator[Family]:
        families: dict[tuple[str, str], Family] = {}
        for metric in self.snapshot():
            kind = _kind(metric.value)
            name = re.sub(r"[^a-zA-Z0-9_:]", "_", metric.name)
            family = families.setdefault((name, kind), Family(name, metric.description, kind))
            _add(family, metric)
        yield from families.values()


def _kind(value: MetricValue) -> str:
    if isinstance(value, MetricValue.COUNTER):
        return "counter"
    return "histogram" if isinstance(value, MetricValue.HISTOGRAM) else "gauge"


def _add(family: Family, metric: Metric) -> None:
    labels = {label.key: label.value for label in metric.labels}
    value = metric.value
    if isinstance(value, MetricValue.COUNTER):
        family.add_sample(f"{family.name}_total", labels, value[0])
    elif isinstance(value, MetricValue.GAUGE | MetricValue.UP_DOWN_COUNTER):
        family.add_sample(family.name, labels, value[0])
    elif isinstance(value, MetricValue.HISTOGRAM):
        seen = 0
        bounds = [*map(str, value[0].boundaries), "+Inf"]
        for bound, count in zip(bounds, value[0].bucket_counts, strict=True):
            seen += count
            family.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, seen)
        family.add_sample(f"{family.name}_sum", labels, value[0].sum)
        family.add_sample(f"{family.name}_count", labels, value[0].count)
