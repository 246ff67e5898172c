"""``python -m slate_engine.spark.compact``: compactions whose ranges of keys are merged by executors.

By itself it is a major compaction: the driver is the coordinator and the one worker of the compactor's protocol. It takes
the epoch, enters the jobs in the book and does them, and one manifest shows each result. With ``--worker`` it takes nobody's
place: it does the large jobs that a running compactor has left in the book, and that one commits them. Either way a driver
that dies is a worker that died (:mod:`slate_engine.spark.compacting`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from pyspark.sql import SparkSession

from slate_engine.admin.lifetimes import parse_span
from slate_engine.errors import InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction.commit import take_epoch
from slate_engine.lsm.compaction.coordinator import UNLIMITED, Coordinator
from slate_engine.lsm.compaction.guard import check_nobody_works, leave_name
from slate_engine.lsm.compaction.inputs import SourcesGone
from slate_engine.lsm.compaction.options import CompactorOptions
from slate_engine.lsm.compaction.plan import Major
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.spark.compacting import SparkWorker
from slate_engine.spark.jobs.requests import counting
from slate_engine.spark.jobs.running import Job
from slate_engine.spark.jobs.settings import DATABASE, Setting, Settings
from slate_engine.spark.jobs.summary import Outcome, added
from slate_engine.spark.load.options import CODECS
from slate_engine.spark.options import Given
from slate_engine.spark.reading import opened
from slate_engine.state.compactions import CompactionStatus
from slate_engine.state.stores import CompactionsStore

log = logging.getLogger(__name__)

SETTINGS = (
    *DATABASE,
    Setting("rewrite", "also trees that are one run already, to drop what has expired since", flag=True),
    Setting("ranges", "into so many ranges of keys at most; four for each core of Spark's, if left out"),
    Setting("sst-bytes", "how large SSTs become", default="256m"),
    Setting("memory-bytes", "what a task holds in memory", default="256m"),
    Setting("codec", "how SSTs are compressed; as the newest one is, if left out", choices=("", *CODECS)),
    Setting("merge-operator", "the merge operator of the database, as package.module:name"),
    Setting("force", "also if another compactor was at work lately: it loses its place", flag=True),
    Setting("worker", "help the compactor that runs, instead of taking its place: do the jobs it has left", flag=True),
    Setting("min-bytes", "with --worker: only jobs with at least so much to read", default="1g"),
    Setting("wait", "with --worker: how long the compactor has to commit each result", default="60s"),
)


async def compact_all(worker: SparkWorker, files: DatabaseFiles, settings: Settings) -> dict[str, object]:
    """Everything that there is to do now, as the database's compactor."""
    compactions = CompactionsStore.open(files.store, files.paths.root, files.runtime)
    if not settings.flag("force"):
        await check_nobody_works(files, compactions)
    claim = await take_epoch(files, compactions)
    await leave_name(files, claim)
    policy = Major(settings.flag("rewrite"))
    coordinator = Coordinator(files, compactions, claim, CompactorOptions(policy=policy, worker=None))
    await coordinator.turn(limit=UNLIMITED)
    jobs = 0
    while (job := await worker.claim()) is not None:
        await worker.carry_out(job)
        await coordinator.turn(plan=False)
        jobs += 1
    return {"compactions": jobs}


async def help_compactor(worker: SparkWorker, settings: Settings) -> dict[str, object]:
    """The large jobs that wait, one after the other, until there is none."""
    least_bytes = Given({"min-bytes": settings.text("min-bytes")}).size("min-bytes", 1)
    wait = parse_span(settings.text("wait")) / 1000
    ends: Counter[CompactionStatus | None] = Counter()
    gone: set[Ulid] = set()
    while (job := await worker.claim(least_bytes, gone)) is not None:
        try:
            done = await worker.carry_out(job)
        except SourcesGone as error:
            log.warning("compaction %s is left to its coordinator: %s", job.id, error)
            gone.add(job.id)
            continue
        ends[await worker.outcome(done, wait)] += 1
    return {
        "compactions": ends.total(),
        "committed": ends[CompactionStatus.COMPLETED],
        "refused": ends[CompactionStatus.FAILED],
        "to_be_committed": ends[None],
        "result": _in_words(ends, settings.text("min-bytes"), settings.text("wait")),
    }


def _in_words(ends: Counter[CompactionStatus | None], least: str, wait: str) -> str:
    if not ends:
        return f"there was nothing to do: no compaction of at least {least} waits for a worker"
    said = [f"{ends[CompactionStatus.COMPLETED]} of {ends.total()} compactions are committed"]
    if ends[CompactionStatus.FAILED]:
        said.append(f"{ends[CompactionStatus.FAILED]} did not fit the database any more and came to nothing")
    if ends[None]:
        said.append(f"{ends[None]} are in the book and wait for a compactor to commit them; none did within {wait}")
    return "; ".join(said)


def work(spark: SparkSession, settings: Settings) -> Outcome:
    if settings.flag("worker") and (settings.flag("force") or settings.flag("rewrite")):
        raise InvalidError(
            "--worker does what the compactor has planned and takes nobody's place: leave out --force and --rewrite"
        )
    return asyncio.run(_compact(spark, settings))


async def _compact(spark: SparkSession, settings: Settings) -> Outcome:
    requests = counting()
    async with opened(settings.location, settings.text("merge-operator")) as files:
        worker = SparkWorker(spark.sparkContext, files, settings.location, settings)
        if settings.flag("worker"):
            facts = await help_compactor(worker, settings)
        else:
            facts = await compact_all(worker, files, settings)
    merged = worker.merged
    facts |= {
        "rows_kept": sum(each.rows_written for each in merged),
        "bytes_written": sum(handle.estimated_size for each in merged for handle in each.outputs),
    }
    rows, size = sum(each.rows_read for each in merged), sum(each.bytes_read for each in merged)
    return Outcome(rows, size, added([*(each.requests for each in merged), requests()]), facts=facts)


JOB = Job(
    "slate_engine.spark.compact",
    "Merge everything of a database into one run a tree; or, with --worker, what its compactor has left.",
    SETTINGS,
    work,
)

if __name__ == "__main__":
    JOB.run()
