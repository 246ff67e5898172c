"""Who sets the policy Retain during the grace of a deletion gets his bytes back, whatever is broken at that moment; and what
protects an object protects its bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slate_operator.admin.database import OperationFacts
from slate_operator.clock import seconds_of, stamp
from slate_operator.names import FINALIZER_DATABASE, READY, STALLED, Role
from slate_operator.reconcile.observed import Answer, Ask, Destroying, Look, Work
from tests.operator.database.stage import OURS, STRANGER, Bucket, Stage, living
from tests.operator.database.test_matrix import alive, destroyed, looked, run, spec_of

DAY = 86400.0


def in_grace(policy: str = "SoftDestroy") -> Stage:
    """Deleted, marked, and within its grace."""
    stage = living(spec_of(policy) | {"deleteGrace": "7d"}).delete().look(5)
    assert stage.bucket.state == "destroyed"
    return stage


def by_command(policy: str = "SoftDestroy") -> Stage:
    """Somebody has destroyed it with the command; then the object was deleted."""
    return destroyed(policy).delete()


def by_command_and_silent(policy: str = "SoftDestroy") -> Stage:
    """The same, and nobody answered any more by then."""
    stage = destroyed(policy)
    stage.bucket.reached = False
    return stage.look(3).delete()


def not_recovered() -> Stage:
    """Destroyed by the command while it was protected, and could not be brought back. Then nobody answered, the protection
    was lifted and the object deleted."""
    stage = living(spec_of("SoftDestroy") | {"deletionProtection": True})
    bucket = stage.bucket
    bucket.state, bucket.destroyed_at, bucket.epoch = "destroyed", int(stage.now), bucket.epoch + 1
    bucket.failing = "the manifest cannot be written"
    stage.look(2)
    told = stage.condition(READY)
    assert told is not None
    assert told.reason == "NotRecovered"
    bucket.reached = False
    stage.look(2).edit(deletionProtection=False).delete()
    bucket.failing = ""
    return stage


def by_an_older_operator() -> Stage:
    """Which did not write down since when."""
    stage = destroyed("SoftDestroy")
    stage.status.pop("destroyedAt", None)
    return stage.delete()


def without_collector() -> Stage:
    """And its collector's Deployment is gone."""
    stage = in_grace()
    del stage.deployments[Role.GC]
    stage.pods[Role.GC] = []
    return stage


def paused() -> Stage:
    """And was paused for a while."""
    stage = in_grace().edit(paused=True).look(2)
    assert stage.status["deletion"]["deadline"]
    return stage.edit(paused=False)


@pytest.mark.parametrize(
    "phase",
    [
        in_grace,
        by_command,
        by_command_and_silent,
        not_recovered,
        by_an_older_operator,
        without_collector,
        paused,
    ],
    ids=lambda phase: str(phase.__name__),
)
def test_bytes_that_are_marked_come_back_before_the_object_goes(phase: Callable[[], Stage]) -> None:
    stage = phase()
    stage.now += 3 * DAY
    stage.bucket.reached = False
    stage.edit(deletionPolicy="Retain")
    for _ in range(40):
        looked(stage)
        assert not stage.gone, "nobody could bring its bytes back"
    assert stage.blocked_by == ["Pods"]
    assert FINALIZER_DATABASE in stage.status["deletion"]["blockedBy"][0]["message"], "the way out is told"
    assert Role.GC in stage.deployments, "the collector is what could"
    stage.missing_secrets = ["bucket"]
    looked(stage)
    assert stage.blocked_by == ["Storage"]
    stage.missing_secrets = ()
    stage.bucket.reached = True
    run(stage)
    assert stage.gone
    assert stage.bucket.state == "alive"
    assert stage.bucket.owner != OURS


def test_what_cannot_be_brought_back_is_tried_again_and_not_let_go() -> None:
    stage = in_grace()
    stage.bucket.failing = "the manifest cannot be written"
    stage.edit(deletionPolicy="Retain")
    for _ in range(5):
        looked(stage)
        assert not stage.gone
    assert stage.blocked_by == ["Storage"]
    assert "the manifest cannot be written" in stage.status["deletion"]["blockedBy"][0]["message"]
    stage.bucket.failing = ""
    run(stage)
    assert stage.gone
    assert stage.bucket.state == "alive"


def test_a_destruction_under_way_ends_first() -> None:
    """It was asked for, and has not come to the commit: released now, the mark would be made after us."""
    stage = alive("SoftDestroy").delete().look(2)
    assert stage.status["deletion"]["deadline"], "written down before it is done"
    assert stage.bucket.state == "alive"
    assert "destroy soft" not in stage.bucket.done
    stage.bucket.operations["slow"] = OperationFacts("slow", "running")
    stage.edit(deletionPolicy="Retain").look(3)
    assert not stage.gone
    assert Destroying() in stage.asked
    stage.bucket.operations["slow"] = OperationFacts("slow", "succeeded")
    stage.bucket.state, stage.bucket.destroyed_at = "destroyed", int(stage.now)
    run(stage)
    assert stage.gone
    assert stage.bucket.state == "alive"


def test_a_second_destruction_under_way_ends_too() -> None:
    """The mark is off again, and what was asked for while the store did not answer would set it once more, after us."""
    stage = in_grace()
    stage.bucket.operations["slow"] = OperationFacts("slow", "running")
    stage.edit(deletionPolicy="Retain").look(4)
    assert stage.bucket.state == "alive"
    assert stage.bucket.owner == OURS, "given back, though somebody is about to destroy it"
    assert not stage.gone
    stage.bucket.operations["slow"] = OperationFacts("slow", "succeeded")
    stage.bucket.state, stage.bucket.destroyed_at = "destroyed", int(stage.now)
    run(stage)
    assert stage.gone
    assert stage.bucket.state == "alive"


def test_only_what_was_seen_to_be_destroyed_is_deleted_for_good() -> None:
    """The collector may begin with it when the bytes were brought back: then it has to know what was meant."""
    stage = alive("Destroy").delete()
    asked: list[Ask] = []
    while not stage.gone:
        since = stage.bucket.destroyed_at
        stage.look()
        asked += [ask for ask in stage.asked if isinstance(ask, Work) and ("mode", "hard") in ask.arguments]
    (deletion,) = asked
    assert isinstance(deletion, Work)
    assert deletion.document == {"kind": "destroy", "mode": "hard", "destroyed_at_s": since}


def test_an_operator_that_forgot_the_mark_has_written_it_down_before() -> None:
    """Killed right after it had the database marked: what it would have said is lost, what it said before is not."""
    stage = alive("SoftDestroy").delete().look(2)
    said = stage.status
    stage.look()
    assert stage.bucket.state == "destroyed"
    stage.status = said
    stage.bucket.reached = False
    stage.edit(deletionPolicy="Retain")
    stage.now += DAY
    stage.look(5)
    assert not stage.gone


@pytest.mark.parametrize("reached", [True, False])
@pytest.mark.parametrize("phase", [in_grace, by_command], ids=lambda phase: str(phase.__name__))
def test_a_namespace_that_goes_takes_no_longer(phase: Callable[[], Stage], reached: bool) -> None:
    stage = phase()
    stage.now += 3 * DAY
    stage.edit(deletionPolicy="Retain")
    stage.namespace_terminating, stage.bucket.reached = True, reached
    stage.deployments = {}
    began = stage.now
    ends = {"deletionTimestamp": stamp(began + 45), "deletionGracePeriodSeconds": 45}
    for _ in range(40):
        stage.pods = {Role.GC: [{"metadata": {"name": "orders-gc-0", **ends}, "status": {}}]}
        stage.look()
    assert stage.gone
    assert stage.now - began < 60
    assert stage.bucket.state == ("alive" if reached else "destroyed")


@pytest.mark.parametrize(
    "change", [{"deletionPolicy": "Retain"}, {"deletionProtection": True}], ids=["retained", "protected"]
)
def test_a_namespace_that_goes_waits_for_a_destruction_under_way(change: dict[str, object]) -> None:
    """Else the mark would be made after us, and a reaper take bytes that were to stay."""
    stage = alive("SoftDestroy").delete().look(2)
    assert stage.status["deletion"]["deadline"]
    stage.bucket.operations["slow"] = OperationFacts("slow", "running")
    stage.namespace_terminating = True
    stage.edit(**change).look(3)
    assert not stage.gone
    assert Destroying() in stage.asked
    stage.bucket.operations["slow"] = OperationFacts("slow", "succeeded")
    stage.bucket.state, stage.bucket.destroyed_at = "destroyed", int(stage.now)
    stage.look(4)
    assert stage.gone
    assert stage.bucket.state == "alive"
    assert stage.bucket.owner is None


def test_a_namespace_that_goes_waits_for_a_second_destruction_too() -> None:
    stage = in_grace()
    stage.bucket.operations["slow"] = OperationFacts("slow", "running")
    stage.namespace_terminating = True
    stage.edit(deletionPolicy="Retain").look(4)
    assert stage.bucket.state == "alive"
    assert stage.bucket.owner == OURS, "given back, though somebody is about to destroy it"
    assert not stage.gone


def test_a_namespace_that_goes_waits_for_no_destruction_for_ever() -> None:
    stage = alive("SoftDestroy").delete().look(2)
    stage.bucket.operations["slow"] = OperationFacts("slow", "running")
    stage.namespace_terminating, stage.deployments = True, {}
    ends = {"deletionTimestamp": stamp(stage.now + 45), "deletionGracePeriodSeconds": 45}
    stage.edit(deletionPolicy="Retain")
    for _ in range(40):
        stage.pods = {Role.GC: [{"metadata": {"name": "orders-gc-0", **ends}, "status": {}}]}
        stage.look()
    assert stage.gone
    assert [each.reason for each in stage.outcome.events] == ["NotUndeleted"]


# --- what is known of the mark ----------------------------------------------------------------------------------------


def test_when_it_was_destroyed_is_known_until_it_is_not_any_more() -> None:
    stage = destroyed("Retain")
    since = stage.status["destroyedAt"]
    assert seconds_of(since) == stage.bucket.destroyed_at
    stage.bucket.reached = False
    stage.look(3)
    assert stage.status["destroyedAt"] == since, "nobody has said otherwise"
    stage.bucket.reached = True
    stage.bucket.state, stage.bucket.destroyed_at = "alive", None
    stage.look()
    assert "destroyedAt" not in stage.status
    stage.bucket.reached = False
    stage.delete()
    run(stage)
    assert stage.gone, "it was brought back, so that its bytes stay"


def test_a_mark_on_what_is_not_ours_any_more_holds_nothing() -> None:
    stage = destroyed("Retain")
    stage.bucket.owner = STRANGER
    stage.look()
    assert "destroyedAt" not in stage.status
    stage.bucket.reached = False
    stage.delete()
    run(stage)
    assert stage.gone


def test_the_grace_of_what_was_brought_back_unseen_begins_anew() -> None:
    stage = destroyed("SoftDestroy")
    stage.bucket.state, stage.bucket.destroyed_at = "alive", None
    stage.now += DAY
    began = stage.delete().now
    stage.look()
    assert stage.bucket.state == "alive"
    assert seconds_of(stage.status["deletion"]["deadline"]) >= began + 600.0


def test_what_was_taken_over_meanwhile_is_let_go() -> None:
    stage = by_command("Retain")
    stage.bucket.owner = STRANGER
    run(stage)
    assert stage.gone
    assert stage.bucket.state == "destroyed", "whose it is decides"
    assert Role.GC not in stage.deployments


def test_a_pause_keeps_the_bytes_as_they_are() -> None:
    stage = in_grace().edit(paused=True)
    stage.now += 30 * DAY
    stage.look(5)
    assert not stage.gone
    assert stage.bucket.state == "destroyed"
    assert "destroy hard" not in stage.bucket.done
    stage.edit(paused=False)
    run(stage)
    assert stage.gone
    assert stage.bucket.state is None


# --- protection: a reaper, which knows nothing but the bucket, deletes what is left marked as destroyed ---------------


def test_what_is_protected_during_the_grace_comes_back() -> None:
    stage = in_grace().edit(deletionProtection=True)
    stage.now += 6 * DAY
    stage.look(3)
    assert stage.bucket.state == "alive", "a reaper would take the bytes of a protected database"
    assert stage.runs(Role.WRITER), "as if it had been protected before it was deleted"
    assert stage.blocked_by == ["Protection"]
    assert "deadline" not in stage.status["deletion"]
    lifted = stage.edit(deletionProtection=False).now
    stage.look(5)
    assert stage.bucket.state == "destroyed"
    assert seconds_of(stage.status["deletion"]["deadline"]) >= lifted + 7 * DAY, "its grace begins anew"
    stage.now += 7 * DAY
    run(stage)
    assert stage.gone
    assert stage.bucket.state is None


def test_who_destroys_what_is_protected_by_the_command_has_to_lift_that_first() -> None:
    stage = living(spec_of("SoftDestroy") | {"deletionProtection": True})
    for _ in range(3):
        bucket = stage.bucket
        bucket.state, bucket.destroyed_at, bucket.epoch = "destroyed", int(stage.now), bucket.epoch + 1
        stage.look(2)
        assert bucket.state == "alive"
        assert stage.condition(STALLED) is None
    stage.edit(deletionProtection=False)
    stage.bucket.state, stage.bucket.destroyed_at = "destroyed", int(stage.now)
    stage.look(3)
    assert stage.bucket.state == "destroyed", "what is not protected was meant to be"


def test_what_is_protected_and_cannot_be_brought_back_is_told_and_tried_again() -> None:
    stage = in_grace().edit(deletionProtection=True)
    stage.bucket.failing = "the manifest cannot be written"
    stage.look(3)
    told = stage.condition(READY)
    assert told is not None
    assert told.reason == "NotRecovered"
    assert "the manifest cannot be written" in told.message
    assert (stage.outcome.again_in or 0.0) >= 60.0
    tried = len(stage.bucket.done)
    stage.look(3)
    assert len(stage.bucket.done) <= tried + 1, "it is tried again and again"
    stage.bucket.failing = ""
    stage.now += 3600
    stage.look(2)
    assert stage.bucket.state == "alive"


def test_a_destruction_under_way_when_it_is_protected_is_undone() -> None:
    stage = alive("SoftDestroy").delete().look(2)
    stage.bucket.operations["slow"] = OperationFacts("slow", "running")
    stage.edit(deletionProtection=True).look(2)
    assert stage.bucket.state == "alive"
    assert stage.status["deletion"]["deadline"], "it may still be marked, and whoever sets Retain has to know"
    assert (stage.outcome.again_in or DAY) < 60
    stage.bucket.operations["slow"] = OperationFacts("slow", "succeeded")
    stage.bucket.state, stage.bucket.destroyed_at = "destroyed", int(stage.now)
    stage.look(2)
    assert stage.bucket.state == "alive"


@pytest.mark.parametrize("policy", ["SoftDestroy", "Destroy"])
def test_a_namespace_that_goes_does_not_mark_what_is_protected(policy: str) -> None:
    stage = living(spec_of(policy) | {"deletionProtection": True}).delete()
    stage.namespace_terminating = True
    stage.look(40)
    assert stage.gone
    assert stage.bucket.state == "alive"
    assert not any(done.startswith("destroy") for done in stage.bucket.done)


def test_what_was_never_marked_waits_for_nobody_long() -> None:
    stage = alive("Retain").delete()
    stage.bucket.reached = False
    began = stage.now
    run(stage)
    assert stage.gone
    assert stage.now - began < 90


class Unread(Bucket):
    """Whose mark can be read, and whose manifest cannot."""

    broken = False

    def answer(self, ask: Ask, now: float) -> Answer:
        if self.broken and isinstance(ask, Look):
            return Answer(problem="store-unavailable", words="the manifest cannot be read")
        return super().answer(ask, now)


@pytest.mark.parametrize("terminating", [True, False])
def test_what_nobody_knows_is_not_taken_to_be_well(terminating: bool) -> None:
    bucket = Unread()
    stage = living(spec_of("SoftDestroy"), bucket=bucket).delete().look(5).edit(deletionPolicy="Retain")
    assert bucket.state == "destroyed"
    bucket.broken, stage.namespace_terminating = True, terminating
    stage.look(2)
    assert not stage.gone
    assert bucket.owner == OURS
    bucket.broken = False
    stage.look(10)
    assert stage.gone
    assert bucket.state == "alive"
