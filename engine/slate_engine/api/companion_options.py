"""From the settings of a database to the options of the compactor and the collector that run inside it."""

from __future__ import annotations

from collections.abc import Mapping

from slate_engine.api.configuration import (
    CompactionWorkerSettings,
    CompactorSettings,
    GarbageCollectorSettings,
    GarbageDirectorySettings,
)
from slate_engine.errors import InvalidError
from slate_engine.format.sst_build import SstOptions
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.compaction.options import CompactorOptions, MergeOptions, WorkerOptions
from slate_engine.lsm.compaction.plan import SizeTiered


def compactor_options(settings: CompactorSettings | None, sst: SstOptions) -> CompactorOptions | None:
    """What is compacted is written the way in which the database writes its SSTs. None: compaction is done elsewhere."""
    if settings is None:
        return None
    return CompactorOptions(
        policy=size_tiered(settings.scheduler_options),
        worker=None if settings.worker is None else _worker_options(settings.worker, sst),
        poll_interval=_seconds(settings.poll_interval_ms),
        commit_compacted_interval=_seconds(settings.commit_compacted_interval_ms),
        max_concurrent_compactions=settings.max_concurrent_compactions,
        enable_trivial_move=settings.enable_trivial_move,
        checkpoint_lifetime=settings.checkpoint_lifetime_ms / 1000,
        worker_heartbeat_timeout=settings.worker_heartbeat_timeout_ms / 1000,
    )


def _worker_options(settings: CompactionWorkerSettings, sst: SstOptions) -> WorkerOptions:
    return WorkerOptions(
        merge=MergeOptions(
            sst=sst, max_sst_size=settings.max_sst_size, max_subcompactions=max(settings.max_subcompactions, 1)
        ),
        max_concurrent_compactions=settings.max_concurrent_compactions,
        compactions_poll_interval=_seconds(settings.compactions_poll_interval_ms),
        heartbeat_interval=_seconds(settings.heartbeat_interval_ms),
    )


def size_tiered(options: Mapping[str, str]) -> SizeTiered:
    """The policy that ``scheduler_options`` describe. The original passes over what it cannot read; here a slip is told."""
    known = {"min_compaction_sources": int, "max_compaction_sources": int, "include_size_threshold": float}
    values: dict[str, float] = {}
    for name, text in options.items():
        if name not in known:
            raise InvalidError(f"scheduler_options has no {name!r}; it has {', '.join(sorted(known))}")
        try:
            values[name] = known[name](text)
        except ValueError:
            raise InvalidError(f"{name} of scheduler_options must be a number as text, not {text!r}") from None
    return SizeTiered(**values)  # type: ignore[arg-type]


def collector_options(settings: GarbageCollectorSettings | None) -> GcOptions | None:
    """None if nothing is to be collected here."""
    if settings is None:
        return None
    manifests, wal = _task(settings.manifest_options), _task(settings.wal_options)
    fences, compacted = _task(settings.wal_fence_options), _task(settings.compacted_options)
    compactions = _task(settings.compactions_options)
    detach = None if settings.detach_options is None else Task(interval=_interval(settings.detach_options.interval_ms))
    tasks = [task for task in (manifests, wal, fences, compacted, compactions, detach) if task is not None]
    if not tasks:
        return None
    return GcOptions(
        # Expired checkpoints hold what the other tasks look for, so they go as often as the most frequent of them.
        checkpoints=Task(interval=min(task.interval for task in tasks)),
        manifests=manifests,
        wal=wal,
        fences=fences,
        compacted=compacted,
        compactions=compactions,
        detach=detach,
        # A database that is being destroyed has no writer; whoever collects then does so from outside.
        destroyed=None,
        boundary_files=settings.boundary_files_enabled,
    )


def _task(settings: GarbageDirectorySettings | None) -> Task | None:
    if settings is None:
        return None
    return Task(_interval(settings.interval_ms), settings.min_age_ms / 1000, settings.dry_run)


def _interval(milliseconds: int | None) -> float:
    return Task().interval if milliseconds is None else _seconds(milliseconds)


def _seconds(milliseconds: int) -> float:
    """No pause at all would be a loop that gives nobody else a turn."""
    return max(milliseconds, 10) / 1000
