"""What the database answers with."""

from __future__ import annotations

from dataclasses import dataclass

from slate_engine.api.enums import CompressionCodec, FilterFormat, RowEntryKind, SstType
from slate_engine.api.keys import KeyRange
from slate_engine.api.shapes import Record
from slate_engine.errors import CloseReason


@dataclass(kw_only=True)
class KeyValue(Record):
    """A row as a read gives it. Times are milliseconds of the unix epoch."""

    key: bytes
    value: bytes
    seq: int
    create_ts: int
    expire_ts: int | None


@dataclass(kw_only=True)
class RowEntry(Record):
    """A row version as the write-ahead log holds it; a tombstone has no value."""

    kind: RowEntryKind
    key: bytes
    value: bytes | None
    seq: int
    create_ts: int | None
    expire_ts: int | None


@dataclass(kw_only=True)
class WalRows(Record):
    """Rows of the write-ahead log, up to and including the file ``last_consumed_wal_file_id``."""

    rows: list[RowEntry]
    last_consumed_wal_file_id: int


@dataclass(kw_only=True)
class SegmentPrefix(Record):
    """The keys of one segment start with this."""

    prefix: bytes


@dataclass(kw_only=True)
class DbStatus(Record):
    """How a handle stands: everything up to ``durable_seq`` is in the object store; open while there is no reason."""

    durable_seq: int
    close_reason: CloseReason | None
    segments: list[SegmentPrefix]


@dataclass(kw_only=True)
class ObjectMetadata(Record):
    """What the object store says of an object."""

    last_modified_seconds: int
    last_modified_nanos: int
    size: int
    location: str
    e_tag: str | None
    version: str | None


@dataclass(kw_only=True)
class IdentifiedObjectMetadata(Record):
    """A numbered object (a manifest, a WAL file) and what the object store says of it."""

    id: int
    metadata: ObjectMetadata


@dataclass(kw_only=True)
class Checkpoint(Record):
    """A state of the database that garbage collection leaves alone until it expires."""

    id: str
    manifest_id: int
    expire_time_secs: int | None
    create_time_secs: int
    name: str | None


@dataclass(kw_only=True)
class CheckpointCreateResult(Record):
    """The checkpoint that was made, and the manifest it holds."""

    id: str
    manifest_id: int


@dataclass(kw_only=True)
class SsTableId(Record):
    """The ULID of a compacted SST."""

    value: str


@dataclass(kw_only=True)
class SsTableInfo(Record):
    """What the footer of an SST says of it."""

    first_entry: bytes | None
    last_entry: bytes | None
    index_offset: int
    index_len: int
    filter_offset: int
    filter_len: int
    compression_codec: CompressionCodec | None
    sst_type: SstType
    stats_offset: int
    stats_len: int
    filter_format: FilterFormat


@dataclass(kw_only=True)
class SsTableHandle(Record):
    """An SST that a manifest names."""

    id: SsTableId
    info: SsTableInfo
    estimated_size_bytes: int


@dataclass(kw_only=True)
class SsTableView(Record):
    """An SST of which only the keys of ``visible_range`` count; clones see parts of their parents so."""

    id: str
    sst: SsTableHandle
    visible_range: KeyRange | None
    estimated_size_bytes: int


@dataclass(kw_only=True)
class SortedRun(Record):
    """SSTs in the order of their keys, without overlap."""

    id: int
    sst_views: list[SsTableView]
    estimated_size_bytes: int


@dataclass(kw_only=True)
class Segment(Record):
    """A tree of its own for the keys that start with ``prefix``."""

    prefix: bytes
    last_compacted_l0_sst_view_id: str | None
    l0: list[SsTableView]
    compacted: list[SortedRun]


@dataclass(kw_only=True)
class ExternalDb(Record):
    """Another database whose SSTs this one reads: the parent of a clone."""

    path: str
    source_checkpoint_id: str
    final_checkpoint_id: str | None
    sst_ids: list[SsTableId]


@dataclass(kw_only=True)
class VersionedManifest(Record):
    """A manifest: all that the database consists of at one moment, and who may write to it."""

    id: int
    writer_epoch: int
    compactor_epoch: int
    external_dbs: list[ExternalDb]
    initialized: bool
    last_compacted_l0_sst_view_id: str | None
    last_compacted_l0_sst_id: str | None
    l0: list[SsTableView]
    compacted: list[SortedRun]
    segments: list[Segment]
    next_wal_sst_id: int
    replay_after_wal_id: int
    last_l0_clock_tick: int
    last_l0_seq: int
    recent_snapshot_min_seq: int
    checkpoints: list[Checkpoint]
    wal_object_store_uri: str | None
