"""Metrics: what the database counts, and the interface through which an application has it recorded.

An application implements :class:`MetricsRecorder` to carry the metrics elsewhere, or takes ``DefaultMetricsRecorder`` and
asks it. The handles are called on hot paths, from any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slate_engine.api.shapes import Record, Single, Variant


class Counter:
    """A count that only grows."""

    def increment(self, value: int) -> None:
        raise NotImplementedError


class Gauge:
    """A value that is set."""

    def set(self, value: int) -> None:
        raise NotImplementedError


class UpDownCounter:
    """A count that grows and shrinks."""

    def increment(self, value: int) -> None:
        raise NotImplementedError


class Histogram:
    """A distribution of values over buckets."""

    def record(self, value: float) -> None:
        raise NotImplementedError


@dataclass(kw_only=True)
class MetricLabel(Record):
    """One label of a metric."""

    key: str
    value: str


@dataclass(kw_only=True)
class HistogramMetricValue(Record):
    """A distribution. Bucket ``i`` counts the values from boundary ``i - 1`` up to, but not including, boundary ``i``;
    the last bucket counts the rest. Before the first value, ``min`` and ``max`` are infinite."""

    count: int
    sum: float
    min: float
    max: float
    boundaries: list[float]
    bucket_counts: list[int]


class MetricValue(Variant):
    """What a metric stands at."""

    COUNTER: ClassVar[type[_MetricValueCounter]]
    GAUGE: ClassVar[type[_MetricValueGauge]]
    UP_DOWN_COUNTER: ClassVar[type[_MetricValueUpDownCounter]]
    HISTOGRAM: ClassVar[type[_MetricValueHistogram]]

    def is_COUNTER(self) -> bool:
        return isinstance(self, MetricValue.COUNTER)

    def is_GAUGE(self) -> bool:
        return isinstance(self, MetricValue.GAUGE)

    def is_UP_DOWN_COUNTER(self) -> bool:
        return isinstance(self, MetricValue.UP_DOWN_COUNTER)

    def is_HISTOGRAM(self) -> bool:
        return isinstance(self, MetricValue.HISTOGRAM)

    is_counter, is_gauge = is_COUNTER, is_GAUGE
    is_up_down_counter, is_histogram = is_UP_DOWN_COUNTER, is_HISTOGRAM


class _MetricValueCounter(Single[int], MetricValue):
    """A count that only grows."""

    __qualname__ = "MetricValue.COUNTER"


class _MetricValueGauge(Single[int], MetricValue):
    """The last value that was set."""

    __qualname__ = "MetricValue.GAUGE"


class _MetricValueUpDownCounter(Single[int], MetricValue):
    """A count that grows and shrinks."""

    __qualname__ = "MetricValue.UP_DOWN_COUNTER"


class _MetricValueHistogram(Single[HistogramMetricValue], MetricValue):
    """A distribution of values."""

    __qualname__ = "MetricValue.HISTOGRAM"


MetricValue.COUNTER, MetricValue.GAUGE = _MetricValueCounter, _MetricValueGauge
MetricValue.UP_DOWN_COUNTER, MetricValue.HISTOGRAM = _MetricValueUpDownCounter, _MetricValueHistogram


@dataclass(kw_only=True)
class Metric(Record):
    """A metric and what it stands at. Labels are in the order of their keys."""

    name: str
    labels: list[MetricLabel]
    description: str
    value: MetricValue


class MetricsRecorder:
    """To be implemented by an application that records metrics itself."""

    def register_counter(self, name: str, description: str | None, labels: list[MetricLabel]) -> Counter:
        raise NotImplementedError

    def register_gauge(self, name: str, description: str | None, labels: list[MetricLabel]) -> Gauge:
        raise NotImplementedError

    def register_up_down_counter(self, name: str, description: str | None, labels: list[MetricLabel]) -> UpDownCounter:
        raise NotImplementedError

    def register_histogram(
        self, name: str, description: str | None, labels: list[MetricLabel], boundaries: list[float]
    ) -> Histogram:
        raise NotImplementedError
