"""What a database counts, under the names by which the original counts it."""

from __future__ import annotations

from slate_engine.api.metrics import Counter, Gauge, MetricLabel, MetricsRecorder
from slate_engine.lsm.reader import Reader
from slate_engine.lsm.tally import Tally
from slate_engine.lsm.writer import Writer
from slate_engine.state.manifest import Manifest

_GROWING = {
    "bytes_written": "slatedb.db.memtable_write_bytes",
    "waits_for_room": "slatedb.db.backpressure_count",
    "memtables_flushed": "slatedb.db.immutable_memtable_flushes",
    "l0_bytes": "slatedb.db.l0_flush_bytes",
    "wal_files": "slatedb.wal.wal_buffer_flushes",
    "wal_bytes": "slatedb.wal.wal_flush_bytes",
}
"""The counters that follow the numbers of a writer."""


class Meters:
    """The metrics of one handle. Calls are counted as they come; how the database stands is looked at by ``observe``."""

    def __init__(self, recorder: MetricsRecorder) -> None:
        self._recorder = recorder
        self.gets = self._counter("slatedb.db.request_count", op="get")
        self.scans = self._counter("slatedb.db.request_count", op="scan")
        self.flushes = self._counter("slatedb.db.request_count", op="flush")
        self.write_ops = self._counter("slatedb.db.write_ops")
        self.write_batches = self._counter("slatedb.db.write_batch_count")
        self._growing = {field: self._counter(name) for field, name in _GROWING.items()}
        self._memory = self._gauge("slatedb.db.total_mem_size_bytes")
        self._l0 = self._gauge("slatedb.db.l0_sst_count")
        self._largest_l0 = self._gauge("slatedb.db.segment_max_l0_sst_count")
        self._runs = self._gauge("slatedb.db.sorted_run_count")
        self._views = self._gauge("slatedb.db.sst_view_count")
        self._ssts = self._gauge("slatedb.db.sst_count")
        self._external = self._gauge("slatedb.db.external_db_count")
        self._before: Tally | None = None

    def observe_writer(self, writer: Writer) -> None:
        now = writer.tally
        for field, counter in self._growing.items():
            grown = getattr(now, field) - (getattr(self._before, field) if self._before is not None else 0)
            if grown:
                counter.increment(grown)
        self._before = now
        self._memory.set(writer.state.unflushed_bytes)
        self._observe(writer.state.manifest)

    def observe_reader(self, reader: Reader) -> None:
        state = reader.state
        self._memory.set(sum(table.sorted.nbytes for table in state.tail.tables))
        self._observe(state.manifest)

    def _observe(self, manifest: Manifest) -> None:
        sizes = [len(tree.l0) for tree in manifest.trees]
        self._l0.set(sum(sizes))
        self._largest_l0.set(max(sizes))
        self._runs.set(sum(len(tree.runs) for tree in manifest.trees))
        self._views.set(len(manifest.trees.flat.views))
        self._ssts.set(len(manifest.ssts))
        self._external.set(len(manifest.external_dbs))

    def _counter(self, name: str, **labels: str) -> Counter:
        return self._recorder.register_counter(name, None, _labels(labels))

    def _gauge(self, name: str) -> Gauge:
        return self._recorder.register_gauge(name, None, [])


def _labels(labels: dict[str, str]) -> list[MetricLabel]:
    return [MetricLabel(key=key, value=value) for key, value in labels.items()]
