"""The life of a database: how it begins, what runs when, and what its status says. Plans only; nothing is real here."""

from __future__ import annotations

from typing import Any

import pytest

from slate_operator import names
from slate_operator.admin.database import OperationFacts, Owner
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.database import SlateDatabase
from slate_operator.clock import seconds_of, stamp
from slate_operator.kube.cluster import DEPLOYMENTS, SERVICE_ACCOUNTS
from slate_operator.names import ANNOTATION_SECRET, ANNOTATION_TAKE, Role
from slate_operator.reconcile.database import needs
from slate_operator.reconcile.observed import Answer, Ask, Claim, Look, Origin, Work
from slate_operator.reconcile.rollout import explained
from tests.operator.build.samples import SMALL, UID, body_of
from tests.operator.database.stage import OURS, STRANGER, Bucket, Stage, living

SERVING = (Role.WRITER, Role.COMPACTOR, Role.READER)


def said(stage: Stage, type: str) -> tuple[str, str]:
    found = stage.condition(type)
    return ("", "") if found is None else (found.status, found.reason)


# --- order ------------------------------------------------------------------------------------------------------------


def test_the_collector_comes_first_and_the_claim_before_all_others() -> None:
    stage = Stage(SMALL)
    stage.look()
    assert stage.finalizers == [names.FINALIZER_DATABASE]
    assert list(stage.deployments) == [Role.GC]
    assert stage.asked == []
    assert said(stage, names.READY)[0] == "False"
    assert said(stage, names.RECONCILING) == ("True", "Starting")

    stage.look()
    assert stage.bucket.owner == OURS
    assert set(stage.deployments) == {Role.GC, Role.WRITER, Role.COMPACTOR}

    stage.look(2)
    assert said(stage, names.READY) == ("True", "Ready")
    assert stage.condition(names.RECONCILING) is None
    assert stage.condition(names.STALLED) is None
    assert stage.status["phase"] == "Ready"
    assert stage.status["endpoints"] == {
        "writer": "orders.shop.svc.cluster.local:6379",
        "admin": "https://orders-admin.shop.svc.cluster.local:8080",
    }
    assert (stage.status["manifestId"], stage.status["size"]) == (7, "2.0 KiB")


def test_nothing_changes_in_a_steady_state() -> None:
    stage = living(SMALL | {"readers": {"replicas": 2}}).look(2)
    before = stage.status
    stage.look(3)
    assert stage.status == before
    assert stage.outcome.events == []
    assert stage.outcome.again_in is None


def test_ready_is_said_of_the_pods_that_run_the_present_spec() -> None:
    stage = living(SMALL)
    stage.pods_start = False
    stage.edit(gc={"interval": "1m"}).look()
    assert said(stage, names.GC_READY) == ("False", "RollingOut")
    assert said(stage, names.READY)[0] == "False"
    stage.pods_start = True
    stage.look(2)
    assert said(stage, names.READY)[0] == "True"


def test_without_a_collector_nobody_else_starts_but_those_who_run_go_on() -> None:
    stage = Stage(SMALL, bucket=Bucket(reached=False)).look(5)
    assert list(stage.deployments) == [Role.GC]
    assert said(stage, names.READY) == ("False", "NotClaimed")

    stage = living(SMALL)
    stage.bucket.reached = False
    stage.edit(writer={"resources": {"requests": {"cpu": "1"}}}).look(3)
    assert all(stage.runs(role) for role in (Role.WRITER, Role.COMPACTOR))
    assert stage.deployments[Role.WRITER]["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert said(stage, names.OWNED)[0] == "True"
    assert said(stage, names.READY) == ("False", "NotAnswering")
    assert stage.status["manifestId"] == 7, "what was known stays known"


def test_a_token_that_is_not_taken_for_a_moment_stops_no_writer() -> None:
    stage = living(SMALL)
    stage.bucket.problem = "unauthorized"
    stage.look(2)
    assert stage.runs(Role.WRITER)


# --- whose it is ------------------------------------------------------------------------------------------------------


def test_a_path_of_somebody_elses_is_left_alone() -> None:
    stage = Stage(SMALL, bucket=Bucket(owner=STRANGER, state="alive")).look(4)
    assert list(stage.deployments) == [Role.GC]
    assert said(stage, names.OWNED) == ("False", "OwnedByAnother")
    assert said(stage, names.STALLED) == ("True", "OwnedByAnother")
    assert ANNOTATION_TAKE in stage.condition(names.READY).message  # type: ignore[union-attr]
    assert stage.status["phase"] == "Stalled"

    stage.spec = stage.spec | {"bootstrap": {"adopt": {}}}
    stage.annotations = {ANNOTATION_TAKE: STRANGER.uid}
    stage.look(3)
    assert stage.bucket.owner == OURS
    assert said(stage, names.READY)[0] == "True"


def test_a_database_whose_log_is_elsewhere_is_not_adopted() -> None:
    bucket = Bucket(state="alive", log_trouble="the WAL is probably in another store")
    stage = Stage(SMALL | {"bootstrap": {"adopt": {}}}, bucket=bucket).look(4)
    assert list(stage.deployments) == [Role.GC]
    assert bucket.owner is None
    assert said(stage, names.OWNED) == ("False", "WalMissing")
    assert said(stage, names.STALLED) == ("True", "WalMissing")
    told = stage.condition(names.READY).message  # type: ignore[union-attr]
    assert "probably in another store" in told
    assert "SLATE_STORE__WAL_URL" in told

    bucket.log_trouble = None
    stage.look(3)
    assert said(stage, names.READY)[0] == "True"


def test_a_log_that_is_lost_later_is_told_by_the_object() -> None:
    stage = living(SMALL)
    stage.bucket.log_trouble = "wal truncated at wal file 7"
    stage.look(2)
    assert said(stage, names.READY) == ("False", "WalMissing")
    assert "wal file 7" in stage.condition(names.READY).message  # type: ignore[union-attr]
    assert stage.runs(Role.WRITER), "it goes on writing, if it can"


def test_one_that_loses_its_path_stops_what_it_runs() -> None:
    stage = living(SMALL)
    stage.bucket.owner = STRANGER
    stage.look(2)
    assert not stage.runs(Role.WRITER)
    assert stage.runs(Role.GC)


@pytest.mark.parametrize(
    ("bootstrap", "there", "reason"),
    [
        ({}, "alive", "DatabaseExists"),
        ({"empty": {}}, "destroyed", "Destroyed"),
        ({"adopt": {}}, None, "NoDatabase"),
        ({"adopt": {}}, "destroyed", "Destroyed"),
        ({"recover": {}}, None, "NoDatabase"),
    ],
)
def test_what_is_there_has_to_be_what_was_expected(bootstrap: dict[str, Any], there: str | None, reason: str) -> None:
    stage = Stage(SMALL | {"bootstrap": bootstrap}, bucket=Bucket(state=there, destroyed_at=1)).look(4)
    assert said(stage, names.STALLED) == ("True", reason)
    assert list(stage.deployments) == [Role.GC]
    assert stage.bucket.owner is None


# --- how it begins ----------------------------------------------------------------------------------------------------


def test_an_existing_database_is_adopted() -> None:
    stage = living(SMALL | {"bootstrap": {"adopt": {}}}, bucket=Bucket(state="alive", epoch=41))
    assert said(stage, names.READY)[0] == "True"
    assert stage.status["writerEpoch"] == 41


def test_a_destroyed_one_is_recovered_once() -> None:
    bucket = Bucket(state="destroyed", destroyed_at=1)
    stage = living(SMALL | {"bootstrap": {"recover": {}}}, bucket=bucket)
    assert bucket.done == ["undelete"]
    assert said(stage, names.READY)[0] == "True"
    bucket.state, bucket.destroyed_at = "destroyed", int(stage.now)
    stage.look(3)
    assert said(stage, names.STALLED) == ("True", "Destroyed")
    assert not stage.runs(Role.WRITER)
    halted = stage.condition(names.READY)
    assert halted is not None
    assert "kubectl slate undelete orders" in halted.message
    assert stamp(int(bucket.destroyed_at) + 7 * 86400) in halted.message, "and until when"
    # What the command does: a wish is fulfilled once, and a database that is destroyed again stays so.
    stage.annotations[names.ANNOTATION_BRING_BACK] = "one"
    stage.look(2)
    assert bucket.state == "alive"
    assert stage.runs(Role.WRITER)
    bucket.state, bucket.destroyed_at = "destroyed", int(stage.now)
    stage.look(3)
    assert bucket.state == "destroyed"
    assert said(stage, names.STALLED) == ("True", "Destroyed")
    stage.annotations[names.ANNOTATION_BRING_BACK] = "two"
    stage.look(2)
    assert bucket.state == "alive"


def test_what_cannot_be_brought_back_is_told_and_can_be_tried_again() -> None:
    bucket = Bucket(state="destroyed", destroyed_at=1, failing="an object is gone")
    stage = Stage(SMALL | {"bootstrap": {"recover": {}}}, bucket=bucket).look(4)
    halted = stage.condition(names.READY)
    assert halted is not None
    assert halted.reason == "NotRecovered"
    assert "kubectl slate undelete" in halted.message
    bucket.failing = ""
    stage.annotations[names.ANNOTATION_BRING_BACK] = "now"
    stage.look(2)
    assert bucket.state == "alive"


@pytest.mark.parametrize("wish", [None, "now"])
def test_what_took_too_long_to_bring_back_is_tried_again_by_itself(wish: str | None) -> None:
    bucket = Bucket(state="destroyed", destroyed_at=1, failing="it took too long; try again", failing_status=503)
    stage = Stage(SMALL | {"bootstrap": {"recover": {}}}, bucket=bucket)
    if wish is not None:
        stage.annotations[names.ANNOTATION_BRING_BACK] = wish
    stage.look(4)
    halted = stage.condition(names.READY)
    assert halted is not None
    assert halted.reason == "Recovering"
    assert "it took too long" in halted.message
    assert stage.condition(names.STALLED) is None
    bucket.failing = ""
    began = stage.now
    stage.look(3)
    assert bucket.state == "alive"
    assert stage.now - began < 200


def test_a_secret_that_is_missing_is_looked_for() -> None:
    stage = living(SMALL)
    stage.missing_secrets = ["bucket"]
    stage.look()
    assert (stage.outcome.again_in or 1e9) <= 30


def test_bytes_that_vanish_are_not_replaced_by_an_empty_database() -> None:
    for owner in (OURS, None):
        stage = living(SMALL)
        stage.bucket.state, stage.bucket.owner = None, owner
        stage.look()
        assert said(stage, names.STALLED) == ("True", "DataMissing")
        assert not stage.runs(Role.WRITER)


@pytest.mark.parametrize("owner", [None, OURS])
@pytest.mark.parametrize(("manifest_id", "epoch"), [(2, 1), (49, 4), (60, 1)])
@pytest.mark.parametrize("state", ["alive", "destroyed", "under construction"])
def test_another_database_in_the_place_of_ours_is_not_taken_for_it(
    owner: Owner | None, manifest_id: int, epoch: int, state: str
) -> None:
    """Such as the empty one that the writer's pod makes when it starts and all objects are gone."""
    stage = living(SMALL, bucket=Bucket(manifest_id=50, epoch=4)).look(2)
    bucket = stage.bucket
    bucket.owner, bucket.state, bucket.manifest_id, bucket.epoch, bucket.destroyed_at = (
        owner,
        state,
        manifest_id,
        epoch,
        1,
    )
    stage.look(4)
    assert said(stage, names.STALLED) == ("True", "DataMissing")
    assert said(stage, names.READY) == ("False", "DataMissing")
    assert not stage.runs(Role.WRITER)
    assert bucket.owner == owner, "it is not claimed"
    assert bucket.done == []
    told = stage.condition(names.READY).message  # type: ignore[union-attr]
    assert "at manifest 50, writer epoch 4;" in told
    assert f"at manifest {manifest_id}, writer epoch {epoch}." in told
    assert "Restore the bucket" in told
    assert "bootstrap.adopt" in told
    assert (stage.status["manifestId"], stage.status["writerEpoch"]) == (50, 4)
    assert "destroyedAt" not in stage.status

    bucket.owner, bucket.state, bucket.manifest_id, bucket.epoch, bucket.destroyed_at = None, "alive", 51, 5, None
    stage.look(3)
    assert bucket.owner == OURS
    assert said(stage, names.READY) == ("True", "Ready")
    assert stage.status["manifestId"] == 51


def test_an_object_that_found_another_database_lets_it_stay_when_it_is_deleted() -> None:
    stage = living(SMALL | {"deletionPolicy": "Destroy"}, bucket=Bucket(manifest_id=50)).look(2)
    bucket = stage.bucket
    bucket.owner, bucket.manifest_id = None, 2
    stage.look(2).delete().look(4)
    assert stage.gone
    assert bucket.state == "alive"
    assert bucket.done == []


def test_nothing_is_claimed_before_it_is_known_what_is_there() -> None:
    """The collector cannot read the manifest for a moment, and then it can."""
    stage = living(SMALL, bucket=Bucket(manifest_id=50)).look(2)
    stage.bucket.owner, stage.bucket.manifest_id = None, 2
    stage.bucket.problem = "store-unavailable"
    stage.look()
    assert not any(isinstance(ask, Claim) for ask in stage.asked)
    assert stage.runs(Role.WRITER)
    stage.bucket.problem = ""
    stage.look(2)
    assert stage.bucket.owner is None
    assert not stage.runs(Role.WRITER)


def test_what_another_object_has_at_the_path_is_not_told_as_ours() -> None:
    stage = living(SMALL, bucket=Bucket(manifest_id=50)).look(2)
    stage.bucket.owner, stage.bucket.manifest_id = STRANGER, 80
    stage.bucket.state, stage.bucket.destroyed_at = "destroyed", 1
    stage.look(2)
    assert said(stage, names.STALLED) == ("True", "OwnedByAnother")
    assert stage.status["manifestId"] == 50
    assert "destroyedAt" not in stage.status


def source(conditions: tuple[str, ...] = ("Ready",), url: str = "s3://shop/source") -> SlateDatabase:
    body = body_of({"store": {"url": url}}, name="source")
    told = [{"type": type, "status": "True", "reason": type} for type in conditions]
    return SlateDatabase.of({**body, "status": {"conditions": told}})


CLONE = SMALL | {"bootstrap": {"clone": {"databaseRef": {"name": "source"}}}}


@pytest.mark.parametrize(
    ("origin", "reason"),
    [
        (Origin(missing="SlateDatabase source"), "SourceMissing"),
        (Origin(source(conditions=())), "SourceNotReady"),
        (Origin(source(url="s3://elsewhere/source")), "OtherStore"),
    ],
)
def test_a_clone_waits_for_its_source(origin: Origin, reason: str) -> None:
    stage = Stage(CLONE, origin=origin).look(4)
    assert said(stage, names.READY) == ("False", reason)
    assert stage.bucket.done == []
    assert list(stage.deployments) == [Role.GC]


def test_a_clone_is_made_by_its_source_under_its_own_uid() -> None:
    checkpoint = Checkpoint.of(
        {
            "metadata": {"name": "nightly", "namespace": "shop"},
            "spec": {"databaseRef": {"name": "source"}},
            "status": {"id": "c0ffee", "conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]},
        }
    )
    stage = Stage(CLONE, origin=Origin(source(), checkpoint))
    stage.look(2)
    (work,) = [ask for ask in stage.asked if isinstance(ask, Work)]
    assert work == Work(UID, "clone", (("checkpoint", "c0ffee"), ("target", "orders")), of_source=True)
    assert stage.condition(names.READY).reason == "Cloning"  # type: ignore[union-attr]
    stage.look(3)
    assert said(stage, names.READY)[0] == "True"
    assert stage.bucket.done == ["clone"]


def test_half_a_clone_is_finished_and_not_taken_for_a_database() -> None:
    stage = Stage(CLONE, origin=Origin(source()), bucket=Bucket(owner=OURS, state="under construction"))
    stage.look(2)
    assert "manifestId" not in stage.status
    assert not stage.runs(Role.WRITER)
    stage.look(3)
    assert stage.bucket.done == ["clone"]
    assert said(stage, names.READY)[0] == "True"


def test_a_clone_that_failed_says_why() -> None:
    stage = Stage(CLONE, origin=Origin(source()), bucket=Bucket(failing="the checkpoint has expired")).look(3)
    assert said(stage, names.STALLED) == ("True", "CloneFailed")
    assert "the checkpoint has expired" in stage.condition(names.READY).message  # type: ignore[union-attr]


# --- what runs --------------------------------------------------------------------------------------------------------


def test_hibernation_stops_all_but_the_collector() -> None:
    stage = living(SMALL | {"readers": {"replicas": 2}}).edit(hibernated=True).look(2)
    assert [role for role in Role.ALL if stage.runs(role)] == [Role.GC]
    assert said(stage, names.HIBERNATED) == ("True", "Asked")
    assert said(stage, names.READY) == ("False", "Hibernated")
    assert stage.status["phase"] == "Hibernated"
    assert not any(event.warning for event in stage.outcome.events)
    stage.edit(hibernated=False).look(3)
    assert said(stage, names.READY)[0] == "True"
    assert stage.condition(names.HIBERNATED) is None


def test_a_pause_changes_nothing_and_says_so() -> None:
    stage = living(SMALL)
    generation = stage.generation
    stage.edit(paused=True, readers={"replicas": 5}).look(2)
    assert stage.applied == []
    assert stage.outcome.keep_generation
    assert "writer" in stage.status["endpoints"]
    assert said(stage, names.PAUSED)[0] == "True"
    assert said(stage, names.READY)[0] == "True", "what was said before stays said"
    assert stage.status["phase"] == "Paused"
    assert stage.generation > generation
    stage.edit(paused=False).look(2)
    assert stage.condition(names.PAUSED) is None
    assert len(stage.pods[Role.READER]) == 5


@pytest.mark.parametrize(("mode", "runs"), [("Server", True), ("Image", True), ("External", False)])
def test_the_modes_of_the_writer(mode: str, runs: bool) -> None:
    writer = {"mode": mode} | ({"image": "mine:1"} if mode == "Image" else {})
    stage = living(SMALL | {"writer": writer})
    assert stage.runs(Role.WRITER) is runs
    if mode == "External":
        assert said(stage, names.READY) == ("False", "NoDatabase")
        stage.bucket.state = "alive"
        stage.look()
    assert said(stage, names.READY)[0] == "True"
    assert ("writer" in stage.status["endpoints"]) is (mode == "Server")


def test_a_writer_that_moves_out_is_taken_away() -> None:
    stage = living(SMALL).edit(writer={"mode": "External"}).look()
    assert Role.WRITER not in stage.deployments
    assert stage.draft is not None
    removed = {f"{kind.kind} {key.name}" for kind, key in stage.draft.removals}
    assert removed == {
        "Service orders",
        "ConfigMap orders-writer",
        "NetworkPolicy orders-writer",
        "Deployment orders-writer",
        "PodMonitor orders",
    }
    stage.look()
    assert stage.draft.removals == []


@pytest.mark.parametrize("reason", names.GIVEN_UP)
def test_what_a_look_that_was_given_up_did_not_take_away_goes_with_the_next(reason: str) -> None:
    """Its status is about the new spec already, though not all of that was done."""
    stage = living(SMALL | {"networkPolicies": {"enabled": True}}).edit(networkPolicies={"enabled": False})
    given_up = {"type": names.READY, "status": "False", "reason": reason, "message": "quota", "lastTransitionTime": ""}
    others = [each for each in stage.status["conditions"] if each["type"] != names.READY]
    stage.status |= {"observedGeneration": stage.generation, "conditions": [*others, given_up]}
    stage.look()
    assert stage.draft is not None
    removed = {f"{kind.kind} {key.name}" for kind, key in stage.draft.removals}
    assert {"NetworkPolicy orders-gc", "NetworkPolicy orders-writer", "NetworkPolicy orders-compactor"} <= removed
    stage.look()
    assert stage.draft.removals == []


def test_readers_and_compactor_follow_the_spec() -> None:
    stage = living(SMALL | {"readers": {"replicas": 2}})
    assert len(stage.pods[Role.READER]) == stage.status["readerReplicas"] == 2
    assert stage.status["selector"] == "slatekeeper.io/database=orders,slatekeeper.io/role=reader"
    stage.edit(readers={"replicas": 0}, compactor={"enabled": False}).look(3)
    assert not stage.runs(Role.READER)
    assert Role.COMPACTOR not in stage.deployments
    assert stage.condition(names.COMPACTOR_READY) is None
    assert said(stage, names.READY)[0] == "True"


def test_another_operator_brings_no_other_image() -> None:
    stage = living(SMALL)
    first = stage.status["image"]
    stage.default_image = "registry.example/slate:9"
    stage.look(2)
    assert stage.status["image"] == first
    assert _images(stage) == {first}
    stage.edit(image="registry.example/slate:8").look()
    assert _images(stage) == {"registry.example/slate:8"}
    stage.edit(image=None).look()
    assert _images(stage) == {first}, "who takes his own image back has the one of before"


def _images(stage: Stage) -> set[str]:
    return {each["spec"]["template"]["spec"]["containers"][0]["image"] for each in stage.deployments.values()}


def test_without_any_image_it_says_so() -> None:
    stage = Stage(SMALL, default_image="").look()
    assert stage.deployments == {}
    assert said(stage, names.STALLED) == ("True", "NoImage")


# --- secrets ----------------------------------------------------------------------------------------------------------

KEYED = {"store": {"url": "s3://shop/orders", "secretRef": {"name": "bucket"}}}


def version(stage: Stage, role: str) -> str | None:
    found: dict[str, str] = stage.deployments[role]["spec"]["template"]["metadata"]["annotations"]
    return found.get(ANNOTATION_SECRET)


def test_a_new_version_of_the_secret_rolls_the_pods_and_a_missing_one_does_not() -> None:
    stage = living(KEYED, secret_versions=["5"])
    assert version(stage, Role.WRITER) == "5"
    stage.secret_versions = ["6"]
    stage.look()
    assert version(stage, Role.WRITER) == version(stage, Role.GC) == "6"
    stage.secret_versions, stage.missing_secrets = [], ["bucket"]
    stage.look(2)
    assert version(stage, Role.WRITER) == "6"
    assert stage.runs(Role.WRITER), "pods that run have it in their environment"
    assert said(stage, names.READY) == ("False", "SecretMissing"), "and those that come next have not"
    stage.bucket.problem = "store-unavailable"
    stage.look()
    assert said(stage, names.STORAGE_AVAILABLE)[0] == "False"
    assert stage.runs(Role.WRITER)


def test_a_secret_that_was_never_there_is_named() -> None:
    stage = Stage(KEYED, missing_secrets=["bucket"], bucket=Bucket(reached=False), pods_start=False).look(2)
    found = stage.condition(names.STORAGE_AVAILABLE)
    assert found is not None
    assert (found.status, found.reason) == ("False", "SecretMissing")
    assert "Secret bucket" in found.message


# --- rivals -----------------------------------------------------------------------------------------------------------


def started(container: str, at: str, restarts: int) -> dict[str, Any]:
    return {"name": container, "state": {"running": {"startedAt": at}}, "restartCount": restarts, "ready": True}


def fight(stage: Stage, rounds: int) -> None:
    """Somebody takes the database; our writer ends, is started again, and takes it back."""
    for number in range(rounds):
        if not stage.runs(Role.WRITER):
            return
        stage.bucket.epoch += 2
        at = f"2027-01-15T08:{number + 1:02}:00Z"
        stage.pods[Role.WRITER][0]["status"] = {"containerStatuses": [started("slate", at, number + 1)]}
        stage.now += 60
        stage.look()


def test_a_fight_is_noticed_and_our_writer_gives_way_for_a_while() -> None:
    stage = living(SMALL)
    fight(stage, 6)
    assert said(stage, names.CONTENDED) == ("True", "BackingOff")
    assert not stage.runs(Role.WRITER)
    assert stage.runs(Role.COMPACTOR)
    assert said(stage, names.READY) == ("False", "BackingOff")
    assert stage.status["phase"] == "Contended"
    rests_until = stage.status["contention"]["backingOffUntil"]
    stage.now -= stage.outcome.again_in or 0
    stage.bucket.epoch += 10  # the other one has it for himself now
    stage.now += 5
    stage.look()
    assert stage.status["contention"]["backingOffUntil"] == rests_until
    stage.now += 3600
    stage.look()
    assert stage.runs(Role.WRITER), "it tries again"
    assert said(stage, names.CONTENDED) == ("Unknown", "TryingAgain")
    assert stage.status["contention"]["attempts"] == 1
    stage.now += 3600
    stage.look(2)
    assert stage.condition(names.CONTENDED) is None


def test_our_own_starts_are_no_fight() -> None:
    stage = living(SMALL)
    for number in range(12):
        assert stage.runs(Role.WRITER)
        stage.bucket.epoch += 1
        at = f"2027-01-15T08:{number + 1:02}:00Z"
        stage.pods[Role.WRITER][0]["status"] = {"containerStatuses": [started("slate", at, number + 1)]}
        stage.now += 60
        stage.look()
    assert stage.condition(names.CONTENDED) is None


def test_what_is_remembered_of_starts_does_not_grow() -> None:
    """A writer that ends before it takes an epoch, and a sidecar that ends all the time, for three hours."""
    stage = living(SMALL)
    since = seconds_of("2027-01-15T08:00:00Z")
    for minute in range(180):
        stage.now = since + 60 * minute
        at = stamp(stage.now - 5)
        statuses = [started("slate", at, minute), started("sidecar", stamp(stage.now - 3), minute)]
        stage.pods[Role.WRITER][0]["status"] = {"containerStatuses": statuses}
        stage.look()
        assert len(stage.status["contention"].get("starts", ())) <= 20
    assert stamp(stage.now - 3) not in stage.status["contention"]["starts"], "a sidecar takes no epochs"
    assert stage.condition(names.CONTENDED) is None


def test_without_counting_our_starts_that_would_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slate_operator.reconcile.contention.starts_of", lambda pods: set())
    with pytest.raises(AssertionError):
        test_our_own_starts_are_no_fight()


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]},
            "ImagePullBackOff",
            "no such image",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}]},
            "Unschedulable",
            "0/3",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                        "lastState": {
                            "terminated": {"exitCode": 1, "message": 'one\n{"message": "the setting is unknown"}\n'}
                        },
                    }
                ]
            },
            "CrashLoopBackOff",
            "the setting is unknown",
        ),
    ],
)
def test_the_reason_of_a_pod_is_the_reason_of_the_database(status: dict[str, Any], reason: str, words: str) -> None:
    stage = living(SMALL)
    stage.pods_start = False
    stage.edit(image="other").look()
    stage.pods[Role.WRITER] = [{"metadata": {"name": "orders-writer-x"}, "status": status}]
    stage.look()
    found = stage.condition(names.WRITER_READY)
    assert found is not None
    assert (found.status, found.reason) == ("False", reason)
    assert words in found.message


def test_a_secret_in_the_last_words_of_a_pod_is_not_told_on() -> None:
    ended = {"exitCode": 1, "message": "cannot sign in: AWS_SECRET_ACCESS_KEY=swordfish, region=eu"}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    pod = {"containerStatuses": [{"state": waiting, "lastState": {"terminated": ended}}]}
    found = explained([{"metadata": {"name": "orders-writer-x"}, "status": pod}])
    assert found is not None
    assert "swordfish" not in found[1]
    assert "cannot sign in" in found[1]
    assert "region=eu" in found[1]


def test_a_running_operation_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = living(SMALL | {"deletionPolicy": "Destroy"}).delete()
    slow = Bucket.answer

    def running(bucket: Bucket, ask: Ask, now: float) -> Answer:
        return Answer(OperationFacts(ask.id, "running")) if isinstance(ask, Work) else slow(bucket, ask, now)

    monkeypatch.setattr(Bucket, "answer", running)
    stage.look(4)
    assert not stage.gone
    assert stage.blocked_by == ["Storage"]
    assert Look() in stage.asked


def test_pods_whose_template_takes_the_account_away_run_with_the_default_one() -> None:
    without = {"podTemplate": {"spec": {"serviceAccountName": None}}}
    stage = Stage(SMALL | {"gc": without}).look()
    assert stage.draft is not None
    (collector,) = (body for kind, body in stage.draft.applies if kind == DEPLOYMENTS)
    assert (SERVICE_ACCOUNTS, "default") in needs(collector)
