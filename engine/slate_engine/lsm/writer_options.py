"""How a live writer behaves."""

from __future__ import annotations

from dataclasses import dataclass, field

from slate_engine.format.filters import PrefixExtractor
from slate_engine.format.sst_build import SstOptions
from slate_engine.lsm.visible import MergeOperator


@dataclass(frozen=True)
class WriterOptions:
    """Times in seconds. The defaults are SlateDB's."""

    flush_interval: float | None = 0.1
    """How long rows gather before the WAL is written, unless somebody waits for them; None leaves it to explicit flushes."""
    wal_enabled: bool = True
    max_parallel_writes: int = 1
    manifest_poll_interval: float = 1.0
    l0_sst_size_bytes: int = 64 << 20
    l0_max_ssts: int = 8
    """With so many SSTs in level 0 of a tree, flushing waits for compaction."""
    l0_max_ssts_per_key: int | None = None
    """The same where so many of them may hold one and the same key, which is what makes reads slow. None: no limit."""
    max_unflushed_bytes: int = 1 << 30
    max_wal_files: int = 4096
    """So many WAL files are replayed at most: then the memtable is flushed, however small it is."""
    sst: SstOptions = field(default_factory=SstOptions)
    operator: MergeOperator | None = None
    extractor: PrefixExtractor | None = None
    """Divides the keys into segments, each a tree of its own."""
