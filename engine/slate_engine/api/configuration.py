"""The settings of a database as the engine reads them: typed, frozen, durations in milliseconds.

:class:`~slate_engine.api.settings.Settings` is what users load and change; this is what they get. Keys, defaults and
meaning are those of SlateDB 0.17. Keys of our own stand at the end of :class:`DbSettings`; they are left out of the JSON
while they are not set, so that what we write the original reads.
"""

# ruff: noqa: RUF009 - the calls in place of defaults declare the fields (see schema.py); they make no shared state.
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slate_engine.api.enums import CompressionCodec, MetricLevel, PreloadLevel
from slate_engine.api.schema import (
    choice,
    duration,
    flag,
    optional_choice,
    optional_duration,
    optional_table,
    optional_text,
    optional_unsigned,
    table,
    texts,
    unsigned,
)
from slate_engine.errors import InvalidError

_CODECS = {
    "Snappy": CompressionCodec.SNAPPY,
    "Zlib": CompressionCodec.ZLIB,
    "Lz4": CompressionCodec.LZ4,
    "Zstd": CompressionCodec.ZSTD,
}
_METRIC_LEVELS = {
    "Debug": MetricLevel.DEBUG,
    "debug": MetricLevel.DEBUG,
    "DEBUG": MetricLevel.DEBUG,
    "Info": MetricLevel.INFO,
    "info": MetricLevel.INFO,
    "INFO": MetricLevel.INFO,
}
_PRELOAD_LEVELS = {"L0Sst": PreloadLevel.L0_SST, "AllSst": PreloadLevel.ALL_SST}


@dataclass(frozen=True, kw_only=True)
class CompactionWorkerSettings:
    """How a worker carries out compactions."""

    max_concurrent_compactions: int = unsigned(4)
    compactions_poll_interval_ms: int = duration(5_000)
    """How often it looks for work."""
    heartbeat_interval_ms: int = duration(10_000)
    """How often it says that it is alive and how far it is."""
    max_sst_size: int = unsigned(256 << 20)
    max_fetch_tasks: int = unsigned(4)
    """Without effect, as ``bytes_to_fetch``: how much is fetched at once follows from the memory of the worker."""
    bytes_to_fetch: int = unsigned(2 << 20)
    max_subcompactions: int = unsigned(4)
    """Into how many key ranges one large compaction is divided at most; 0 and 1 mean none."""
    min_filter_keys: int = unsigned(1_000, bits=32)
    """For workers in processes of their own, as ``compression_codec``: inside a database, its own settings count."""
    compression_codec: CompressionCodec | None = optional_choice(_CODECS)
    metric_level: MetricLevel | None = optional_choice(_METRIC_LEVELS)


@dataclass(frozen=True, kw_only=True)
class CompactorSettings:
    """How compactions are chosen, handed out and committed."""

    poll_interval_ms: int = duration(5_000)
    manifest_update_timeout_ms: int = duration(300_000)
    """Without effect: a result is kept in the book of compactions, and its commit tried until it succeeds."""
    max_concurrent_compactions: int = unsigned(4)
    enable_trivial_move: bool = flag(False, missing=False)
    scheduler_options: Mapping[str, str] = texts()
    """``min_compaction_sources``, ``max_compaction_sources``, ``include_size_threshold``: numbers, as text."""
    worker: CompactionWorkerSettings | None = optional_table(
        CompactionWorkerSettings(), missing=CompactionWorkerSettings()
    )
    """The worker in this process; ``None`` if all workers run elsewhere."""
    metric_level: MetricLevel | None = optional_choice(_METRIC_LEVELS)
    commit_compacted_interval_ms: int = duration(1_000)
    checkpoint_lifetime_ms: int = duration(900_000, missing=900_000)
    worker_heartbeat_timeout_ms: int = duration(30_000)
    """After so long without a sign of life, a worker's compactions are given to another."""
    object_store_max_retries: int | None = optional_unsigned(bits=32)


@dataclass(frozen=True, kw_only=True)
class DiskCacheSettings:
    """The cache of parts of objects on local disk; off while there is no ``root_folder``."""

    root_folder: str | None = optional_text()
    max_cache_size_bytes: int | None = optional_unsigned(16 << 30)
    part_size_bytes: int = unsigned(4 << 20)
    cache_on_flush: bool = flag(False)
    cache_on_compaction: bool = flag(False)
    preload_disk_cache_on_startup: PreloadLevel | None = optional_choice(_PRELOAD_LEVELS)
    # The original leaves this key out when it is null and then refuses to read what it wrote; here it may be absent.
    scan_interval_ms: int | None = optional_duration(3_600_000, missing=None, omitted_when_none=True)
    max_open_file_handles: int = unsigned(1_000)


@dataclass(frozen=True, kw_only=True)
class GarbageDirectorySettings:
    """How often to look for garbage of one kind, how old it must be, and whether only to say so."""

    interval_ms: int | None = optional_duration(600_000)
    min_age_ms: int = duration(300_000)
    dry_run: bool = flag(False, missing=False)


@dataclass(frozen=True, kw_only=True)
class GarbageScheduleSettings:
    """How often to run a task that knows no minimum age."""

    interval_ms: int | None = optional_duration(600_000)


@dataclass(frozen=True, kw_only=True)
class GarbageCollectorSettings:
    """Which garbage is collected; a kind without settings is left alone."""

    manifest_options: GarbageDirectorySettings | None = optional_table(GarbageDirectorySettings())
    wal_options: GarbageDirectorySettings | None = optional_table(GarbageDirectorySettings())
    wal_fence_options: GarbageDirectorySettings | None = optional_table(GarbageDirectorySettings(dry_run=True))
    """A fence that is deleted too early lets a stale writer believe that it has written; hence only a dry run."""
    compacted_options: GarbageDirectorySettings | None = optional_table(GarbageDirectorySettings())
    compactions_options: GarbageDirectorySettings | None = optional_table(GarbageDirectorySettings())
    detach_options: GarbageScheduleSettings | None = optional_table(GarbageScheduleSettings())
    metric_level: MetricLevel | None = optional_choice(_METRIC_LEVELS)
    boundary_files_enabled: bool = flag(True, missing=True)
    object_store_max_retries: int | None = optional_unsigned(bits=32)


@dataclass(frozen=True, kw_only=True)
class DbSettings:
    """All settings of a database."""

    flush_interval_ms: int | None = optional_duration(100)
    """How long writes are gathered before the WAL is written; ``None`` leaves it to explicit flushes."""
    wal_enabled: bool = flag(True)
    manifest_poll_interval_ms: int = duration(1_000)
    manifest_update_timeout_ms: int = duration(300_000)
    """Without effect: rows that are durable are not given up because the manifest cannot be written for a while. A flush is
    tried until it succeeds, or until the database is closed; writes go on until ``max_unflushed_bytes``."""
    min_filter_keys: int = unsigned(1_000, bits=32)
    """An SST with fewer keys gets no filter."""
    l0_sst_size_bytes: int = unsigned(64 << 20)
    """A memtable of this size is frozen and flushed."""
    max_wal_flushes_before_l0_flush: int = unsigned(4_096)
    l0_max_ssts: int = unsigned(8)
    """With so many L0 SSTs, flushing waits for compaction."""
    l0_max_ssts_per_key: int = unsigned(8)
    """The same where so many L0 SSTs may hold one and the same key."""
    l0_flush_parallelism: int = unsigned(4)
    """Must be at least 1, and is otherwise without effect: memtables are flushed one after the other. Building an SST takes
    as much memory again as its memtable, and several at once would not stay within ``max_unflushed_bytes``."""
    max_unflushed_bytes: int = unsigned(1 << 30)
    """With so much in memory that is not stored, writes wait."""
    compactor_options: CompactorSettings | None = optional_table(CompactorSettings())
    """``None``: compaction is done elsewhere."""
    compression_codec: CompressionCodec | None = optional_choice(_CODECS)
    object_store_cache_options: DiskCacheSettings = table(DiskCacheSettings())
    garbage_collector_options: GarbageCollectorSettings | None = optional_table(GarbageCollectorSettings())
    """``None``: garbage is collected elsewhere."""
    metric_level: MetricLevel = choice(MetricLevel.INFO, _METRIC_LEVELS)
    """All metrics that are recorded here are of the level ``Info``, which is part of either choice."""
    default_ttl_millis: int | None = optional_unsigned()
    object_store_max_retries: int | None = optional_unsigned(bits=32)
    """Without effect: how often a request is tried again belongs to the object store that is handed in. What was written is
    kept in memory, and offered to the store again and again, until the store takes it."""

    max_parallel_writes: int | None = optional_unsigned(bits=32, omitted_when_none=True)
    """How many WAL objects may be on their way to the store at once. ``None`` leaves it to the engine."""

    def check(self) -> None:
        """Refuse combinations with which a database would stand still. The original does so when a database opens."""
        if self.l0_flush_parallelism == 0:
            raise InvalidError("invalid configuration: l0_flush_parallelism must be at least 1")
        if self.max_wal_flushes_before_l0_flush < 4096:
            raise InvalidError("invalid configuration: max_wal_flushes_before_l0_flush must be at least 4096")
        if self.max_unflushed_bytes <= self.l0_sst_size_bytes:
            raise InvalidError(
                f"invalid configuration: max_unflushed_bytes ({self.max_unflushed_bytes}) must be greater than"
                f" l0_sst_size_bytes ({self.l0_sst_size_bytes})"
            )
        if self.max_parallel_writes == 0:
            raise InvalidError("invalid configuration: max_parallel_writes must be at least 1")
