"""The recorder in memory against the wheel's, and what Prometheus scrapes of it."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
import slatedb.uniffi as wheel
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

import slate_engine.api.metrics as vocabulary
from slate_engine.api.metrics import Counter, Gauge, Histogram, MetricLabel, MetricsRecorder, UpDownCounter
from slate_engine.api.prometheus import PrometheusMetricsRecorder
from slate_engine.api.recorder import DefaultMetricsRecorder

NUMBERS = st.one_of(st.floats(allow_nan=True), st.sampled_from([0.0, 1.0, 2.0, 3.0]), st.integers(-5, 5))
STEPS = st.tuples(
    st.sampled_from(["counter", "gauge", "up_down_counter", "histogram"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from([[], [("x", "1")], [("x", "1"), ("y", "2")], [("y", "2"), ("x", "1")]]),
    st.sampled_from([None, "", "what it counts"]),
    st.lists(st.floats(allow_nan=False, min_value=-5, max_value=5), max_size=4),
    st.lists(st.tuples(st.integers(-3, 10), NUMBERS), max_size=5),
)


def play(recorder: Any, library: Any, steps: list[Any]) -> None:
    for kind, name, labels, description, boundaries, values in steps:
        labelled = [library.MetricLabel(key=key, value=value) for key, value in labels]
        arguments = [boundaries] if kind == "histogram" else []
        handle = getattr(recorder, f"register_{kind}")(name, description, labelled, *arguments)
        for whole, real in values:
            if kind == "counter":
                handle.increment(abs(whole))
            elif kind == "gauge":
                handle.set(whole)
            elif kind == "up_down_counter":
                handle.increment(whole)
            else:
                handle.record(real)


def shown(metrics: list[Any]) -> list[str]:
    """Every field, as text, so that NaN equals NaN."""
    return [
        f"{metric.name} {[str(label) for label in metric.labels]} {metric.description!r} "
        f"{type(metric.value).__qualname__} {metric.value[0]}"
        for metric in metrics
    ]


@given(st.lists(STEPS, max_size=8))
def test_counts_what_the_wheel_counts(steps: list[Any]) -> None:
    mine, theirs = DefaultMetricsRecorder(), wheel.DefaultMetricsRecorder()
    play(mine, vocabulary, steps)
    play(theirs, wheel, steps)
    assert shown(mine.snapshot()) == shown(theirs.snapshot())
    for name in ("a", "b", "c"):
        assert shown(mine.metrics_by_name(name)) == shown(theirs.metrics_by_name(name))
        for labels in ([], [("x", "1")], [("y", "2"), ("x", "1")]):
            found = [
                recorder.metric_by_name_and_labels(name, [library.MetricLabel(key=k, value=v) for k, v in labels])
                for recorder, library in ((mine, vocabulary), (theirs, wheel))
            ]
            assert shown([found[0]] if found[0] else []) == shown([found[1]] if found[1] else [])


@pytest.mark.parametrize(
    ("kind", "method", "values"),
    [
        ("counter", "increment", [-1, 1.5, "1", None, 2**64, True]),
        ("gauge", "set", [2**63, -(2**63), "a", 1.5]),
        ("up_down_counter", "increment", [2**63, -1, None]),
        ("histogram", "record", ["3", None, 1j, 3, True]),
    ],
)
def test_numbers_are_refused_as_by_the_wheel(kind: str, method: str, values: list[Any]) -> None:
    for value in values:
        outcomes = []
        for recorder in (DefaultMetricsRecorder(), wheel.DefaultMetricsRecorder()):
            handle = getattr(recorder, f"register_{kind}")("m", None, [], *([[]] if kind == "histogram" else []))
            try:
                getattr(handle, method)(value)
            except (TypeError, ValueError) as refusal:
                outcomes.append(type(refusal))
            else:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1], value


def test_nothing_is_lost_between_threads() -> None:
    recorder = DefaultMetricsRecorder()
    counter = recorder.register_counter("count", None, [])
    histogram = recorder.register_histogram("spread", None, [], [1.0])

    def work() -> None:
        for _ in range(2_000):
            counter.increment(2)
            histogram.record(0.5)
            recorder.register_gauge("same", None, [])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert recorder.metrics_by_name("count")[0].value[0] == 32_000  # type: ignore[index]
    assert recorder.metrics_by_name("spread")[0].value[0].bucket_counts == [16_000, 0]  # type: ignore[index]
    assert len(recorder.snapshot()) == 3


def test_handles_are_what_an_application_may_ask_for() -> None:
    recorder = DefaultMetricsRecorder()
    assert isinstance(recorder, MetricsRecorder)
    assert isinstance(recorder.register_counter("a", None, []), Counter)
    assert isinstance(recorder.register_gauge("b", None, []), Gauge)
    assert isinstance(recorder.register_up_down_counter("c", None, []), UpDownCounter)
    assert isinstance(recorder.register_histogram("d", None, [], []), Histogram)


@pytest.mark.parametrize("cls", [Counter, UpDownCounter])
def test_an_interface_does_nothing_by_itself(cls: type[Counter]) -> None:
    with pytest.raises(NotImplementedError):
        cls().increment(1)


def test_prometheus_scrapes_everything() -> None:
    registry = CollectorRegistry()
    recorder = PrometheusMetricsRecorder(registry)
    label = [MetricLabel(key="op", value="get")]
    recorder.register_counter("slatedb.db.request_count", "requests", label).increment(3)
    recorder.register_counter("slatedb.db.request_count", "requests", []).increment(4)
    recorder.register_gauge("slatedb.db.l0-ssts", None, []).set(-2)
    recorder.register_up_down_counter("open", None, []).increment(5)
    histogram = recorder.register_histogram("latency", "seconds", label, [0.5, 1.0])
    for value in (0.1, 0.5, 7.0):
        histogram.record(value)
    text = generate_latest(registry).decode()
    for line in (
        "# HELP slatedb_db_request_count_total requests",
        "# TYPE slatedb_db_request_count_total counter",
        'slatedb_db_request_count_total{op="get"} 3.0',
        "slatedb_db_request_count_total 4.0",
        "slatedb_db_l0_ssts -2.0",
        "open 5.0",
        'latency_bucket{le="0.5",op="get"} 1.0',
        'latency_bucket{le="1.0",op="get"} 2.0',
        'latency_bucket{le="+Inf",op="get"} 3.0',
        'latency_count{op="get"} 3.0',
        'latency_sum{op="get"} 7.6',
    ):
        assert line in text.splitlines()
    assert math.isclose(histogram_sum(recorder), 7.6)


def histogram_sum(recorder: DefaultMetricsRecorder) -> float:
    value = recorder.metrics_by_name("latency")[0].value
    assert isinstance(value, vocabulary.MetricValue.HISTOGRAM)
    return value[0].sum
