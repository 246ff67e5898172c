"""What becomes of objects at the API server: what it fills in, what it shows, what comes back to the models."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from slate_operator.api.checkpoint import Checkpoint, CheckpointStatus
from slate_operator.api.clone import Clone, CloneStatus
from slate_operator.api.conditions import Condition
from slate_operator.api.database import Blocker, Contention, DatabaseStatus, Deletion, Endpoints, SlateDatabase
from slate_operator.api.resource import Resource
from slate_operator.api.schedule import CheckpointSchedule, ScheduleStatus
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.api.objects import Body, Objects, Refused, body

NOW = "2026-11-17T10:00:00Z"
READY = Condition(
    type="Ready",
    status="True",
    reason="Serving",
    message="It is all well.",
    last_transition_time=NOW,
    observed_generation=1,
)
SPECS: dict[type[Resource], Body] = {
    SlateDatabase: {"store": {"url": "s3://shop/orders"}},
    Checkpoint: {"databaseRef": {"name": "orders"}, "scope": {"all": {}}},
    Clone: {"source": {"databaseRef": {"name": "orders"}}},
    CheckpointSchedule: {"schedule": "@daily", "template": {"spec": {"databaseRef": {"name": "orders"}}}},
}
STATUSES: dict[type[Resource], DatabaseStatus | CheckpointStatus | CloneStatus | ScheduleStatus] = {
    SlateDatabase: DatabaseStatus(
        observed_generation=1,
        conditions=(READY,),
        phase="Running",
        image="slate:1",
        manifest_id=42,
        writer_epoch=7,
        compactor_epoch=2,
        l0=1,
        sorted_runs=3,
        size_bytes=5_000_000_000,
        size="5.0 GB",
        checkpoints=4,
        estimated_monthly_cost="$0.12",
        endpoints=Endpoints(writer="orders.default.svc:6379", admin="https://orders-admin.default.svc:8080"),
        reader_replicas=2,
        selector="slatekeeper.io/database=orders",
        rotated="1",
        contention=Contention(epochs=(6, 7), seen_at=(NOW, NOW), backing_off_until=NOW, attempts=1),
        deletion=Deletion(
            requested_at=NOW, deadline=NOW, blocked_by=(Blocker(kind="Checkpoint", name="x", message="!"),)
        ),
    ),
    Checkpoint: CheckpointStatus(
        observed_generation=1,
        conditions=(READY,),
        phase="Ready",
        id="0b0c7dc0-6d2a-4e27-9d5b-2f3c1d0a9e11",
        manifest_id=41,
        created_at=NOW,
        expires_at=NOW,
        pinned_bytes=10,
        lifetime="7d",
        used_by=("Clone/x",),
    ),
    Clone: CloneStatus(
        observed_generation=1,
        conditions=(READY,),
        phase="Ready",
        database_ref="staging",
        source_database="orders",
        url="s3://shop/staging",
        parent_checkpoint_id="x",
        attached=True,
        shared_bytes=3,
    ),
    CheckpointSchedule: ScheduleStatus(
        observed_generation=1, conditions=(READY,), last_run=NOW, next_run="2026-11-18T00:00:00Z", last_checkpoint="c"
    ),
}


@pytest.fixture(scope="module")
def objects(kinds: ApiServer) -> Iterator[Objects]:
    """One object of each kind, called ``life``."""
    found = Objects(kinds)
    for kind, spec in SPECS.items():
        found.create(kind, body(kind, spec, "life"))
    yield found
    for kind in SPECS:
        found.delete(kind, "life")


@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.__name__)
def test_the_server_fills_in_what_the_models_would(objects: Objects, kind: type[Resource]) -> None:
    stored = objects.get(kind, "life")
    written = kind.of(body(kind, SPECS[kind], "life"))
    read = kind.of(stored)
    assert read.spec == written.spec  # type: ignore[attr-defined]
    assert stored["status"] == {"observedGeneration": -1}, "nobody has looked at it yet, and that can be seen"
    assert read.status.observed_generation == -1  # type: ignore[attr-defined]


def test_the_defaults_of_a_database(objects: Objects) -> None:
    assert objects.get(SlateDatabase, "life")["spec"] == {
        "store": {"url": "s3://shop/orders"},
        "writer": {"mode": "Server", "service": {"type": "ClusterIP"}, "auth": {"tls": True}},
        "readers": {"replicas": 0, "pollInterval": "1s"},
        "compactor": {"enabled": True},
        "gc": {"interval": "5m", "minAge": "5m"},
        "deletionPolicy": "Retain",
        "deleteGrace": "7d",
        "deletionProtection": False,
        "paused": False,
        "hibernated": False,
        "monitoring": {"podMonitor": False},
        "networkPolicies": {"enabled": True},
    }


def test_the_defaults_of_a_schedule(objects: Objects) -> None:
    assert objects.get(CheckpointSchedule, "life")["spec"] == {
        "schedule": "@daily",
        "timeZone": "Etc/UTC",
        "suspend": False,
        "concurrencyPolicy": "Allow",
        "startingDeadlineSeconds": 3600,
        "successfulHistoryLimit": 3,
        "failedHistoryLimit": 1,
        "template": {"spec": {"databaseRef": {"name": "orders"}, "deletionPolicy": "Delete"}},
    }


@pytest.mark.parametrize("kind", STATUSES, ids=lambda kind: kind.__name__)
def test_a_whole_status_comes_back_as_it_was(objects: Objects, kind: type[Resource]) -> None:
    status = STATUSES[kind]
    written = status.model_dump(by_alias=True, mode="json", exclude_none=True)
    objects.set_status(kind, "life", written)
    stored = objects.get(kind, "life")
    assert stored["status"] == written, "a field that the schema does not know would be gone"
    assert stored["metadata"]["generation"] == 1, "a status is no change of what is wanted"
    assert kind.of(stored).status == status  # type: ignore[attr-defined]


def test_two_conditions_of_a_type_are_refused(objects: Objects) -> None:
    twice = {"observedGeneration": 1, "conditions": [READY.model_dump(by_alias=True)] * 2}
    with pytest.raises(Refused, match="Duplicate value"):
        objects.set_status(Clone, "life", twice)


def test_kubectl_get_shows_what_matters(kinds: ApiServer, objects: Objects) -> None:
    for kind, status in STATUSES.items():
        objects.set_status(kind, "life", status.model_dump(by_alias=True, mode="json", exclude_none=True))
    tables = {
        "sdb": (
            ["NAME", "READY", "PHASE", "EPOCH", "MANIFEST", "SIZE", "CHECKPOINTS", "POLICY", "AGE"],
            ["life", "True", "Running", "7", "42", "5.0 GB", "4", "Retain"],
        ),
        "scp": (
            ["NAME", "READY", "DATABASE", "ID", "MANIFEST", "EXPIRES", "AGE"],
            ["life", "True", "orders", "0b0c7dc0-6d2a-4e27-9d5b-2f3c1d0a9e11", "41", NOW],
        ),
        "scl": (
            ["NAME", "READY", "SOURCE", "DATABASE", "ATTACHED", "AGE"],
            ["life", "True", "orders", "staging", "true"],
        ),
        "scs": (
            ["NAME", "SCHEDULE", "DATABASE", "SUSPENDED", "LAST", "NEXT", "AGE"],
            ["life", "@daily", "orders", "false"],
        ),
    }
    for short, (header, row) in tables.items():
        shown = kinds.kubectl("get", short, "life").splitlines()
        assert shown[0].split() == header
        assert [cell.strip() for cell in shown[1].split("   ") if cell.strip()][: len(row)] == row
        assert "It is all well." in kinds.kubectl("get", short, "life", "-o", "wide")
    assert kinds.kubectl("get", "slate", "-o", "name").split() == [
        "checkpoint.slatekeeper.io/life",
        "checkpointschedule.slatekeeper.io/life",
        "clone.slatekeeper.io/life",
        "slatedatabase.slatekeeper.io/life",
    ]


def test_objects_are_found_by_their_fields(kinds: ApiServer, objects: Objects) -> None:
    for which, other in (
        ("scp,spec.databaseRef.name=orders", "scp,spec.databaseRef.name=others"),
        ("scs,spec.template.spec.databaseRef.name=orders", "scs,spec.template.spec.databaseRef.name=others"),
        ("sdb,spec.deletionPolicy=Retain", "sdb,spec.deletionPolicy=Destroy"),
    ):
        for asked, found in ((which, True), (other, False)):
            kind, selector = asked.split(",")
            assert ("/life" in kinds.kubectl("get", kind, "--field-selector", selector, "-o", "name")) is found


def test_readers_are_scaled(kinds: ApiServer, objects: Objects) -> None:
    objects.set_status(
        SlateDatabase, "life", {"observedGeneration": 1, "readerReplicas": 1, "selector": "slatekeeper.io/role=reader"}
    )
    kinds.kubectl("scale", "sdb/life", "--replicas=3")
    assert objects.get(SlateDatabase, "life")["spec"]["readers"]["replicas"] == 3
    scale = json.loads(
        kinds.kubectl("get", "--raw", "/apis/slatekeeper.io/v1alpha1/namespaces/default/slatedatabases/life/scale")
    )
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 1, "selector": "slatekeeper.io/role=reader"}


def test_kubectl_explain_reads_like_documentation(kinds: ApiServer) -> None:
    assert "A SlateDB database in object storage" in kinds.kubectl("explain", "sdb")
    bootstrap = " ".join(kinds.kubectl("explain", "sdb.spec.bootstrap").split())
    assert "At most one of the fields is given" in bootstrap
    assert "The database that is there already, such as one that a SlateDB writer made." in bootstrap
    policy = " ".join(kinds.kubectl("explain", "sdb.spec.deletionPolicy").split())
    assert "Retain: they stay." in policy
    assert "Default: Retain." in policy
