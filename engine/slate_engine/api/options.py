"""What a caller may ask for with a call. Fields, defaults and meaning are the wheel's."""

from __future__ import annotations

from dataclasses import dataclass

from slate_engine.api.choices import FilterContext, Ttl
from slate_engine.api.enums import DurabilityLevel, FlushType, IterationOrder
from slate_engine.api.keys import KeyRange
from slate_engine.api.shapes import Record


@dataclass(kw_only=True)
class PutOptions(Record):
    """How long the value lives."""

    ttl: Ttl


@dataclass(kw_only=True)
class MergeOptions(Record):
    """How long the operand lives. Within one batch, all operands of a key must live equally long."""

    ttl: Ttl


@dataclass(kw_only=True)
class WriteOptions(Record):
    """A sequence number of the caller's own, which must be larger than any before; 0 lets the database choose."""

    seqnum: int = 0


@dataclass(kw_only=True)
class TracingOptions(Record):
    """An id by which the log records of one read can be told from those of others. Reads write no log records here, so
    there are none to be told apart: it is checked, and without effect."""

    trace_id: str


@dataclass(kw_only=True)
class ReadOptions(Record):
    """What a read of one key sees, and whether the blocks it fetched stay in the cache.

    ``dirty`` is without effect: it asks for writes that are not committed yet, and here a write is committed when it
    becomes visible at all. So is ``filter_context``: it is for filter policies that an application wrote itself, which
    neither Python API can take; bloom filters, which both have, make no use of it."""

    durability_filter: DurabilityLevel
    dirty: bool
    cache_blocks: bool
    filter_context: FilterContext | None = None
    tracing_options: TracingOptions | None = None


@dataclass(kw_only=True)
class ScanOptions(Record):
    """What a scan sees, in which order, and how it fetches: at least ``read_ahead_bytes`` at a time, and up to
    ``max_fetch_tasks`` such parts while the one before them is used.

    ``cache_blocks`` is without effect: a scan reads many blocks with one request and decodes them as a whole, so there are
    no single blocks to keep, and it never pushes out what point reads have in the cache. ``dirty`` and ``filter_context``
    are without effect as in :class:`ReadOptions`."""

    durability_filter: DurabilityLevel
    dirty: bool
    read_ahead_bytes: int
    cache_blocks: bool
    max_fetch_tasks: int
    order: IterationOrder | None = None
    filter_context: FilterContext | None = None
    tracing_options: TracingOptions | None = None


@dataclass(kw_only=True)
class ReaderOptions(Record):
    """How a reader follows the database. ``checkpoint_lifetime_ms`` must exceed twice ``manifest_poll_interval_ms``.

    ``object_store_max_retries`` is without effect: how often a request is tried again belongs to the object store that is
    handed in. A reader shows its last state, and goes on trying, while the store does not answer."""

    manifest_poll_interval_ms: int
    checkpoint_lifetime_ms: int
    max_memtable_bytes: int
    skip_wal_replay: bool
    object_store_max_retries: int | None = None


@dataclass(kw_only=True)
class SlateDbWalReaderOptions(Record):
    """How much of the write-ahead log a reader of it fetches ahead and holds in memory."""

    max_buffered_bytes: int = 134_217_728
    max_fetch_tasks: int = 128
    read_ahead_bytes: int = 4_194_304


@dataclass(kw_only=True)
class FlushOptions(Record):
    """What to flush."""

    flush_type: FlushType


@dataclass(kw_only=True)
class CloseOptions(Record):
    """What to flush before the database closes; ``None`` gives up what is not durable yet."""

    flush_type: FlushType | None


@dataclass(kw_only=True)
class CheckpointOptions(Record):
    """How long a checkpoint lives (``None``: until it is deleted), what it is made from (``None``: the latest state),
    and what it is called."""

    lifetime_ms: int | None
    source: str | None
    name: str | None


@dataclass(kw_only=True)
class CloneSourceSpec(Record):
    """A database to clone, at which of its checkpoints, and which of its keys."""

    path: str
    checkpoint: str | None
    projection_range: KeyRange | None


@dataclass(kw_only=True)
class GarbageCollectorDirectoryOptions(Record):
    """When to look for garbage of one kind, how old an object must be to count as such, and whether only to say so."""

    interval_ms: int | None = None
    min_age_ms: int
    dry_run: bool


@dataclass(kw_only=True)
class GarbageCollectorScheduleOptions(Record):
    """When to run a task that knows no minimum age."""

    interval_ms: int | None = None


@dataclass(kw_only=True)
class GarbageCollectorOptions(Record):
    """Which kinds of garbage to collect; an absent one is left alone."""

    manifest_options: GarbageCollectorDirectoryOptions | None = None
    wal_options: GarbageCollectorDirectoryOptions | None = None
    wal_fence_options: GarbageCollectorDirectoryOptions | None = None
    compacted_options: GarbageCollectorDirectoryOptions | None = None
    compactions_options: GarbageCollectorDirectoryOptions | None = None
    detach_options: GarbageCollectorScheduleOptions | None = None
    disable_boundary_files: bool = False
    object_store_max_retries: int | None = None


@dataclass(kw_only=True)
class BloomFilterOptions(Record):
    """How many bits a bloom filter spends on a key, and whether it holds whole keys or only their prefixes."""

    bits_per_key: int
    whole_key_filtering: bool = True


@dataclass(kw_only=True)
class FoyerCacheOptions(Record):
    """The size of a cache in bytes, and into how many parts it is divided so that threads do not wait for each other."""

    max_capacity: int
    shards: int


@dataclass(kw_only=True)
class MokaCacheOptions(Record):
    """The size of a cache in bytes, and for how many milliseconds an entry stays: at all, and without being asked for."""

    max_capacity: int
    time_to_live: int | None
    time_to_idle: int | None
