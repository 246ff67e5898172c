"""A namespace as kubectl tells it: a database in service, one cloned from it, checkpoints by hand and by schedule."""

from __future__ import annotations

from typing import Any

from slate_operator.names import API_VERSION, LABEL_DATABASE, LABEL_ROLE, LABEL_SCHEDULE

Body = dict[str, Any]
NOW = 1_795_000_000.0  # 2026-11-18T11:06:40Z
EARLIER = "2026-11-18T10:06:40Z"
LATER = "2026-11-20T11:06:40Z"


def condition(type: str, status: str, reason: str, message: str = "") -> Body:
    return {"type": type, "status": status, "reason": reason, "message": message, "lastTransitionTime": EARLIER}


def body(kind: str, name: str, spec: Body, status: Body | None = None, **metadata: Any) -> Body:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "shop",
            "generation": 1,
            "creationTimestamp": "2026-11-15T11:06:40Z",
            **metadata,
        },
        "spec": spec,
        "status": {"observedGeneration": 1, **(status or {})},
    }


def ready(phase: str = "Ready") -> Body:
    return {"phase": phase, "conditions": [condition("Ready", "True", "Serving")]}


def pod(name: str, role: str, database: str = "orders", **status: Any) -> Body:
    well = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {LABEL_DATABASE: database, LABEL_ROLE: role},
            "creationTimestamp": "2026-11-18T11:03:40Z",
        },
        "status": {**well, **status},
    }


def warning(
    kind: str, name: str, reason: str, message: str, last: str = "2026-11-18T11:05:40Z", count: int = 1
) -> Body:
    return {
        "involvedObject": {"kind": kind, "name": name, "namespace": "shop"},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": last,
        "count": count,
    }


ORDERS = body(
    "SlateDatabase",
    "orders",
    {"store": {"url": "s3://shop/orders"}, "deletionPolicy": "SoftDestroy", "readers": {"replicas": 1}},
    {
        **ready("Running"),
        "sizeBytes": 3 << 30,
        "manifestId": 42,
        "writerEpoch": 7,
        "l0": 2,
        "sortedRuns": 1,
        "estimatedMonthlyCost": "$0.07",
        "endpoints": {"writer": "orders.shop.svc:6379", "readers": "orders-readers.shop.svc:6379"},
    },
)
STAGING = body(
    "SlateDatabase", "staging", {"store": {"url": "s3://shop/staging"}}, {**ready("Running"), "sizeBytes": 4 << 30}
)
CLONE = body(
    "Clone",
    "staging",
    {"source": {"checkpointRef": {"name": "before-sale"}}},
    {
        **ready(),
        "databaseRef": "staging",
        "sourceDatabase": "orders",
        "attached": True,
        "sharedBytes": 3 << 30,
        "url": "s3://shop/staging",
    },
)
BEFORE_SALE = body(
    "Checkpoint",
    "before-sale",
    {"databaseRef": {"name": "orders"}},
    {**ready(), "id": "0b0c", "manifestId": 41, "pinnedBytes": 1 << 30, "usedBy": ["Clone/staging"]},
)
LAST_NIGHT = body(
    "Checkpoint",
    "nightly-29916000",
    {"databaseRef": {"name": "orders"}},
    {**ready(), "id": "1c1d", "manifestId": 40, "expiresAt": LATER},
    labels={LABEL_SCHEDULE: "nightly"},
)
NIGHTLY = body(
    "CheckpointSchedule",
    "nightly",
    {"schedule": "0 3 * * *", "template": {"spec": {"databaseRef": {"name": "orders"}}}},
    {"nextRun": "2026-11-19T03:00:00Z", "conditions": [condition("Ready", "True", "Scheduled")]},
)
TO_LAKE = body(
    "BulkRead",
    "to-lake",
    {"checkpointRef": {"name": "before-sale"}, "sink": {"url": "s3://lake/orders"}},
    {
        "state": "Succeeded",
        "rows": 1840220,
        "application": "to-lake-read-1",
        "database": "orders",
        "conditions": [condition("Ready", "True", "Succeeded")],
    },
)
ALL = (ORDERS, STAGING, CLONE, BEFORE_SALE, LAST_NIGHT, NIGHTLY, TO_LAKE)
PODS = (
    pod("orders-gc-6f-aaaaa", "gc"),
    pod("orders-writer-7d-bbbbb", "writer"),
    pod("orders-readers-5c-ccccc", "reader"),
    pod("orders-compactor-4b-ddddd", "compactor"),
)
