"""A CheckpointSchedule: makes Checkpoints at times, and deletes those that are too many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from slate_operator import names
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.conditions import find, holds, said
from slate_operator.api.schedule import CheckpointSchedule, ScheduleSpec
from slate_operator.clock import Clock, seconds_of, stamp
from slate_operator.kube.cluster import CHECKPOINTS, Body, Cluster, Key
from slate_operator.reconcile.checkpoint import ENDED
from slate_operator.reconcile.outcome import Happening, Outcome

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class BadSchedule(Exception):
    """A schedule that no calendar can follow; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Times:
    """``due`` is the newest time that has passed since the last run, if any; ``next`` the first that has not."""

    due: float | None
    next: float | None


def times(spec: ScheduleSpec, since: float, now: float) -> Times:
    """Of many runs that were missed, only the newest is made up for, and only within the deadline."""
    expression = _NAMED.get(spec.schedule.strip(), spec.schedule)
    try:
        zone = ZoneInfo(spec.time_zone)
        passed = CronSim(expression, datetime.fromtimestamp(int(now) + 1, zone), reverse=True)
        coming = CronSim(expression, datetime.fromtimestamp(now, zone))
    except (ZoneInfoNotFoundError, ValueError):
        raise BadSchedule(f"there is no time zone {spec.time_zone!r}; write for instance Europe/Berlin") from None
    except CronSimError as error:
        raise BadSchedule(
            f"{spec.schedule!r} is no cron expression ({error}); write for instance `0 3 * * *` for three in the morning"
        ) from None
    due = _instant(next(passed, None))
    if due is not None and (due <= since or now - due > spec.starting_deadline_seconds):
        due = None
    return Times(due, _instant(next(coming, None)))


def _instant(tick: datetime | None) -> float | None:
    return None if tick is None else tick.astimezone(UTC).timestamp()


@dataclass
class ScheduleReconciler:
    cluster: Cluster
    clock: Clock

    async def reconcile(self, body: Body) -> Outcome:
        schedule = CheckpointSchedule.of(body)
        if schedule.metadata.deleting:
            return Outcome(gone=True)
        status, now = schedule.status, self.clock.now()
        told = {"lastRun": status.last_run, "lastCheckpoint": status.last_checkpoint, "nextRun": None}
        try:
            found = times(schedule.spec, seconds_of(status.last_run or schedule.metadata.creation_timestamp), now)
        except BadSchedule as mistake:
            conditions = [said(type, truth, "InvalidSchedule", str(mistake)) for type, truth in _STUCK]
            return Outcome(conditions, told)
        made = await self._children(schedule)
        if schedule.spec.suspend:
            await self._trim(schedule, made)
            return Outcome(
                [said(names.READY, True, "Suspended", "no checkpoints are made while suspend is true")], told
            )
        events: list[Happening] = []
        if found.due is not None:
            name, happened = await self._run(schedule, found.due, made)
            events.append(happened)
            told |= {"lastRun": stamp(found.due), "lastCheckpoint": name or status.last_checkpoint}
            made = await self._children(schedule)
        await self._trim(schedule, made)
        told["nextRun"] = None if found.next is None else stamp(found.next)
        message = "there is no time to come that it names" if found.next is None else f"next at {stamp(found.next)}"
        soon = None if found.next is None else max(found.next - now, 0.0) + 0.5
        return Outcome([said(names.READY, True, "Scheduled", message)], told, events, again_in=soon)

    async def _children(self, schedule: CheckpointSchedule) -> list[Checkpoint]:
        """Those that it made of its database, the newest first. What it, or one of its name before it, has made of another
        is no history of this one, and is kept."""
        labels = {names.LABEL_SCHEDULE: schedule.metadata.name}
        found = [
            Checkpoint.of(each) for each in await self.cluster.list(CHECKPOINTS, schedule.metadata.namespace, labels)
        ]
        ours = [each for each in found if each.spec.database_ref == schedule.spec.template.spec.database_ref]
        return sorted(ours, key=_scheduled_at, reverse=True)

    async def _run(
        self, schedule: CheckpointSchedule, at: float, made: Sequence[Checkpoint]
    ) -> tuple[str | None, Happening]:
        """The Checkpoint that was made, if one was, and what to tell of it."""
        name = name_at(schedule, at)
        unfinished = [each for each in made if _is_unfinished(each) and each.metadata.name != name]
        if unfinished and schedule.spec.concurrency_policy == "Forbid":
            told = f"Checkpoint {unfinished[0].metadata.name} of an earlier run is not ready yet"
            return None, Happening("Skipped", told, warning=True)
        if schedule.spec.concurrency_policy == "Replace":
            for each in unfinished:
                await self._delete(each)
        await self.cluster.create(CHECKPOINTS, checkpoint_at(schedule, at))
        return name, Happening("Created", f"Checkpoint {name} was made")

    async def _trim(self, schedule: CheckpointSchedule, made: Sequence[Checkpoint]) -> None:
        good = [each for each in made if holds(each.status.conditions, names.READY)]
        bad = [each for each in made if holds(each.status.conditions, names.STALLED) and not _keeps(each)]
        spec = schedule.spec
        for each in [*good[spec.successful_history_limit :], *bad[spec.failed_history_limit :]]:
            if not each.metadata.deleting:
                await self._delete(each)

    async def _delete(self, checkpoint: Checkpoint) -> None:
        key = Key(checkpoint.metadata.namespace, checkpoint.metadata.name)
        await self.cluster.delete(CHECKPOINTS, key, uid=checkpoint.metadata.uid)


_STUCK = ((names.READY, False), (names.STALLED, True))


def name_at(schedule: CheckpointSchedule, at: float) -> str:
    """The same for the same time, so that a run is made once, whoever makes it and however often."""
    return f"{schedule.metadata.name[:52]}-{int(at) // 60}"


def checkpoint_at(schedule: CheckpointSchedule, at: float) -> Body:
    """It belongs to nobody: who deletes a schedule keeps what it has made."""
    template = schedule.spec.template
    return {
        "apiVersion": CHECKPOINTS.api_version,
        "kind": CHECKPOINTS.kind,
        "metadata": {
            "name": name_at(schedule, at),
            "namespace": schedule.metadata.namespace,
            "labels": {**template.metadata.labels, names.LABEL_SCHEDULE: schedule.metadata.name},
            "annotations": {**template.metadata.annotations, names.ANNOTATION_SCHEDULED_AT: stamp(at)},
        },
        "spec": template.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _scheduled_at(checkpoint: Checkpoint) -> str:
    metadata = checkpoint.metadata
    return metadata.annotations.get(names.ANNOTATION_SCHEDULED_AT, metadata.creation_timestamp)


def _is_unfinished(checkpoint: Checkpoint) -> bool:
    conditions = checkpoint.status.conditions
    ended = holds(conditions, names.READY) or holds(conditions, names.STALLED) or _keeps(checkpoint)
    return not (checkpoint.metadata.deleting or ended)


def _keeps(checkpoint: Checkpoint) -> bool:
    """Whether it was made, and is not known to be gone. That nobody answers for it, or that the database's object is away
    for a while, makes it no failure: what it keeps is still there."""
    ready = find(checkpoint.status.conditions, names.READY)
    return checkpoint.status.created_at is not None and (ready is None or ready.reason not in ENDED)
