"""Calls are counted as the engine makes them, requests as a bill counts them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from slate_engine.runtime import SystemRuntime
from slate_engine.store.cost import R2, S3_EXPRESS, S3_STANDARD, Request, Tally, price
from slate_engine.store.faults import Fault, FaultyStore, Strike
from slate_engine.store.memory import MemoryStore
from slate_engine.store.metrics import BackendMetrics, MeteredStore, StoreMetrics
from slate_engine.store.open import open_store
from slate_engine.store.protocol import CREATE, Buffer, Conflict, NotFound, NotModified, ObjectStore
from slate_engine.store.retry import RetryingStore


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def metered(registry: CollectorRegistry, runtime: SystemRuntime, *faults: Fault) -> tuple[ObjectStore, BackendMetrics]:
    metrics = BackendMetrics(StoreMetrics.of(registry), "memory")
    faulty = FaultyStore(MemoryStore(runtime, meter=metrics), runtime, faults)
    return MeteredStore(RetryingStore(faulty, runtime, observer=metrics), metrics, runtime), metrics


async def test_calls_bytes_and_errors(registry: CollectorRegistry, runtime: SystemRuntime) -> None:
    store, _ = metered(registry, runtime)

    def value(name: str, **labels: str) -> float:
        return registry.get_sample_value(f"slate_store_{name}", {"backend": "memory", **labels}) or 0.0

    async def chunks() -> AsyncIterator[Buffer]:
        yield b"1234"
        yield b"5"

    etag = await store.put("a", b"0123456789", CREATE)
    await store.put_stream("s", chunks())
    await store.get("a")
    await store.get_ranges("a", [(0, 4), (5, 6)])
    await store.head("a")
    await store.copy("a", "b")
    assert len([page async for page in store.list("")]) == 1
    await store.delete(["b"])
    with pytest.raises(Conflict):
        await store.put("a", b"x", CREATE)
    with pytest.raises(NotFound):
        await store.get("none")
    with pytest.raises(NotModified):
        await store.get("a", if_none_match=etag)
    assert value("written_bytes_total") == 15
    assert value("read_bytes_total") == 15
    assert value("calls_total", operation="put") == 2
    assert value("calls_total", operation="get") == 3
    for operation in ("put_stream", "get_ranges", "head", "copy", "delete"):
        assert value("calls_total", operation=operation) == 1
        assert value("call_seconds_count", operation=operation) == 1
    assert value("errors_total", operation="put", error="Conflict") == 1
    assert value("errors_total", operation="get", error="NotFound") == 1
    assert value("errors_total", operation="get", error="NotModified") == 0


async def test_retries_and_settled_writes_show(registry: CollectorRegistry, runtime: SystemRuntime) -> None:
    lost = Fault(Strike.AFTER, frozenset({"put"}), calls=frozenset({1}))
    store, metrics = metered(registry, runtime, lost)
    await store.put("a", b"", CREATE)
    labels = {"backend": "memory"}
    assert registry.get_sample_value("slate_store_retries_total", {**labels, "operation": "put"}) == 1
    assert registry.get_sample_value("slate_store_settled_writes_total", {**labels, "verdict": "won"}) == 1
    # One call, but two requests on the bill: the PUT, and the HEAD that settled it.
    assert registry.get_sample_value("slate_store_calls_total", {**labels, "operation": "put"}) == 1
    assert (metrics.requests[Request.PUT], metrics.requests[Request.HEAD]) == (1, 1)
    sample = {**labels, "request": "put", "class": "a"}
    assert registry.get_sample_value("slate_store_requests_total", sample) == 1


def test_a_registry_is_asked_once(registry: CollectorRegistry, tmp_path: Path) -> None:
    assert StoreMetrics.of(registry) is StoreMetrics.of(registry)
    for number in range(3):
        open_store(f"{tmp_path.as_uri()}/{number}", registry=registry)
    open_store("memory://")
    open_store("memory://")


def test_prices() -> None:
    tally = Tally()
    for request, times in ((Request.PUT, 600), (Request.POST, 200), (Request.LIST, 150), (Request.COPY, 50)):
        tally.count(request, times)
    tally.count(Request.GET, 900)
    tally.count(Request.HEAD, 100)
    tally.count(Request.DELETE, 1_000_000)
    cost = price(tally.requests, S3_STANDARD)
    assert (cost.class_a, cost.class_b, cost.transfer) == pytest.approx((0.005, 0.0004, 0.0))
    assert cost.total == pytest.approx(0.0054)
    assert price(tally.requests, R2).total == pytest.approx(0.00486)
    express = price(tally.requests, S3_EXPRESS, bytes_up=10 << 30, bytes_down=20 << 30)
    assert express.total == pytest.approx(0.00113 + 0.00003 + 0.032 + 0.012)


def test_known_bills() -> None:
    """An idle database of 0.14.1: 5.57 GET and 2.86 LIST a second, for a month of 30 days."""
    month = 30 * 24 * 3600
    bill = price({Request.GET: round(5.57 * month), Request.LIST: round(2.86 * month)}, S3_STANDARD)
    assert bill.total == pytest.approx(42.8, abs=0.1)
    scan = price({Request.GET: 15_360}, S3_STANDARD)
    assert scan.total == pytest.approx(0.006, abs=0.0002)
