"""A change wakes those who may have to do something about it, and nobody else."""

from __future__ import annotations

from typing import Any

from slate_operator.kube.cache import Cache
from slate_operator.kube.cluster import BULK_READS, CHECKPOINTS, CLONES, DATABASES, DEPLOYMENTS, SCHEDULES, Key, Kind
from slate_operator.names import LABEL_DATABASE, LABEL_SCHEDULE
from slate_operator.wakes import OURS, wakes

Object = dict[str, Any]


def made(name: str, spec: Object | None = None, *, labels: Object | None = None, **status: Any) -> Object:
    metadata = {"name": name, "namespace": "shop", "uid": name, "generation": 1, "resourceVersion": "1"}
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": spec or {}, "status": status}


def known() -> Cache:
    cache = Cache(OURS)
    reference = {"name": "orders"}
    cache.put(DATABASES, made("orders"))
    cache.put(DATABASES, made("other"))
    cache.put(DATABASES, made("copy", {"bootstrap": {"clone": {"databaseRef": reference}}}))
    cache.put(DATABASES, made("kept", {"bootstrap": {"clone": {"checkpointRef": {"name": "monday"}}}}))
    cache.put(CHECKPOINTS, made("monday", {"databaseRef": reference}, labels={LABEL_SCHEDULE: "daily"}))
    cache.put(CHECKPOINTS, made("again", {"databaseRef": reference, "source": {"checkpointRef": {"name": "monday"}}}))
    cache.put(CHECKPOINTS, made("elsewhere", {"databaseRef": {"name": "other"}}))
    cache.put(CLONES, made("staging", {"source": {"checkpointRef": {"name": "monday"}}}))
    cache.put(CLONES, made("testing", {"source": {"databaseRef": reference}, "databaseName": "qa"}))
    cache.put(SCHEDULES, made("daily", {"template": {"spec": {"databaseRef": reference}}}))
    return cache


def woken(kind: Kind, old: Object | None, new: Object | None) -> set[str]:
    body = new or old
    assert body is not None
    key = Key("shop", body["metadata"]["name"])
    return {f"{item.kind.plural}/{item.key.name}" for item in wakes(kind, key, old, new, known())}


FOLLOWERS = {
    "slatedatabases/copy",
    "checkpoints/monday",
    "checkpoints/again",
    "clones/testing",
    "checkpointschedules/daily",
}


def test_a_database_wakes_itself_and_all_that_name_it() -> None:
    assert woken(DATABASES, None, made("orders")) == {"slatedatabases/orders"} | FOLLOWERS
    assert woken(DATABASES, made("orders"), None) == {"slatedatabases/orders"} | FOLLOWERS


def test_its_own_status_does_not_wake_it_but_what_others_see_of_it_wakes_them() -> None:
    ready = made("orders", conditions=[{"type": "Ready", "status": "True", "reason": "Serving"}])
    assert woken(DATABASES, made("orders"), ready) == FOLLOWERS


def test_facts_that_change_all_the_time_wake_nobody() -> None:
    assert (
        woken(DATABASES, made("orders", sizeBytes=1, manifestId=1), made("orders", sizeBytes=2, manifestId=2)) == set()
    )


def test_a_new_generation_a_label_a_finalizer_or_a_deletion_wakes_it() -> None:
    for field, value in [
        ("generation", 2),
        ("labels", {"a": "b"}),
        ("annotations", {"a": "b"}),
        ("finalizers", ["x"]),
        ("deletionTimestamp", "now"),
    ]:
        changed = made("orders")
        changed["metadata"][field] = value
        assert "slatedatabases/orders" in woken(DATABASES, made("orders"), changed), field


def test_a_checkpoint_wakes_its_database_its_schedule_and_those_made_from_it() -> None:
    monday = made("monday", {"databaseRef": {"name": "orders"}}, labels={LABEL_SCHEDULE: "daily"})
    assert woken(CHECKPOINTS, None, monday) == {
        "checkpoints/monday",
        "slatedatabases/orders",
        "checkpointschedules/daily",
        "checkpoints/again",
        "clones/staging",
        "slatedatabases/kept",
    }


def test_what_has_begun_wakes_the_checkpoint_that_it_came_from() -> None:
    kept = {"bootstrap": {"clone": {"checkpointRef": {"name": "monday"}}}}
    assert woken(DATABASES, made("kept", kept), made("kept", kept, manifestId=1)) == {"checkpoints/monday"}
    assert woken(DATABASES, made("kept", kept, manifestId=1), made("kept", kept, manifestId=2)) == set()
    assert "checkpoints/monday" in woken(DATABASES, made("kept", kept), None)
    again = {"databaseRef": {"name": "orders"}, "source": {"checkpointRef": {"name": "monday"}}}
    told = woken(CHECKPOINTS, made("again", again), made("again", again, id="again", phase="Ready"))
    assert told == {"checkpoints/monday", "slatedatabases/orders"}
    staging = {"source": {"checkpointRef": {"name": "monday"}}}
    held = woken(CLONES, made("staging", staging), made("staging", staging, parentCheckpointId="x"))
    assert "checkpoints/monday" in held


def test_a_clone_wakes_its_source_and_what_it_makes() -> None:
    clone = made("testing", {"source": {"databaseRef": {"name": "orders"}}, "databaseName": "qa"})
    assert woken(CLONES, None, clone) == {"clones/testing", "slatedatabases/orders", "slatedatabases/qa"}


def test_a_bulk_read_wakes_its_checkpoint_and_its_database() -> None:
    spec = {"checkpointRef": {"name": "monday"}}
    before, after = made("lake", spec, state="Running", database="orders"), made("lake", spec, state="Succeeded")
    assert woken(BULK_READS, before, after) == {"checkpoints/monday"}
    assert woken(BULK_READS, after, before) == {"checkpoints/monday", "slatedatabases/orders"}
    assert woken(BULK_READS, before, made("lake", spec, state="Running", database="orders", rows=1)) == set()


def test_what_is_made_for_a_database_wakes_it() -> None:
    child = made("orders-writer", labels={LABEL_DATABASE: "orders"})
    assert woken(DEPLOYMENTS, child, child) == {"slatedatabases/orders"}
    assert woken(DEPLOYMENTS, None, made("somebody-elses")) == set()
