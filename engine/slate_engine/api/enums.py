"""The plain enumerations of the API. Names and values are the wheel's; both are what a program may have stored.

``CloseReason`` stands in ``slate_engine.errors``, whose errors carry it.
"""

from __future__ import annotations

import enum


class FlushType(enum.Enum):
    """What a flush writes out: the memtables (as L0 SSTs) or the write-ahead log."""

    MEM_TABLE = 0
    WAL = 1


class CompactionStatus(enum.Enum):
    """Where a compaction stands. ``COMPACTED`` has its output written but not yet in the manifest."""

    SUBMITTED = 0
    SCHEDULED = 1
    RUNNING = 2
    COMPLETED = 3
    FAILED = 4
    COMPACTED = 5


class CompressionCodec(enum.Enum):
    """How the blocks of an SST are compressed."""

    SNAPPY = 0
    ZLIB = 1
    LZ4 = 2
    ZSTD = 3


class SstType(enum.Enum):
    """Whether an SST holds sorted data or a piece of the write-ahead log."""

    COMPACTED = 0
    WAL = 1


class FilterFormat(enum.Enum):
    """One bloom filter and nothing else, or any number of named filters."""

    LEGACY = 0
    COMPOSITE = 1


class LogLevel(enum.Enum):
    """How much to log; each level includes those before it."""

    OFF = 0
    ERROR = 1
    WARN = 2
    INFO = 3
    DEBUG = 4
    TRACE = 5


class DurabilityLevel(enum.Enum):
    """What a read may see: only what the object store holds, or also what still waits in memory."""

    REMOTE = 0
    MEMORY = 1


class RowEntryKind(enum.Enum):
    """What a row version does to its key."""

    VALUE = 0
    TOMBSTONE = 1
    MERGE = 2


class IterationOrder(enum.Enum):
    """The order of keys in a scan."""

    ASCENDING = 0
    DESCENDING = 1


class IsolationLevel(enum.Enum):
    """What a transaction is protected from: write conflicts only, or also reads that went stale before commit."""

    SNAPSHOT = 0
    SERIALIZABLE_SNAPSHOT = 1


class ObjectStoreType(enum.Enum):
    """The kind of storage an ``ObjectStoreBuilder`` builds."""

    S3 = 0
    AZURE = 1
    GCS = 2
    LOCAL = 3
    IN_MEMORY = 4


class SstBlockSize(enum.Enum):
    """The size up to which a block of an SST is filled, before compression."""

    BLOCK1_KIB = 0
    BLOCK2_KIB = 1
    BLOCK4_KIB = 2
    BLOCK8_KIB = 3
    BLOCK16_KIB = 4
    BLOCK32_KIB = 5
    BLOCK64_KIB = 6

    @property
    def nbytes(self) -> int:
        """The size in bytes; each member is twice the one before it."""
        return 1024 << int(self.value)


class MetricLevel(enum.Enum):
    """Which metrics are kept: all of them, or all but those of the hottest paths. Not in the wheel's Python API, where
    it shows only as the text of the setting ``metric_level``."""

    DEBUG = "Debug"
    INFO = "Info"


class PreloadLevel(enum.Enum):
    """What the disk cache fetches when a database opens: the L0 SSTs, or all of them. Like :class:`MetricLevel`, the
    wheel knows it only as the text of a setting."""

    L0_SST = "L0Sst"
    ALL_SST = "AllSst"
