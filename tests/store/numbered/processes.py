"""Numbered objects as a process has them, and what the tests do with them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from slate_engine.store.boundary import Boundary, BoundaryMetrics
from slate_engine.store.numbered import NumberedObjects
from slate_engine.store.protocol import ObjectStore
from tests.store.two_phase.doubles import ManualRuntime


def manifests(
    store: ObjectStore, clock: ManualRuntime, name: str = "manifest", registry: CollectorRegistry | None = None
) -> NumberedObjects:
    """As one process has them: with a boundary and a memory of its own."""
    metrics = BoundaryMetrics.of(registry or CollectorRegistry())
    return NumberedObjects(store, f"db/{name}", name, Boundary(store, "db", name, clock, metrics=metrics), clock)


def unbounded(store: ObjectStore, clock: ManualRuntime, name: str = "manifest") -> NumberedObjects:
    return NumberedObjects(store, f"db/{name}", name, None, clock)


async def fill(objects: NumberedObjects, last: int, first: int = 1) -> None:
    for id in range(first, last + 1):
        await objects.create_next(id - 1, b"state %d" % id)


async def newest(objects: NumberedObjects) -> tuple[int, bytes] | None:
    found = await objects.latest()
    return None if found is None else (found.id, bytes(found.data))
