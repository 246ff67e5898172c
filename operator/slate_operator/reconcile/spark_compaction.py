"""Large compactions as Spark jobs: when one waits, a job is started; it is followed, and told of in the database's status.

The job is a worker of the database's own compactor, which plans and commits. So a job that fails, or that is never started,
loses nothing: after a while the compactor does the work by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slate_operator import names
from slate_operator.admin.database import Databases, NotReached, Problem
from slate_operator.api.amount import size, size_of
from slate_operator.api.database import SlateDatabase, SparkCompaction, SparkCompactionStatus
from slate_operator.build.spark_compaction import id_of, run_of
from slate_operator.clock import Clock, seconds_of, stamp
from slate_operator.kube.cluster import Cluster, LeftBehind, NameTaken, Refused
from slate_operator.reconcile.draft import Draft
from slate_operator.reconcile.report import LOOK_FOR_LEFTOVERS
from slate_operator.reconcile.spark_job import STARTERS, Course, chosen, look, start, stop
from slate_operator.settings import Settings

LOOK_EVERY, FOLLOW_EVERY = 30.0, 10.0
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 1800.0
"""After a job that failed."""


@dataclass
class SparkCompactions:
    cluster: Cluster
    databases: Databases
    clock: Clock
    settings: Settings

    async def tend(self, database: SlateDatabase, draft: Draft) -> None:
        """Do what is due, and write down in the draft how it is."""
        spark, before = database.spec.compactor.spark, database.status.spark_compaction
        if spark is None or database.metadata.deleting or database.spec.hibernated or draft.halt is not None:
            # What is left of a run that ended is kept for those who look for its log, but not longer than its database: the
            # driver's pod has no owner to go with.
            deleting = database.metadata.deleting
            if before is not None and (before.application is not None or spark is None or deleting):
                await stop(self.cluster, id_of(database, before.run))
                draft.status["sparkCompaction"] = _written(before, application=None) if spark is not None else None
            return
        known = before or SparkCompactionStatus()
        if known.application is not None:
            await self._follow(database, known, draft)
        else:
            await self._begin(database, spark, known, draft)

    async def _follow(self, database: SlateDatabase, known: SparkCompactionStatus, draft: Draft) -> None:
        assert known.launcher is not None
        id, now = id_of(database, known.run), self.clock.now()
        try:
            course = await look(self.cluster, id, known.launcher, now)
        except NameTaken as taken:
            course = Course("Failed", str(taken))
        except LeftBehind as left:
            course = Course("Submitted", str(left))
        if course.state == "Missing":
            course = Course("Failed", f"{STARTERS[known.launcher].kind} {id.name} was deleted")
        if not course.over:
            draft.status["sparkCompaction"] = _written(known, message=course.message)
            draft.say(names.COMPACTING_ON_SPARK, True, course.state, f"{id.name}: {course.message}")
            draft.come_back(FOLLOW_EVERY)
            return
        failed = course.state == "Failed"
        draft.happened("SparkCompactionFailed" if failed else "CompactedOnSpark", course.message, warning=failed)
        draft.status["sparkCompaction"] = _written(
            known,
            application=None,
            finishedAt=stamp(now),
            failures=known.failures + 1 if failed else 0,
            message=course.message,
        )
        if failed:
            self._say_failure(draft, course.message)
        draft.come_back(LOOK_EVERY)

    async def _begin(
        self, database: SlateDatabase, spark: SparkCompaction, known: SparkCompactionStatus, draft: Draft
    ) -> None:
        draft.status["sparkCompaction"] = _written(known)
        if known.failures:
            self._say_failure(draft, known.message)
        draft.come_back(LOOK_EVERY)
        if self._resting(known):
            return
        waiting = await self._waiting(database, size_of(spark.larger_than))
        if not waiting:
            return
        image = spark.image or self.settings.spark_image
        if not image:
            self._say_failure(draft, "there is no image to run: set compactor.spark.image, or tell the operator one")
            return
        # What is left of the one before is kept for those who look for its log; until now.
        if known.run and not await stop(self.cluster, id_of(database, known.run)):
            draft.come_back(2.0)
            return
        launcher, run = await chosen(self.cluster, spark), run_of(database, spark, known.run + 1, image)
        try:
            await start(self.cluster, run, launcher, self.settings.spark_role)
        except LeftBehind as left:
            draft.say(names.COMPACTING_ON_SPARK, False, "LeftBehind", str(left))
            draft.come_back(LOOK_FOR_LEFTOVERS)
            return
        except Refused as refusal:
            self._say_failure(draft, f"what Spark needs cannot be made: {refusal}")
            return
        told = f"{STARTERS[launcher].kind} {run.name} merges {size(waiting)}"
        draft.happened("CompactingOnSpark", told)
        draft.say(names.COMPACTING_ON_SPARK, True, "Submitted", told)
        draft.status["sparkCompaction"] = _written(
            known,
            run=known.run + 1,
            launcher=launcher,
            application=run.name,
            startedAt=stamp(self.clock.now()),
            finishedAt=None,
            message=told,
        )
        draft.come_back(FOLLOW_EVERY)

    async def _waiting(self, database: SlateDatabase, larger_than: int) -> int:
        """Bytes of the jobs that nobody works on and that are too large for the compactor."""
        try:
            found = await self.databases.admin(database).compactions()
        except (NotReached, Problem):
            return 0  # what else is wrong with the database is told elsewhere
        return sum(
            job.input_bytes
            for job in found
            if job.worker is None and job.input_bytes > larger_than and job.state in ("submitted", "scheduled")
        )

    def _resting(self, known: SparkCompactionStatus) -> bool:
        if not known.failures or known.finished_at is None:
            return False
        pause = min(FIRST_PAUSE * 2.0 ** (known.failures - 1), LONGEST_PAUSE)
        return self.clock.now() < seconds_of(known.finished_at) + pause

    @staticmethod
    def _say_failure(draft: Draft, message: str) -> None:
        told = f"{message}. The compactor does by itself what waits for too long"
        draft.say(names.COMPACTING_ON_SPARK, False, "Failed", told)


def _written(known: SparkCompactionStatus, **changes: Any) -> dict[str, Any]:
    return {**known.model_dump(mode="json", by_alias=True), **changes}
