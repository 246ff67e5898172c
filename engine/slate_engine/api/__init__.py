"""The Python API: what a caller says to a database and what it answers.

Everything here has the name, the arguments and the meaning that it has in the ``slatedb`` wheel, so that
``import slate_engine as slatedb`` is a drop-in; ``tests/unit/api/test_conformance.py`` compares them one by one.

The modules that :data:`HOME` lists are the vocabulary: records, options, settings, errors. They build on
``slate_engine.errors`` and on each other, and on nothing that is slow to import. The others are the handles (a database, a
reader, a transaction), which bring the engine along; ``slate_engine`` itself lists both.
"""

from __future__ import annotations

_NAMES = {
    "batch": "WriteBatch",
    "caches": "DbCache",
    "choices": "CacheTarget FilterContext PrefixTarget ReaderMode Ttl",
    "compactions": "Compaction CompactionSpec CompactorStateView SourceId VersionedCompactions",
    "enums": "CompactionStatus CompressionCodec DurabilityLevel FilterFormat FlushType IsolationLevel"
    " IterationOrder LogLevel ObjectStoreType RowEntryKind SstBlockSize SstType",
    "filters": "FilterPolicy PrefixExtractor",
    "keys": "KeyRange",
    "logs": "LogCallback LogRecord init_logging",
    "merging": "MergeOperator MergeOperatorCallbackError",
    "metrics": "Counter Gauge Histogram HistogramMetricValue Metric MetricLabel MetricsRecorder MetricValue UpDownCounter",
    "options": "BloomFilterOptions CheckpointOptions CloneSourceSpec CloseOptions FlushOptions FoyerCacheOptions"
    " GarbageCollectorDirectoryOptions GarbageCollectorOptions GarbageCollectorScheduleOptions MergeOptions"
    " MokaCacheOptions PutOptions ReaderOptions ReadOptions ScanOptions SlateDbWalReaderOptions TracingOptions"
    " WriteOptions",
    "prometheus": "PrometheusMetricsRecorder",
    "recorder": "DefaultMetricsRecorder",
    "records": "Checkpoint CheckpointCreateResult DbStatus ExternalDb IdentifiedObjectMetadata KeyValue ObjectMetadata"
    " RowEntry Segment SegmentPrefix SortedRun SsTableHandle SsTableId SsTableInfo SsTableView VersionedManifest WalRows",
    "settings": "Settings",
}

HOME: dict[str, str] = {
    "CloseReason": "slate_engine.errors",
    "Error": "slate_engine.errors",
    "InternalError": "slate_engine.errors",
    **{name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()},
}
"""The module of each public name, so that the package can import it when it is first asked for."""
