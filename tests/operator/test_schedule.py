"""When checkpoints are made, and which of them stay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from slate_operator.api.schedule import ScheduleSpec
from slate_operator.clock import seconds_of, stamp
from slate_operator.kube.cluster import CHECKPOINTS, SCHEDULES, Body
from slate_operator.kube.requests import Place
from slate_operator.names import LABEL_SCHEDULE, READY, RECONCILING, STALLED
from slate_operator.reconcile.schedule import BadSchedule, ScheduleReconciler, times
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.world import World, condition, world_of


def spec(schedule: str, **more: object) -> ScheduleSpec:
    template = {"spec": {"databaseRef": {"name": "orders"}}}
    return ScheduleSpec.model_validate({"schedule": schedule, "template": template, **more})


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "zone", "since", "now", "due", "next"),
    [
        ("0 3 * * *", "Etc/UTC", "2026-05-01 03:00", "2026-05-01 12:00", None, "2026-05-02 03:00"),
        ("0 3 * * *", "Etc/UTC", "2026-05-01 03:00", "2026-05-02 03:00", "2026-05-02 03:00", "2026-05-03 03:00"),
        ("0 3 * * *", "Europe/Berlin", "2026-05-01 12:00", "2026-05-02 01:30", "2026-05-02 01:00", "2026-05-03 01:00"),
        ("@hourly", "Etc/UTC", "2026-05-01 00:30", "2026-05-01 05:10", "2026-05-01 05:00", "2026-05-01 06:00"),
        ("*/10 * * * *", "Etc/UTC", "2026-04-01 00:00", "2026-05-01 05:11", "2026-05-01 05:10", "2026-05-01 05:20"),
        ("* * * * *", "Etc/UTC", "2026-01-01 00:00", "2026-05-01 05:11", "2026-05-01 05:11", "2026-05-01 05:12"),
        ("0 3 * * *", "Etc/UTC", "2026-04-29 00:00", "2026-05-01 12:00", None, "2026-05-02 03:00"),
        # The hour that there is twice is one run, and the one that there is not moves to the next.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "2026-10-25 00:40", "2026-10-25 00:30", "2026-10-26 01:30"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "2026-03-29 01:10", "2026-03-29 01:00", "2026-03-30 00:30"),
    ],
)
def test_times(schedule: str, zone: str, since: str, now: str, due: str | None, next: str) -> None:
    found = times(spec(schedule, timeZone=zone), at(since), at(now))
    assert found.due == (None if due is None else at(due))
    assert found.next == at(next)


def test_a_long_deadline_of_a_schedule_of_every_minute_takes_no_longer() -> None:
    """Months were missed, of which one run is made up for; and of a deadline that is over, none."""
    often = spec("* * * * *", startingDeadlineSeconds=1_000_000)
    found = times(often, at("2026-01-01 00:00"), at("2026-05-01 05:11") + 30)
    assert (found.due, found.next) == (at("2026-05-01 05:11"), at("2026-05-01 05:12"))
    yearly = spec("@yearly", startingDeadlineSeconds=1_000_000)
    found = times(yearly, at("2020-01-01 00:00"), at("2026-05-01 05:11"))
    assert (found.due, found.next) == (None, at("2027-01-01 00:00"))


@pytest.mark.parametrize(
    ("schedule", "zone"), [("0 25 * * *", "Etc/UTC"), ("often", "Etc/UTC"), ("@daily", "Mars/Base")]
)
def test_a_schedule_that_no_calendar_follows(schedule: str, zone: str) -> None:
    with pytest.raises(BadSchedule, match="write for instance"):
        times(spec(schedule, timeZone=zone), 0.0, 1.0)


@pytest.fixture
async def world(kinds: ApiServer) -> AsyncIterator[World]:
    async with world_of(kinds) as made:
        made.answer_for(SCHEDULES, ScheduleReconciler(made.cluster, made.clock))
        yield made


def wanted(**more: object) -> Body:
    template = {"metadata": {"labels": {"tier": "gold"}}, "spec": {"databaseRef": {"name": "orders"}, "lifetime": "1d"}}
    return {"schedule": "*/10 * * * *", "template": template, **more}


async def made_by(world: World, name: str = "often") -> list[Body]:
    place = Place(CHECKPOINTS, world.namespace)
    found = [body async for body in world.requests.list(place, f"{LABEL_SCHEDULE}={name}")]
    return sorted(found, key=lambda body: body["metadata"]["name"])


async def finish(world: World, body: Body, type: str = READY) -> None:
    done = {"type": type, "status": "True", "reason": "Done", "message": "", "lastTransitionTime": stamp(0)}
    await world.set_status(CHECKPOINTS, body["metadata"]["name"], {"conditions": [done]})


async def run(world: World, times: int = 1) -> Body | None:
    """Let the next times come."""
    seen = None
    for _ in range(times):
        world.clock.ahead += 600.0
        seen = await world.look(SCHEDULES, "often")
    return seen


async def test_checkpoints_are_made_in_time_and_once(world: World) -> None:
    await world.make(SCHEDULES, "often", wanted())
    first = await world.look(SCHEDULES, "often")
    assert first is not None
    assert await made_by(world) == []
    assert 0 < seconds_of(first["status"]["nextRun"]) - world.clock.now() <= 600
    seen = await run(world)
    (checkpoint,) = await made_by(world)
    assert checkpoint["metadata"]["labels"]["tier"] == "gold"
    assert "ownerReferences" not in checkpoint["metadata"], "what a schedule has made outlives it"
    assert checkpoint["spec"]["lifetime"] == "1d"
    assert seen is not None
    assert seen["status"]["lastCheckpoint"] == checkpoint["metadata"]["name"]
    await world.look(SCHEDULES, "often")
    assert len(await made_by(world)) == 1
    await world.delete(SCHEDULES, "often")
    assert await world.look(SCHEDULES, "often") is None
    assert len(await made_by(world)) == 1


async def test_only_the_newest_stay(world: World) -> None:
    await world.make(SCHEDULES, "often", wanted(successfulHistoryLimit=2, failedHistoryLimit=1))
    for number in range(6):
        await run(world)
        newest = (await made_by(world))[-1]
        await finish(world, newest, STALLED if number % 3 == 2 else READY)
    await world.look(SCHEDULES, "often")
    left = await made_by(world)
    ready = [each for each in left if condition(each, READY)]
    failed = [each for each in left if condition(each, STALLED)]
    assert (len(ready), len(failed)) == (2, 1)
    assert failed[0] == left[-1]


async def test_what_was_made_of_another_database_is_no_history_of_this_one(world: World) -> None:
    await world.make(SCHEDULES, "often", wanted(successfulHistoryLimit=1, failedHistoryLimit=0))
    await run(world)
    (kept,) = await made_by(world)
    await finish(world, kept)
    await world.delete(SCHEDULES, "often")
    template = {"spec": {"databaseRef": {"name": "users"}}}
    await world.make(SCHEDULES, "often", wanted(successfulHistoryLimit=1, template=template))
    for _ in range(2):
        await run(world)
        await finish(world, (await made_by(world))[-1])
    await world.look(SCHEDULES, "often")
    left = [each["spec"]["databaseRef"]["name"] for each in await made_by(world)]
    assert left == ["orders", "users"], "who deletes a schedule keeps what it has made"


@pytest.mark.parametrize(("policy", "left"), [("Allow", [1, 2]), ("Forbid", [1]), ("Replace", [2])])
async def test_one_that_is_not_ready_when_the_next_is_due(world: World, policy: str, left: list[int]) -> None:
    await world.make(SCHEDULES, "often", wanted(concurrencyPolicy=policy))
    await run(world)
    (first,) = await made_by(world)
    await run(world)
    found = [1 if each["metadata"]["uid"] == first["metadata"]["uid"] else 2 for each in await made_by(world)]
    assert sorted(found) == left
    assert ("Skipped" in await world.events()) == (policy == "Forbid")


async def test_a_run_that_was_skipped_names_no_checkpoint(world: World) -> None:
    await world.make(SCHEDULES, "often", wanted(concurrencyPolicy="Forbid"))
    first = await run(world)
    skipped = await run(world)
    assert first is not None
    assert skipped is not None
    assert skipped["status"]["lastRun"] > first["status"]["lastRun"]
    assert skipped["status"]["lastCheckpoint"] == first["status"]["lastCheckpoint"], "there is no other one"


async def trouble(world: World, body: Body, reason: str, type: str, created: bool = True) -> None:
    """It is not ready, for this reason; whether it ever was."""
    said = {"status": "True", "reason": reason, "message": "", "lastTransitionTime": stamp(0)}
    conditions = [{**said, "type": READY, "status": "False"}, {**said, "type": type}]
    status = {"conditions": conditions} | ({"createdAt": stamp(0)} if created else {})
    await world.set_status(CHECKPOINTS, body["metadata"]["name"], status)


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace"])
@pytest.mark.parametrize(
    ("reason", "type"), [("DatabaseUnreachable", RECONCILING), ("DatabaseMissing", STALLED), ("Destroyed", STALLED)]
)
async def test_what_is_kept_stays_while_nobody_answers_for_it(
    world: World, policy: str, reason: str, type: str
) -> None:
    await world.make(SCHEDULES, "often", wanted(concurrencyPolicy=policy, failedHistoryLimit=0))
    for _ in range(3):
        await run(world)
        await finish(world, (await made_by(world))[-1])
    kept = await made_by(world)
    for each in kept:
        await trouble(world, each, reason, type)
    await run(world)
    names = {each["metadata"]["name"] for each in await made_by(world)}
    assert {each["metadata"]["name"] for each in kept} < names, "states that are kept were deleted, or none was made"


@pytest.mark.parametrize(("reason", "created"), [("Expired", True), ("Lost", True), ("NoDatabase", False)])
async def test_what_keeps_nothing_goes(world: World, reason: str, created: bool) -> None:
    await world.make(SCHEDULES, "often", wanted(failedHistoryLimit=0))
    await run(world)
    (first,) = await made_by(world)
    await trouble(world, first, reason, STALLED, created)
    await world.look(SCHEDULES, "often")
    assert await made_by(world) == []


async def test_suspended_and_wrong_ones_make_nothing(world: World) -> None:
    await world.make(SCHEDULES, "often", wanted(suspend=True))
    seen = await run(world, 3)
    assert await made_by(world) == []
    assert condition(seen, READY)["reason"] == "Suspended"
    assert seen is not None
    assert "nextRun" not in seen["status"]
    await world.edit(SCHEDULES, "often", {"spec": {"suspend": False, "schedule": "0 99 * * *"}})
    wrong = await world.look(SCHEDULES, "often")
    assert condition(wrong, STALLED)["reason"] == "InvalidSchedule"
    await world.edit(SCHEDULES, "often", {"spec": {"schedule": "*/10 * * * *"}})
    right = await run(world)
    assert condition(right, STALLED) == {}
    assert len(await made_by(world)) == 1
