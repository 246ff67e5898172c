"""A BulkRead: a state is held, Spark reads it, and the state is let go.

What holds the state is a checkpoint with this object's uid and a short life, which is prolonged while the read goes on. So
a read that nobody looks after any more, the operator's included, keeps nothing for long. The driver holds the state by
itself as well, from the moment it runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slate_operator import names
from slate_operator.admin.database import Databases, NotReached, Problem
from slate_operator.api.bulk_read import BulkRead
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.conditions import Condition, find, said
from slate_operator.api.database import SlateDatabase
from slate_operator.api.duration import seconds
from slate_operator.build.bulk_read import id_of, run_of
from slate_operator.build.spark_run import RunId
from slate_operator.clock import Clock, seconds_of, stamp
from slate_operator.kube.cluster import (
    BULK_READS,
    CHECKPOINTS,
    DATABASES,
    Body,
    Cluster,
    Key,
    LeftBehind,
    NameTaken,
    Refused,
)
from slate_operator.reconcile.deletion import READS
from slate_operator.reconcile.outcome import Happening, Outcome, Unfit
from slate_operator.reconcile.spark_job import STARTERS, Course, chosen, look, start, stop
from slate_operator.settings import Settings

HELD_FOR = 3600.0
"""So long the state is kept if nobody prolongs that; it is done at half of it."""
LOOK_EVERY = 5.0
ASK_AGAIN = 15.0
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
"""Between attempts."""
OVER = ("Succeeded", "Failed")
NOT_AGAIN = (
    "It is not tried again: this sink does not know an Append that it has had already, and a second attempt could write the "
    "rows twice. See what is in the table before you make another BulkRead"
)


@dataclass
class BulkReadReconciler:
    cluster: Cluster
    databases: Databases
    clock: Clock
    settings: Settings

    async def reconcile(self, body: Body) -> Outcome:
        read = BulkRead.of(body)
        if read.metadata.deleting:
            return await self._finalize(read, body)
        if read.status.state in OVER:
            return await self._after(read)
        if names.FINALIZER_BULK_READ not in read.metadata.finalizers:
            finalizers = (*read.metadata.finalizers, names.FINALIZER_BULK_READ)
            await self.cluster.set_finalizers(BULK_READS, body, finalizers)
        status = _former(read)
        try:
            return await self._carried_on(read, status)
        except Unfit as trouble:
            return self._told(read, status, trouble)
        except (NameTaken, LeftBehind) as taken:
            return self._told(read, status, Unfit(taken.reason, str(taken)))
        except NotReached as trouble:
            return self._told(read, status, Unfit("DatabaseUnreachable", str(trouble)))
        except Problem as problem:
            reason = "".join(word.capitalize() for word in problem.kind.split("-")) or "Refused"
            return self._told(read, status, Unfit(reason, problem.detail, final=problem.status in (400, 410, 422)))

    def _told(self, read: BulkRead, status: Mapping[str, Any], trouble: Unfit) -> Outcome:
        """It cannot go on. What was not begun waits for what is missing; only another object helps what is final. What is
        held by now is in ``status``, so that it is let go some day."""
        if not trouble.final and self._late(read, status):
            told = f"{self._too_late(read)}; the last thing it waited for: {trouble.message}"
            trouble = Unfit("DeadlineExceeded", told, final=True)
        kind = names.STALLED if trouble.final or trouble.reason == "NameTaken" else names.RECONCILING
        conditions = [
            said(names.READY, False, trouble.reason, trouble.message),
            said(kind, True, trouble.reason, trouble.message),
        ]
        before = find(read.status.conditions, names.READY)
        known = before is not None and before.reason == trouble.reason
        events = [] if known else [Happening(trouble.reason, trouble.message, warning=True)]
        if not trouble.final:
            again = LOOK_EVERY if trouble.reason == "LeftBehind" else ASK_AGAIN
            return Outcome(conditions, {**status, "state": "Pending"}, events, again_in=again)
        # An end like any other: the state is let go, and the ttl counts from here.
        ended = {**status, "state": "Failed", "finishedAt": stamp(self.clock.now())}
        return Outcome(conditions, ended, events, again_in=1.0)

    # --- reading -------------------------------------------------------------------------------------------------

    async def _carried_on(self, read: BulkRead, status: dict[str, Any]) -> Outcome:
        events, now = list[Happening](), self.clock.now()
        id = id_of(read, max(read.status.attempt, 1))
        launcher = read.status.launcher or await chosen(self.cluster, read.spec.spark)
        course = await look(self.cluster, id, launcher, now)
        if course.state == "Missing" and read.spec.may_double and read.status.started_at is not None:
            course = Course("Failed", f"{STARTERS[launcher].kind} {id.name} and its driver were deleted")
        if course.state == "Missing":
            database, source = await self._origin(read)
            status |= {"database": database.metadata.name, "attempt": id.attempt}
            if await self._hold(read, database, source, status):
                events.append(Happening("Held", f"manifest {status['manifestId']} is held while it is read"))
            if (left := self._pause(read)) > 0:
                return _under_way(status, "Pending", "Retrying", f"attempt {id.attempt} begins soon", events, left)
            await self._start(read, database, id.attempt, launcher)
            events.append(Happening("Started", f"attempt {id.attempt}: {STARTERS[launcher].kind} {id.name}"))
            course = Course("Submitted", "Spark is being started")
        elif not course.over:
            await self._prolong(read, status)
        status |= {"launcher": launcher, "application": id.name, "driverPod": id.driver_pod, "notBefore": None}
        status["startedAt"] = read.status.started_at or stamp(now)
        return await self._judged(read, id, course, status, events)

    async def _judged(
        self, read: BulkRead, run: RunId, course: Course, status: dict[str, Any], events: list[Happening]
    ) -> Outcome:
        if course.state == "Succeeded":
            status |= _counts(course.report)
            return await self._end(read, status, events, said(names.READY, True, "Succeeded", course.message))
        if self._late(read, status):
            await stop(self.cluster, run)
            ready = said(names.READY, False, "DeadlineExceeded", self._too_late(read))
            return await self._end(read, status, events, ready)
        if course.state == "Failed":
            if run.attempt > read.spec.more_attempts:
                told = f"{course.message}. {NOT_AGAIN}" if read.spec.may_double else course.message
                return await self._end(read, status, events, said(names.READY, False, "Failed", told))
            pause = min(FIRST_PAUSE * 2.0 ** (run.attempt - 1), LONGEST_PAUSE)
            status |= {"attempt": run.attempt + 1, "notBefore": stamp(self.clock.now() + pause)}
            told = f"attempt {run.attempt} failed, another begins in {pause:.0f} s: {course.message}"
            events.append(Happening("Retrying", told, warning=True))
            return _under_way(status, "Pending", "Retrying", told, events, pause)
        return _under_way(status, course.state, course.state, course.message, events, LOOK_EVERY)

    async def _origin(self, read: BulkRead) -> tuple[SlateDatabase, str | None]:
        """The database, and the id of the checkpoint whose state is read, if it is not the present one."""
        namespace, source = read.metadata.namespace, None
        if read.spec.checkpoint_ref is not None:
            name = read.spec.checkpoint_ref.name
            body = await self.cluster.get(CHECKPOINTS, Key(namespace, name))
            if body is None:
                raise Unfit("SourceMissing", f"there is no Checkpoint {name!r} in this namespace; make it")
            checkpoint = Checkpoint.of(body)
            if checkpoint.status.id is None:
                raise Unfit("SourceNotReady", f"Checkpoint {name!r} is not ready yet")
            source, name = checkpoint.status.id, checkpoint.spec.database_ref.name
        else:
            assert read.spec.database_ref is not None
            name = read.spec.database_ref.name
        body = await self.cluster.get(DATABASES, Key(namespace, name))
        if body is None:
            raise Unfit("SourceMissing", f"there is no SlateDatabase {name!r} in this namespace; make it")
        return SlateDatabase.of(body), source

    async def _hold(self, read: BulkRead, database: SlateDatabase, source: str | None, status: dict[str, Any]) -> bool:
        """Have the state kept; whether that began now."""
        admin, id, now = self.databases.admin(database), read.metadata.uid, self.clock.now()
        if read.status.held_until is None:
            name = READS + read.metadata.name
            made = await admin.put_checkpoint(id, lifetime_s=HELD_FOR, name=name, source=source)
            status |= {"checkpointId": id, "manifestId": made.manifest_id, "heldUntil": stamp(now + HELD_FOR)}
            return True
        if await admin.checkpoint(id) is None:
            raise Unfit(
                "StateLost",
                "nobody prolonged the checkpoint that held the state, and it is gone: the operator or the collector was "
                "away for too long. Make another BulkRead",
                final=True,
            )
        await self._prolong(read, status)
        return False

    async def _prolong(self, read: BulkRead, status: dict[str, Any]) -> None:
        """Have it kept for longer, if that is due. A driver that runs does so by itself too, so that a collector that does
        not answer is no reason to worry yet."""
        until, now = read.status.held_until, self.clock.now()
        body = await self.cluster.get(DATABASES, Key(read.metadata.namespace, status.get("database") or ""))
        if until is None or body is None or seconds_of(until) - now > HELD_FOR / 2:
            return
        with contextlib.suppress(NotReached, Problem):
            await self.databases.admin(SlateDatabase.of(body)).refresh_checkpoint(read.metadata.uid, HELD_FOR)
            status["heldUntil"] = stamp(now + HELD_FOR)

    async def _start(self, read: BulkRead, database: SlateDatabase, attempt: int, launcher: str) -> None:
        image = read.spec.spark.image or self.settings.spark_image
        if not image:
            raise Unfit("NoImage", "there is no image to run: set spark.image, or tell the operator one", final=True)
        try:
            run = run_of(read, database, attempt, image)
            await start(self.cluster, run, launcher, self.settings.spark_role)
        except (NameTaken, LeftBehind):
            raise
        except Refused as refusal:
            raise Unfit("Refused", f"the API server refuses what Spark needs: {refusal}") from None

    def _pause(self, read: BulkRead) -> float:
        until = read.status.not_before
        return 0.0 if until is None else seconds_of(until) - self.clock.now()

    def _late(self, read: BulkRead, status: Mapping[str, Any]) -> bool:
        began, deadline = status.get("startedAt"), read.spec.deadline
        return bool(began and deadline and self.clock.now() - seconds_of(began) > seconds(deadline))

    @staticmethod
    def _too_late(read: BulkRead) -> str:
        return f"it was ended {read.spec.deadline} after its start, as spec.deadline has it"

    # --- ending --------------------------------------------------------------------------------------------------

    async def _end(self, read: BulkRead, status: dict[str, Any], events: list[Happening], ready: Condition) -> Outcome:
        good = ready.status == "True"
        status |= {"state": "Succeeded" if good else "Failed", "finishedAt": stamp(self.clock.now()), "notBefore": None}
        events.append(Happening(ready.reason, ready.message, warning=not good))
        conditions = [ready] if good else [ready, said(names.STALLED, True, ready.reason, ready.message)]
        again = await self._let_go(read, status)
        return Outcome(conditions, status, events, again_in=again)

    async def _after(self, read: BulkRead) -> Outcome:
        """It is over: what is left is to let the state go, and to delete this object in time."""
        status = _former(read)
        again = await self._let_go(read, status)
        if read.spec.ttl is not None and read.status.finished_at is not None:
            left = seconds_of(read.status.finished_at) + seconds(read.spec.ttl) - self.clock.now()
            if left <= 0:
                await self.cluster.delete(BULK_READS, _key(read), uid=read.metadata.uid)
                return Outcome(read.status.conditions, status)
            again = left + 1.0 if again is None else min(again, left + 1.0)
        return Outcome(read.status.conditions, status, again_in=again)

    async def _let_go(self, read: BulkRead, status: dict[str, Any]) -> float | None:
        """Delete what held the state. When the database does not answer, try again as long as it can still be there."""
        until = status.get("heldUntil")
        if until is None:
            return None
        body = await self.cluster.get(DATABASES, Key(read.metadata.namespace, status.get("database") or ""))
        gone = body is None or seconds_of(until) < self.clock.now()
        if body is not None and not gone:
            try:
                await self.databases.admin(SlateDatabase.of(body)).delete_checkpoint(read.metadata.uid)
            except NotReached:
                return ASK_AGAIN
            except Problem as problem:
                if problem.status >= 500:
                    return ASK_AGAIN
        status["heldUntil"] = None
        return None

    async def _finalize(self, read: BulkRead, body: Body) -> Outcome:
        """Stop Spark, let the state go, and let this object go. A database that does not answer holds nothing up: what held
        the state ends by itself."""
        if names.FINALIZER_BULK_READ not in read.metadata.finalizers:
            return Outcome(gone=True)
        status = _former(read)
        if not await self._stopped(read):
            conditions = [said(names.READY, False, "Deleting", "the driver's pod is ending")]
            return Outcome(conditions, status, again_in=2.0)
        await self._let_go(read, status)
        kept = [each for each in read.metadata.finalizers if each != names.FINALIZER_BULK_READ]
        await self.cluster.set_finalizers(BULK_READS, body, kept)
        return Outcome(gone=True)

    async def _stopped(self, read: BulkRead) -> bool:
        """Whether no driver of any attempt is left."""
        attempts = range(1, max(read.status.attempt, 1) + 1)
        return all([await stop(self.cluster, id_of(read, attempt)) for attempt in attempts])


def _under_way(
    status: Mapping[str, Any], state: str, reason: str, message: str, events: Sequence[Happening], again_in: float
) -> Outcome:
    conditions = [said(names.READY, False, reason, message), said(names.RECONCILING, True, reason, message)]
    return Outcome(conditions, {**status, "state": state}, events, again_in=again_in)


def _former(read: BulkRead) -> dict[str, Any]:
    return read.status.model_dump(mode="json", by_alias=True, exclude={"observed_generation", "conditions"})


def _counts(report: Mapping[str, Any]) -> dict[str, int]:
    """Of what the job told. A program of the user's may tell the same, or nothing."""
    return {name: report[name] for name in ("rows", "bytes") if isinstance(report.get(name), int)}


def _key(read: BulkRead) -> Key:
    return Key(read.metadata.namespace, read.metadata.name)
