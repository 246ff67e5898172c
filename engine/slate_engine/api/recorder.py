"""The recorder that keeps metrics in memory, for an application that wants to look at them without further ado."""

from __future__ import annotations

import logging
import math
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from slate_engine.api import arguments
from slate_engine.api.metrics import (
    Counter,
    Gauge,
    Histogram,
    HistogramMetricValue,
    Metric,
    MetricLabel,
    MetricsRecorder,
    MetricValue,
    UpDownCounter,
)

log = logging.getLogger(__name__)


class _Counter(Counter):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value = 0

    def increment(self, value: int) -> None:
        if type(value) is not int or value != 1:  # nearly every increment is 1, on the hottest paths
            arguments.unsigned(value, "the increment of a counter")
        with self._lock:
            self._value += value

    def read(self) -> MetricValue:
        return MetricValue.COUNTER(self._value)


class _Gauge(Gauge):
    def __init__(self) -> None:
        self._value = 0

    def set(self, value: int) -> None:
        self._value = arguments.signed(value, "the value of a gauge")

    def read(self) -> MetricValue:
        return MetricValue.GAUGE(self._value)


class _UpDownCounter(UpDownCounter):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value = 0

    def increment(self, value: int) -> None:
        arguments.signed(value, "the increment of an up/down counter")
        with self._lock:
            self._value += value

    def read(self) -> MetricValue:
        return MetricValue.UP_DOWN_COUNTER(self._value)


class _Histogram(Histogram):
    def __init__(self, boundaries: Iterable[float]) -> None:
        self._lock = threading.Lock()
        self._boundaries = [float(boundary) for boundary in boundaries]
        # A value belongs to the first bucket whose boundary is above it. The highest boundary so far ascends even where
        # the boundaries do not, and first exceeds the value at that same bucket; so a binary search always finds it.
        self._ceilings = list(accumulate(self._boundaries, max))
        self._counts = [0] * (len(self._boundaries) + 1)
        self._sum, self._min, self._max = 0.0, math.inf, -math.inf

    def record(self, value: float) -> None:
        value = arguments.real(value, "what a histogram records")
        bucket = bisect_right(self._ceilings, value)
        with self._lock:
            self._counts[bucket] += 1
            self._sum += value
            if value < self._min:
                self._min = value
            if value > self._max:
                self._max = value

    def read(self) -> MetricValue:
        with self._lock:
            counts = self._counts.copy()
            total, low, high = self._sum, self._min, self._max
        return MetricValue.HISTOGRAM(
            HistogramMetricValue(
                count=sum(counts),
                sum=total,
                min=low,
                max=high,
                boundaries=self._boundaries.copy(),
                bucket_counts=counts,
            )
        )


Handle = TypeVar("Handle", _Counter, _Gauge, _UpDownCounter, _Histogram)


@dataclass(frozen=True)
class _Registered:
    name: str
    description: str
    labels: tuple[tuple[str, str], ...]
    handle: _Counter | _Gauge | _UpDownCounter | _Histogram

    def read(self) -> Metric:
        labels = [MetricLabel(key=key, value=value) for key, value in self.labels]
        return Metric(name=self.name, labels=labels, description=self.description, value=self.handle.read())


class DefaultMetricsRecorder(MetricsRecorder):
    """Keeps the metrics in memory and shows them.

    Who registers a name with the same labels again gets the same handle, so that databases can share a recorder.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[_Registered] = []
        self._first: dict[tuple[str, tuple[tuple[str, str], ...]], _Registered] = {}

    def register_counter(self, name: str, description: str | None, labels: list[MetricLabel]) -> Counter:
        return self._register(_Counter, _Counter, name, description, labels)

    def register_gauge(self, name: str, description: str | None, labels: list[MetricLabel]) -> Gauge:
        return self._register(_Gauge, _Gauge, name, description, labels)

    def register_up_down_counter(self, name: str, description: str | None, labels: list[MetricLabel]) -> UpDownCounter:
        return self._register(_UpDownCounter, _UpDownCounter, name, description, labels)

    def register_histogram(
        self, name: str, description: str | None, labels: list[MetricLabel], boundaries: list[float]
    ) -> Histogram:
        return self._register(_Histogram, lambda: _Histogram(boundaries), name, description, labels)

    def snapshot(self) -> list[Metric]:
        """Every metric, in the order of registration; each is consistent in itself."""
        with self._lock:
            registered = self._all.copy()
        return [one.read() for one in registered]

    def metrics_by_name(self, name: str) -> list[Metric]:
        with self._lock:
            registered = [one for one in self._all if one.name == name]
        return [one.read() for one in registered]

    def metric_by_name_and_labels(self, name: str, labels: list[MetricLabel]) -> Metric | None:
        """The metric with exactly these labels, in any order."""
        with self._lock:
            found = self._first.get((name, _canonical(labels)))
        return None if found is None else found.read()

    def _register(
        self,
        kind: type[Handle],
        make: Callable[[], Handle],
        name: str,
        description: str | None,
        labels: list[MetricLabel],
    ) -> Handle:
        arguments.text(name, "the name of a metric")
        canonical = _canonical(labels)
        with self._lock:
            first = self._first.get((name, canonical))
            if first is not None:
                log.warning("duplicate metric registration: name=%s, labels=%s", name, canonical)
                if isinstance(first.handle, kind):
                    return first.handle
            handle = make()
            registered = _Registered(name, description or "", canonical, handle)
            self._all.append(registered)
            self._first.setdefault((name, canonical), registered)
            return handle


def _canonical(labels: Iterable[MetricLabel]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((label.key, label.value) for label in labels))
