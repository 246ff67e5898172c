"""What `why` says: everything once, causes first, and nothing where nothing is wrong."""

from __future__ import annotations

from slate_operator.plugin.reasons import Finding, reasons, troubled
from slate_operator.plugin.view import View
from tests.operator.plugin import shop
from tests.operator.plugin.shop import Body, condition


def why(*conditions: Body, pods: tuple[Body, ...] = (), events: tuple[Body, ...] = (), **more: object) -> list[Finding]:
    status = {"conditions": list(conditions), **{key: value for key, value in more.items() if key != "metadata"}}
    metadata = more.get("metadata", {})
    assert isinstance(metadata, dict)
    made = shop.body("SlateDatabase", "orders", shop.ORDERS["spec"], status, **metadata)
    view = View.of([made], pods, events)
    return reasons(view, view.database("orders"), shop.NOW)


def test_nothing_is_wrong() -> None:
    view = View.of(shop.ALL, shop.PODS)
    assert troubled(view, shop.NOW) == []
    assert reasons(view, view.database("orders"), shop.NOW) == []


def test_a_condition_is_told_once_and_before_their_sum() -> None:
    words = "Secret keys is missing: create it."
    found = why(
        condition("Ready", "False", "StorageUnavailable", words),
        condition("StorageAvailable", "False", "SecretMissing", words),
        condition("WriterReady", "True", "Running"),
    )
    assert [(each.reason, each.message, each.blocks) for each in found] == [
        ("SecretMissing", f"StorageAvailable: {words}", True)
    ]


def test_what_is_under_way_is_in_nobodys_way() -> None:
    words = "0 of 1 are available"
    found = why(
        condition("Ready", "False", "RollingOut", f"WriterReady: {words}"),
        condition("Reconciling", "True", "RollingOut", f"WriterReady: {words}"),
        condition("WriterReady", "False", "RollingOut", words),
    )
    assert [(each.message, each.blocks) for each in found] == [(f"WriterReady: {words}", False)]


def test_what_is_bad_when_true() -> None:
    found = why(
        condition("Ready", "True", "Serving"),
        condition("Contended", "True", "EpochsRace", "Another writer is at work; stop it."),
        condition("Hibernated", "True", "Asked", "Only the collector runs."),
        condition("Attached", "False", "Detached"),
    )
    assert [(each.reason, each.blocks) for each in found] == [("EpochsRace", True), ("Asked", False)]


def test_pods_say_what_the_kubelet_says() -> None:
    pulling = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "slate:9"'}}
    crashing = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
    last_words = 'starting\n{"level": "error", "message": "fenced by epoch 8"}\n'
    before = {"terminated": {"reason": "Error", "exitCode": 6, "message": last_words}}
    found = why(
        condition("Ready", "True", "Serving"),
        pods=(
            shop.pod("a", "writer", conditions=[], containerStatuses=[{"state": pulling, "restartCount": 0}]),
            shop.pod("b", "compactor", conditions=[], containerStatuses=[{"state": crashing, "lastState": before}]),
            shop.pod(
                "c",
                "reader",
                phase="Pending",
                conditions=[
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
                ],
            ),
            shop.pod("d", "gc", phase="Pending", conditions=[]),
        ),
    )
    assert [(each.about, each.message, each.blocks) for each in found] == [
        ("Pod a", 'ImagePullBackOff: Back-off pulling image "slate:9"', True),
        ("Pod b", "CrashLoopBackOff: back-off 40s; it ended before: Error, code 6, fenced by epoch 8", True),
        ("Pod c", "Unschedulable: 0/3 nodes", True),
        ("Pod d", "not ready yet (Pending)", False),
    ]


def test_a_deletion_names_what_holds_it() -> None:
    words = "Checkpoint before-sale: Delete it, or wait."
    found = why(
        condition("Ready", "False", "Deleting", f"it is being deleted and waits for {words}"),
        condition("Reconciling", "True", "Deleting", f"it is being deleted and waits for {words}"),
        condition("DeletionBlocked", "True", "Checkpoint", words),
        metadata={"deletionTimestamp": shop.EARLIER, "finalizers": ["slatekeeper.io/database-released"]},
        deletion={
            "requestedAt": shop.EARLIER,
            "deadline": shop.LATER,
            "blockedBy": [{"kind": "Checkpoint", "name": "before-sale", "message": "Delete it, or wait."}],
        },
    )
    assert found[0].reason == "Deleting"
    assert "the grace ends in 2d" in found[0].message
    assert "kubectl slate undelete" in found[0].message
    assert found[1:] == [Finding("Checkpoint before-sale", "BlocksDeletion", "Delete it, or wait.")]


def test_a_checkpoint_that_is_needed_is_not_deleted() -> None:
    held = shop.body(
        "Checkpoint",
        "x",
        {"databaseRef": {"name": "orders"}},
        {"conditions": [condition("DeletionBlocked", "True", "InUse", "Clone/staging still needs it")]},
        deletionTimestamp=shop.EARLIER,
        finalizers=["slatekeeper.io/checkpoint-released"],
    )
    view = View.of([shop.ORDERS, held])
    found = reasons(view, view.checkpoints[0], shop.NOW)
    assert [(each.reason, each.blocks) for each in found] == [("Deleting", False), ("InUse", True)]
    assert found[1].message == "DeletionBlocked: Clone/staging still needs it"


def test_an_operator_that_does_not_look() -> None:
    found = why(observedGeneration=-1)
    assert "the operator has not looked at it yet" in found[0].message
    assert found[0].blocks
    found = why(condition("Ready", "True", "Serving"), metadata={"generation": 2})
    assert "has not looked at its last change yet" in found[0].message
    found = why(condition("Paused", "True", "Asked", "It is paused."), metadata={"generation": 2})
    assert [each.reason for each in found] == ["Asked"], "a pause explains it"


def test_events_of_the_family_and_of_this_hour() -> None:
    found = why(
        condition("Ready", "False", "Crashing", "It crashes."),
        pods=(shop.pod("orders-gc-6f-aaaaa", "gc", conditions=[]), shop.PODS[1]),
        events=(
            shop.warning("SlateDatabase", "orders", "NotReleased", "An older word.", last="2026-11-18T10:55:40Z"),
            shop.warning("SlateDatabase", "orders", "NotReleased", "The mark stays.", count=3),
            shop.warning("SlateDatabase", "orders", "Crashing", "Ready: It crashed."),
            shop.warning("Pod", "orders-gc-6f-aaaaa", "Unhealthy", "Readiness probe failed."),
            shop.warning("Pod", "another", "Unhealthy", "Not ours."),
            shop.warning("Pod", "orders-writer-7d-bbbbb", "Unhealthy", "It is ready now."),
            shop.warning("SlateDatabase", "orders", "Old", "Long ago.", last="2026-11-17T11:00:00Z"),
        ),
    )
    assert [(each.reason, each.message) for each in found] == [
        ("Crashing", "It crashes."),
        ("gc", "not ready yet (Running)"),
        ("NotReleased", "The mark stays. (1m ago, 3 times)"),
        ("Unhealthy", "Readiness probe failed. (1m ago)"),
    ]


def test_a_checkpoint_has_the_trouble_of_its_database() -> None:
    database = shop.body(
        "SlateDatabase",
        "orders",
        shop.ORDERS["spec"],
        {"conditions": [condition("Owned", "False", "OwnedByAnother", "It belongs to shop2/orders.")]},
    )
    waiting = shop.body(
        "Checkpoint",
        "x",
        {"databaseRef": {"name": "orders"}},
        {"conditions": [condition("Ready", "False", "DatabaseNotReady", "It waits for its database.")]},
    )
    view = View.of([database, waiting])
    told = {thing.metadata.name: found for thing, found in troubled(view, shop.NOW)}
    assert [each.reason for each in told["x"]] == ["DatabaseNotReady", "OwnedByAnother"]
    assert [each.about for each in told["orders"]] == ["SlateDatabase orders", "Checkpoint x"]
