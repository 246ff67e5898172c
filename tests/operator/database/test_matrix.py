"""Deletion in every phase, under every policy, with every change of mind on the way.

The safety rules are checked after every single look: bytes are deleted only where the path is marked as ours and the policy
in force says so; an object is released only when what its policy promises has happened. And it always ends, or says what
holds it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from slate_operator.admin.database import CheckpointFacts
from slate_operator.names import DELETION_BLOCKED, STALLED, Role
from slate_operator.reconcile.deletion import finish
from slate_operator.reconcile.observed import Answer, Ask, Relatives, Work
from tests.operator.build.samples import NOW, SMALL
from tests.operator.database.stage import OURS, STRANGER, Bucket, Stage, living

POLICIES = ("Retain", "SoftDestroy", "Destroy")
GRACE = 600.0
KEPT = CheckpointFacts("0b7f2a8e-1111-4222-8333-444455556666", "backup", 3, int(NOW), None)


def spec_of(policy: str) -> dict[str, object]:
    return SMALL | {"deletionPolicy": policy, "deleteGrace": "10m"}


def fresh(policy: str) -> Stage:
    """The object was made a moment ago."""
    return Stage(spec_of(policy)).look()


def starting(policy: str) -> Stage:
    """The collector is not up yet."""
    stage = Stage(spec_of(policy), pods_start=False, bucket=Bucket(reached=False)).look(2)
    assert not stage.pods.get(Role.GC)
    return stage


def refused(policy: str) -> Stage:
    """The path belongs to somebody else, and so do the bytes."""
    return Stage(spec_of(policy), bucket=Bucket(owner=STRANGER, state="alive")).look(3)


def claimed(policy: str) -> Stage:
    """Claimed, but no writer has made a database yet."""
    stage = Stage(spec_of(policy) | {"writer": {"mode": "External"}}).look(3)
    assert stage.bucket.owner == OURS
    assert stage.bucket.state is None
    return stage


def alive(policy: str) -> Stage:
    return living(spec_of(policy))


def hibernated(policy: str) -> Stage:
    return living(spec_of(policy)).edit(hibernated=True).look(2)


def kept(policy: str) -> Stage:
    """A checkpoint needs it."""
    stage = living(spec_of(policy))
    stage.bucket.checkpoints.append(KEPT)
    return stage


def lost(policy: str) -> Stage:
    """Somebody has emptied the bucket."""
    stage = living(spec_of(policy))
    stage.bucket.state = stage.bucket.owner = None
    return stage.look()


def destroyed(policy: str) -> Stage:
    """Somebody has destroyed it by the command."""
    stage = living(spec_of(policy))
    stage.bucket.state, stage.bucket.destroyed_at = "destroyed", int(stage.now)
    return stage.look()


PHASES: tuple[Callable[[str], Stage], ...] = (
    fresh,
    starting,
    refused,
    claimed,
    alive,
    hibernated,
    kept,
    lost,
    destroyed,
)


def check(stage: Stage, before: Bucket, policy: str) -> None:
    """After one look, made under this policy."""
    new = stage.bucket.done[len(before.done) :]
    for done in new:
        if done.startswith("destroy"):
            assert policy != "Retain", "bytes were touched under the policy Retain"
            assert before.owner == OURS, "bytes were touched that are somebody else's"
        if done == "destroy hard":
            assert before.state in ("destroyed", "under construction"), "it was deleted without being marked first"
            grace = GRACE if policy == "SoftDestroy" else 0.0
            assert stage.draft is not None
            assert stage.draft.seen.now >= (before.destroyed_at or 0) + grace, "its grace was not over"
            assert not before.checkpoints, "somebody still needs it"
    if stage.gone and policy != "Retain" and before.owner == OURS:
        assert stage.bucket.state is None, "released, but the bytes are there"
    if stage.gone and policy == "Retain":
        assert not any(stage.pods.values()), "released, but pods run"
        assert stage.bucket.state != "destroyed" or before.owner != OURS, "released, but a reaper would take its bytes"
    if not stage.gone:
        assert stage.status["deletion"]["requestedAt"]
        assert stage.blocked_by, "it waits, and does not say for what"
        for blocker in stage.status["deletion"]["blockedBy"]:
            assert len(blocker["message"]) > 10
        assert stage.outcome.again_in is not None, "nobody would ever look again"


def looked(stage: Stage) -> None:
    before = replace(stage.bucket, done=list(stage.bucket.done))
    stage.look()
    check(stage, before, stage.spec["deletionPolicy"])


def run(stage: Stage, *, most: int = 60) -> Stage:
    """Until it is gone, or held by what time alone does not change."""
    for _ in range(most):
        if stage.gone or stage.blocked_by == ["Checkpoint"]:
            return stage
        looked(stage)
    return stage


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_deletion_comes_to_its_end_or_says_why_not(policy: str, phase: Callable[[str], Stage]) -> None:
    stage = phase(policy)
    owned, state = stage.bucket.owner == OURS, stage.bucket.state
    stage.pods_start = True
    stage.bucket.reached = True
    run(stage.delete())
    if policy != "Retain" and phase is kept:
        assert stage.blocked_by == ["Checkpoint"]
        stage.bucket.checkpoints.clear()
        looked(stage)
        run(stage)
    assert stage.gone, stage.status["deletion"]
    if policy == "Retain" or not owned:
        # Bytes that are to stay stay usable: also those that somebody had marked as destroyed.
        expected = "alive" if state == "destroyed" and owned else state
        assert stage.bucket.state == expected
        assert "destroy hard" not in stage.bucket.done
    else:
        assert stage.bucket.state is None
    assert stage.bucket.owner != OURS, "the path stays marked"


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_a_changed_mind_is_followed_at_every_moment(phase: Callable[[str], Stage]) -> None:
    """Every policy, turned into every other after every number of looks."""
    for first, second, after in itertools.product(POLICIES, POLICIES, (0, 1, 2, 3, 5)):
        stage = phase(first)
        stage.pods_start = stage.bucket.reached = True
        stage.delete()
        for _ in range(after):
            if not stage.gone:
                looked(stage)
        if stage.gone:
            continue
        alive_before = stage.bucket.state is not None
        looked(stage.edit(deletionPolicy=second))
        run(stage)
        if phase is kept and second != "Retain" and not stage.gone:
            assert stage.blocked_by == ["Checkpoint"], (first, second, after)
            looked(stage.edit(deletionPolicy="Retain"))
            run(stage)
            second = "Retain"
        assert stage.gone, (first, second, after, stage.status["deletion"])
        if first == "Retain" and second != "Retain" and "release" in stage.bucket.done and stage.bucket.state:
            assert [each.reason for each in stage.outcome.events] == ["BytesStay"], "given back, so not destroyed"
        if second == "Retain" and alive_before:
            assert stage.bucket.state in ("alive", None if phase is lost else "alive"), (first, second, after)


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("reached", [True, False])
def test_a_namespace_that_goes_is_never_held_up(policy: str, phase: Callable[[str], Stage], reached: bool) -> None:
    stage = phase(policy)
    was, owned = stage.bucket.state, stage.bucket.owner == OURS
    stage.namespace_terminating = True
    stage.bucket.reached = reached
    stage.deployments, stage.pods = {}, {}
    began = stage.delete().now
    stage.look(40)
    assert stage.gone
    assert stage.now - began < 60
    assert not stage.applied, "nothing can be made in such a namespace"
    assert stage.outcome.events, "the user is told what became of the bytes"
    if owned and reached and was in ("alive", "destroyed"):
        assert stage.bucket.state == ("alive" if policy == "Retain" else "destroyed")
    else:
        assert stage.bucket.state == was
    assert "destroy hard" not in stage.bucket.done


@pytest.mark.parametrize("policy", POLICIES)
def test_a_namespace_ends_its_pods_first_and_that_is_the_moment(policy: str) -> None:
    """The object is deleted when they are gone, and by then nobody answers any more."""
    stage = alive(policy)
    stage.namespace_terminating = True
    assert stage.runs(Role.GC)
    stage.look(3)
    assert stage.bucket.state == ("alive" if policy == "Retain" else "destroyed")
    assert stage.finalizers == []
    stage.bucket.reached = False
    stage.deployments, stage.pods = {}, {}
    stage.look()
    assert stage.finalizers == [], "it is not taken up again"
    assert stage.outcome.events == []
    assert stage.delete().gone


@pytest.mark.parametrize("policy", POLICIES)
def test_protection_holds_a_deletion_and_stops_nothing(policy: str) -> None:
    stage = living(spec_of(policy) | {"deletionProtection": True}).delete().look(5)
    assert not stage.gone
    assert stage.blocked_by == ["Protection"]
    assert stage.runs(Role.WRITER)
    assert not any(done.startswith("destroy") for done in stage.bucket.done)
    run(stage.edit(deletionProtection=False))
    assert stage.gone


@pytest.mark.parametrize("policy", POLICIES)
def test_a_pause_holds_a_deletion(policy: str) -> None:
    stage = living(spec_of(policy)).edit(paused=True).delete().look(3)
    assert stage.blocked_by == ["Protection"]
    assert stage.runs(Role.WRITER)
    run(stage.edit(paused=False))
    assert stage.gone


@pytest.mark.parametrize("policy", ["SoftDestroy", "Destroy"])
def test_bytes_that_nobody_reaches_hold_the_object_until_the_user_lets_go(policy: str) -> None:
    stage = living(spec_of(policy)).delete()
    stage.bucket.reached = False
    stage.look(20)
    assert stage.blocked_by == ["Pods"]
    assert "Retain" in stage.status["deletion"]["blockedBy"][0]["message"]
    stage.missing_secrets = ["bucket"]
    stage.look()
    assert stage.blocked_by == ["Storage"]
    assert "Secret bucket is missing" in stage.status["deletion"]["blockedBy"][0]["message"]
    run(stage.edit(deletionPolicy="Retain"))
    assert stage.gone
    assert stage.bucket.state == "alive"
    assert stage.bucket.owner == OURS, "nobody could take the mark off"


def test_an_operator_that_was_away_goes_by_the_time_in_the_bucket() -> None:
    stage = living(spec_of("SoftDestroy")).delete().look(3)
    assert stage.bucket.state == "destroyed"
    assert stage.bucket.destroyed_at is not None
    assert stage.status["deletion"]["deadline"] is not None
    stage.status = {}  # and it has forgotten everything
    stage.now = stage.bucket.destroyed_at + GRACE - 10
    stage.look()
    assert not stage.gone
    assert stage.blocked_by == ["Grace"]
    stage.now = stage.bucket.destroyed_at + 30 * 86400.0
    run(stage)
    assert stage.gone
    assert stage.bucket.state is None


def test_a_writer_may_finish_before_it_is_fenced_but_not_for_ever() -> None:
    stage = living(spec_of("Destroy")).delete()
    stage.look()
    assert stage.bucket.done == []
    writer = stage.pods.get(Role.WRITER)
    for _ in range(2):
        stage.pods[Role.WRITER] = writer or [{"metadata": {"name": "stuck"}, "status": {}}]
        stage.now = (stage.deleted_at or 0) + 61
        stage.look()
    assert "destroy soft" in stage.bucket.done


def test_blockers_are_named_by_their_objects() -> None:
    stage = living(spec_of("Destroy"))
    clone = CheckpointFacts("0b7f2a8e-2222-4222-8333-444455556666", "clone copies/one", 3, int(NOW), None)
    stray = CheckpointFacts("0b7f2a8e-3333-4222-8333-444455556666", None, 3, int(NOW), int(NOW) + 86400)
    over = CheckpointFacts("0b7f2a8e-4444-4222-8333-444455556666", None, 3, int(NOW), int(NOW) - 1)
    read = CheckpointFacts("0b7f2a8e-5555-4222-8333-444455556666", "bulk read lake", 3, int(NOW), int(NOW) + 86400)
    stage.bucket.checkpoints = [KEPT, clone, stray, over, read]
    stage.relatives = Relatives(
        checkpoints=[{"metadata": {"name": "nightly", "uid": KEPT.id}}],
        databases=[{"metadata": {"name": "copy"}, "spec": {"store": {"url": "s3://shop/copies/one"}}}],
        clones=[{"metadata": {"name": "staging"}, "status": {"databaseRef": "copy"}}],
    )
    stage.delete().look(6)
    blocked = stage.condition(DELETION_BLOCKED)
    assert blocked is not None
    assert blocked.reason == "InvalidDeletion", "Destroy is asked for, and may not be"
    looked(stage.edit(deletionPolicy="SoftDestroy"))
    blocked = stage.condition(DELETION_BLOCKED)
    assert blocked is not None
    assert blocked.reason == "Grace"
    looked(stage.edit(deletionPolicy="Destroy"))
    named = [(each["kind"], each["name"]) for each in stage.status["deletion"]["blockedBy"]]
    assert named == [("Checkpoint", "nightly"), ("Clone", "staging"), ("Checkpoint", stray.id), ("BulkRead", "lake")]


def test_who_undeletes_it_by_the_command_is_waited_for() -> None:
    """The collector refuses to delete for a minute what somebody is bringing back; then it does, if nobody did."""
    stage = living(spec_of("Destroy")).delete()
    stage.look(3)
    assert stage.bucket.state == "destroyed"
    stage.bucket.failing = "the database is not deleted, because somebody began to undelete it"
    looked(stage)
    assert stage.blocked_by == ["Storage"]
    assert stage.condition(STALLED) is None
    blocked = stage.condition(DELETION_BLOCKED)
    assert blocked is not None
    assert "somebody began to undelete it" in blocked.message
    stage.bucket.failing, refused = "", stage.now
    run(stage)
    assert stage.gone
    assert stage.bucket.state is None
    assert stage.now - refused < 90, "it was asked again too late"


class Old(Bucket):
    """Its collector is of an image that does not know every field of a request."""

    old = True

    def answer(self, ask: Ask, now: float) -> Answer:
        if self.old and isinstance(ask, Work) and "destroyed_at_s" in dict(ask.arguments):
            words = "work.destroy.destroyed_at_s: Extra inputs are not permitted"
            return Answer(problem="invalid-document", words=words)
        return super().answer(ask, now)


def test_an_image_that_is_too_old_to_delete_is_told_and_what_to_do() -> None:
    bucket = Old()
    stage = living(spec_of("Destroy") | {"image": "slate:1"}, bucket=bucket).delete()
    for _ in range(6):
        looked(stage)
    assert stage.blocked_by == ["Image"]
    (blocker,) = stage.status["deletion"]["blockedBy"]
    assert blocker["name"] == "slate:1"
    assert f"set spec.image to a newer one, such as {stage.default_image}" in blocker["message"]
    assert "deletionPolicy to Retain" in blocker["message"]
    assert "Extra inputs" not in blocker["message"]
    blocked = stage.condition(DELETION_BLOCKED)
    assert blocked is not None
    assert blocked.reason == "Image"
    assert (stage.outcome.again_in or 0.0) >= 60.0, "asking again and again makes it no newer"
    bucket.old = False
    run(stage.edit(image="slate:2"))
    assert stage.gone
    assert bucket.state is None


class ReadOnly(Bucket):
    """Its store answers questions, and takes nothing."""

    shut = False

    def answer(self, ask: Ask, now: float) -> Answer:
        if self.shut and isinstance(ask, Work):
            return Answer(problem="store-unavailable", words="the store takes no writes now")
        return super().answer(ask, now)


@pytest.mark.parametrize("looks", [1, 3], ids=["before the mark", "after it"])
def test_work_that_is_not_taken_is_not_asked_for_every_second(looks: int) -> None:
    bucket = ReadOnly()
    stage = living(spec_of("Destroy"), bucket=bucket).delete().look(looks)
    bucket.shut = True
    for _ in range(3):
        looked(stage)
    assert "takes no writes" in stage.status["deletion"]["blockedBy"][0]["message"]
    assert (stage.outcome.again_in or 0.0) >= 15.0
    bucket.shut = False
    run(stage)
    assert stage.gone


# --- each rule, switched off, is missed -------------------------------------------------------------------------------


def test_without_the_grace_the_matrix_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slate_operator.reconcile.deletion.grace_of", lambda database: 0.0)
    with pytest.raises(AssertionError, match="its grace was not over"):
        run(alive("SoftDestroy").delete())


def test_without_the_look_at_the_mark_the_matrix_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slate_operator.reconcile.draft.Draft.whose", lambda draft: (Answer(), OURS))
    with pytest.raises(AssertionError, match="somebody else's"):
        run(refused("Destroy").delete())


def test_without_the_look_at_checkpoints_the_matrix_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slate_operator.reconcile.deletion._block_by", lambda seen, draft, checkpoint: None)
    with pytest.raises(AssertionError, match="somebody still needs it"):
        run(kept("Destroy").delete())


def test_without_waiting_for_the_bytes_the_matrix_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slate_operator.reconcile.deletion._wait", lambda seen, draft, facts: finish(seen, draft))
    with pytest.raises(AssertionError, match="the bytes are there"):
        run(alive("Destroy").delete())
