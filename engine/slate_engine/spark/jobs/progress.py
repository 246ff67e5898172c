"""How far Spark is, said every few seconds while a job runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

EVERY_SECONDS = 2.0


@contextmanager
def shown(spark: SparkSession, say: Callable[[str], None]) -> Iterator[None]:
    """Say how many tasks of the stages under way are done, whenever that has changed."""
    over = threading.Event()

    def watch() -> None:
        last = ""
        while not over.wait(EVERY_SECONDS):
            now = _stages(spark)
            if now and now != last:
                say(now)
                last = now

    thread = threading.Thread(target=watch, name="slate-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _stages(spark: SparkSession) -> str:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(id) for id in sorted(tracker.getActiveStageIds())]
    known = [stage for stage in stages if stage is not None]
    failed = sum(stage.numFailedTasks for stage in known)
    told = [f"stage {stage.stageId}: {stage.numCompletedTasks} of {stage.numTasks} tasks" for stage in known]
    return ", ".join(told) + (f" ({failed} attempts failed)" if failed else "")
