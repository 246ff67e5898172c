"""What compaction does, for Prometheus."""

from __future__ import annotations

import weakref
from typing import ClassVar

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from slate_engine.errors import CorruptData, Error
from slate_engine.lsm.compaction.specs import sources
from slate_engine.state.compactions import Compactions, CompactionStatus
from slate_engine.state.manifest import Manifest
from slate_engine.store.protocol import NotFound


def _value(counter: Counter) -> float:
    (metric,) = counter.collect()
    return next(sample.value for sample in metric.samples if sample.name.endswith("_total"))


_SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)


class CompactionMetrics:
    """The instruments of one registry. Ask :meth:`of`: a registry takes each name only once."""

    _by_registry: ClassVar[weakref.WeakKeyDictionary[CollectorRegistry, CompactionMetrics]] = (
        weakref.WeakKeyDictionary()
    )

    def __init__(self, registry: CollectorRegistry) -> None:
        self.read = Counter("slate_compaction_read_bytes", "Bytes of SSTs that were merged", registry=registry)
        self.written = Counter("slate_compaction_written_bytes", "Bytes of SSTs that came of it", registry=registry)
        self.ingested = Counter(
            "slate_compaction_l0_bytes", "Bytes of L0 that were merged, the first time for each row", registry=registry
        )
        amplification = Gauge(
            "slate_compaction_write_amplification",
            "Bytes written, by flushes and by compactions, for a byte of L0, since this process began",
            registry=registry,
        )
        amplification.set_function(self.write_amplification)
        self.throughput = Gauge(
            "slate_compaction_bytes_per_second", "Input of the job that was merged last, by its time", registry=registry
        )
        self.seconds = Histogram(
            "slate_compaction_seconds", "Time that the merge of a job took", registry=registry, buckets=_SECONDS
        )
        self.running = Gauge("slate_compaction_running", "Jobs that this process merges", registry=registry)
        self.ended = Counter("slate_compaction_jobs", "Jobs that ended, by outcome", ("outcome",), registry=registry)
        self.jobs = Gauge("slate_compaction_book_jobs", "Jobs in the book, by status", ("status",), registry=registry)
        self.l0 = Gauge("slate_compaction_l0_ssts", "SSTs in the fullest L0", registry=registry)
        self.runs = Gauge("slate_compaction_sorted_runs", "Sorted runs of all trees", registry=registry)
        self.backlog = Gauge("slate_compaction_backlog_bytes", "Bytes in L0 that no job has taken", registry=registry)
        self.age = Gauge("slate_compaction_oldest_job_seconds", "Age of the oldest job under way", registry=registry)
        self.corrupt = Counter(
            "slate_compaction_corrupt_inputs",
            "Jobs stopped by a corrupt or missing object",
            ("object",),
            registry=registry,
        )

    @classmethod
    def of(cls, registry: CollectorRegistry | None = None) -> CompactionMetrics:
        registry = registry or REGISTRY
        if registry not in cls._by_registry:
            cls._by_registry[registry] = cls(registry)
        return cls._by_registry[registry]

    def moved(self, bytes_in: int, bytes_out: int) -> None:
        """As it happens, so that the rate of these counters is the throughput of now."""
        self.read.inc(bytes_in)
        self.written.inc(bytes_out)

    def merged(self, bytes_in: int, l0_bytes: int, seconds: float) -> None:
        self.ingested.inc(l0_bytes)
        self.seconds.observe(seconds)
        self.throughput.set(bytes_in / max(seconds, 1e-3))

    def write_amplification(self) -> float:
        ingested = _value(self.ingested)
        return 1 + _value(self.written) / ingested if ingested else 0.0

    def failed(self, error: Error) -> None:
        if isinstance(error, CorruptData):
            self.corrupt.labels(error.object).inc()
        elif isinstance(error, NotFound):
            self.corrupt.labels(error.key).inc()

    def observe(self, manifest: Manifest, book: Compactions, now_ms: int) -> None:
        """The state as a coordinator sees it."""
        for status in CompactionStatus:
            self.jobs.labels(status.name.lower()).set(sum(job.status is status for job in book.jobs))
        active = [job for job in book.jobs if job.is_active]
        self.age.set(max((now_ms - job.id.ms for job in active), default=0) / 1000)
        self.l0.set(max(len(tree.l0) for tree in manifest.trees))
        self.runs.set(sum(len(tree.runs) for tree in manifest.trees))
        taken = {source for job in active for source in sources(job.spec)}
        waiting = (zip(tree.l0.ids, tree.l0.sizes, strict=True) for tree in manifest.trees)
        self.backlog.set(sum(int(size) for pairs in waiting for id, size in pairs if id not in taken))
