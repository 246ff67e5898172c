"""From the options of one garbage collection, as the original has them, to ours."""

from __future__ import annotations

from slate_engine.api import arguments
from slate_engine.api.building import instance
from slate_engine.api.companion_options import collector_options
from slate_engine.api.configuration import (
    GarbageCollectorSettings,
    GarbageDirectorySettings,
    GarbageScheduleSettings,
)
from slate_engine.api.options import (
    GarbageCollectorDirectoryOptions,
    GarbageCollectorOptions,
    GarbageCollectorScheduleOptions,
)
from slate_engine.gc.options import GcOptions


def collection_options(options: GarbageCollectorOptions | None) -> GcOptions | None:
    """What to collect in one pass: everything by default, and only the kinds that are given if any options are; None if
    that is nothing. How often to try again when the store fails is for the store's own options to say, not for
    ``object_store_max_retries``."""
    if options is None:
        return collector_options(GarbageCollectorSettings())
    wanted = instance(options, GarbageCollectorOptions, "options")
    return collector_options(
        GarbageCollectorSettings(
            manifest_options=_directory(wanted.manifest_options, "manifest_options"),
            wal_options=_directory(wanted.wal_options, "wal_options"),
            wal_fence_options=_directory(wanted.wal_fence_options, "wal_fence_options"),
            compacted_options=_directory(wanted.compacted_options, "compacted_options"),
            compactions_options=_directory(wanted.compactions_options, "compactions_options"),
            detach_options=_schedule(wanted.detach_options),
            boundary_files_enabled=not wanted.disable_boundary_files,
        )
    )


def _directory(options: GarbageCollectorDirectoryOptions | None, name: str) -> GarbageDirectorySettings | None:
    if options is None:
        return None
    wanted = instance(options, GarbageCollectorDirectoryOptions, name)
    return GarbageDirectorySettings(
        interval_ms=_milliseconds(wanted.interval_ms, f"interval_ms of {name}"),
        min_age_ms=arguments.unsigned(wanted.min_age_ms, f"min_age_ms of {name}"),
        dry_run=bool(wanted.dry_run),
    )


def _schedule(options: GarbageCollectorScheduleOptions | None) -> GarbageScheduleSettings | None:
    if options is None:
        return None
    wanted = instance(options, GarbageCollectorScheduleOptions, "detach_options")
    return GarbageScheduleSettings(interval_ms=_milliseconds(wanted.interval_ms, "interval_ms of detach_options"))


def _milliseconds(value: int | None, name: str) -> int | None:
    return None if value is None else arguments.unsigned(value, name)
