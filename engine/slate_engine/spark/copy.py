"""``python -m slate_engine.spark.copy``: a deep copy of a database, its objects carried by executors.

The driver does what any copy does (:mod:`slate_engine.admin.copying`): it has the source keep its state, leaves a mark at
the target, and commits the target's first manifest when every object is there. A copy that died is taken up again by the
same job: it copies only what is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from pyspark.sql import SparkSession

from slate_engine.admin.copying import copy_database
from slate_engine.admin.transfers import Transfer, carry_out
from slate_engine.lsm.compaction.census import Census
from slate_engine.spark.frame import found_checkpoint
from slate_engine.spark.jobs.requests import counting
from slate_engine.spark.jobs.running import Job
from slate_engine.spark.jobs.settings import DATABASE, Setting, Settings
from slate_engine.spark.jobs.summary import Outcome, added
from slate_engine.spark.options import Location
from slate_engine.spark.reading import opened

SETTINGS = (
    *DATABASE,
    Setting("to-url", "the store of the copy; that of the database, if left out"),
    Setting("to-path", "the path of the copy; that of the database, if left out"),
    Setting("to-option", "an option of the store of the copy; those of --option, if none is given", many=True),
    Setting("checkpoint", "the state to copy, by its id or name; that of now, if left out"),
    Setting("objects-per-task", "so many objects are copied by one task", default="8"),
)


@dataclass(frozen=True)
class Errand:
    """Some objects for one task to copy."""

    source: Location
    target: Location
    log: bool
    """They are WAL files, which may lie in a store of their own."""
    keys: tuple[tuple[str, str], ...]


def run_errand(errand: Errand) -> dict[str, int]:
    """What a task does; gives the requests that it sent."""
    return asyncio.run(_run(errand))


async def _run(errand: Errand) -> dict[str, int]:
    requests = counting()
    async with opened(errand.source) as source, opened(errand.target) as target:
        origin = source.log_store if errand.log else source.store
        goal = target.log_store if errand.log else target.store
        if _same_store(errand.source, errand.target):
            goal = origin  # then the service copies, and the bytes do not pass through here
        await carry_out([Transfer(origin, key, goal, destination) for key, destination in errand.keys])
    return requests()


def _same_store(source: Location, target: Location) -> bool:
    return (source.url, source.wal_url, source.options) == (target.url, target.wal_url, target.options)


class Carriers:
    """Has executors copy what the driver asks for."""

    def __init__(self, spark: SparkSession, source: Location, target: Location, per_task: int) -> None:
        self._context = spark.sparkContext
        self._source = source
        self._target = target
        self._per_task = per_task
        self.requests: list[dict[str, int]] = []

    async def move(self, transfers: Sequence[Transfer], done: Callable[[], None]) -> None:
        errands = [
            Errand(self._source, self._target, log, tuple((each.key, each.destination) for each in some))
            for log in (False, True)
            for some in _portions(
                [each for each in transfers if _is_log(each, self._target.path) is log], self._per_task
            )
        ]
        tasks = self._context.parallelize(errands, len(errands)).map(run_errand)
        # Spark blocks; the driver's event loop has to go on renewing what it holds.
        self.requests += await asyncio.to_thread(tasks.collect)
        for _ in transfers:
            done()


def _is_log(transfer: Transfer, path: str) -> bool:
    return transfer.destination.startswith(f"{path}/wal/" if path else "wal/")


def _portions(transfers: list[Transfer], size: int) -> list[list[Transfer]]:
    return [transfers[start : start + size] for start in range(0, len(transfers), size)]


def work(spark: SparkSession, settings: Settings) -> Outcome:
    source = settings.location
    url = settings.text("to-url") or source.url
    target = replace(
        source,
        url=url,
        path=(settings.text("to-path") or source.path).strip("/"),
        wal_url=source.wal_url if url == source.url else "",
    )
    if settings.pairs("to-option"):
        target = replace(target, store_options=settings.pairs("to-option"), defaults={})
    carriers = Carriers(spark, source, target, settings.number("objects-per-task") or 1)
    return asyncio.run(_copy(source, target, settings.text("checkpoint"), carriers))


async def _copy(source: Location, target: Location, checkpoint: str, carriers: Carriers) -> Outcome:
    requests = counting()
    async with opened(source) as origin, opened(target) as goal:
        kept: UUID | None = None
        if checkpoint:
            kept = found_checkpoint(await origin.manifest(), checkpoint, origin).id
        committed = await copy_database(origin, goal, kept, move=carriers.move)
        manifest = committed.value
        rows = sum(counts.rows for counts in (await Census(goal).of(manifest)).values())
    facts = {"ssts": len(manifest.ssts), "to": f"{target.url} {target.path}", "manifest_id": committed.id}
    return Outcome(rows, manifest.estimated_size, added([*carriers.requests, requests()]), facts=facts)


JOB = Job("slate_engine.spark.copy", "Copy a database to another place, so that they share nothing.", SETTINGS, work)

if __name__ == "__main__":
    JOB.run()
