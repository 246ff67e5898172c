"""The state of a database as an administrator sees it: the engine's values as records."""

from __future__ import annotations

from slate_engine.api import arguments
from slate_engine.api.building import instance
from slate_engine.api.compactions import Compaction, CompactionSpec, SourceId, VersionedCompactions
from slate_engine.api.enums import CompactionStatus, CompressionCodec, FilterFormat, SstType
from slate_engine.api.ranges import public_range
from slate_engine.api.records import (
    Checkpoint,
    ExternalDb,
    Segment,
    SortedRun,
    SsTableHandle,
    SsTableId,
    SsTableInfo,
    SsTableView,
    VersionedManifest,
)
from slate_engine.errors import InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_meta import Codec
from slate_engine.state import compactions, manifest, tree
from slate_engine.state.ssts import SstHandle
from slate_engine.state.views import SstView, Views

_CODECS = {
    Codec.SNAPPY: CompressionCodec.SNAPPY,
    Codec.ZLIB: CompressionCodec.ZLIB,
    Codec.LZ4: CompressionCodec.LZ4,
    Codec.ZSTD: CompressionCodec.ZSTD,
}


def manifest_record(id: int, value: manifest.Manifest) -> VersionedManifest:
    root = value.root
    return VersionedManifest(
        id=id,
        writer_epoch=value.writer_epoch,
        compactor_epoch=value.compactor_epoch,
        external_dbs=[_external_db(each) for each in value.external_dbs],
        initialized=value.initialized,
        last_compacted_l0_sst_view_id=_text(root.last_compacted_l0_view),
        last_compacted_l0_sst_id=_text(root.last_compacted_l0_sst),
        l0=_views(root.l0),
        compacted=[_run(run) for run in root.runs],
        segments=[_segment(each) for each in value.segments],
        next_wal_sst_id=value.next_wal_id,
        replay_after_wal_id=value.replay_after_wal_id,
        last_l0_clock_tick=value.last_l0_clock_tick,
        last_l0_seq=value.last_l0_seq,
        recent_snapshot_min_seq=value.recent_snapshot_min_seq,
        checkpoints=[checkpoint_record(each) for each in value.checkpoints],
        wal_object_store_uri=value.wal_object_store_uri,
    )


def checkpoint_record(value: manifest.Checkpoint) -> Checkpoint:
    return Checkpoint(
        id=str(value.id),
        manifest_id=value.manifest_id,
        expire_time_secs=value.expire_time_s,
        create_time_secs=value.create_time_s,
        name=value.name,
    )


def compactions_record(id: int, value: compactions.Compactions) -> VersionedCompactions:
    jobs = [compaction_record(job) for job in value.jobs]
    return VersionedCompactions(id=id, compactor_epoch=value.compactor_epoch, recent_compactions=jobs)


def compaction_record(value: compactions.Compaction) -> Compaction:
    outputs = [sst for part in value.all_outputs() for sst in part]
    return Compaction(
        id=str(value.id),
        spec=_spec(value.spec),
        bytes_processed=sum(sst.estimated_size for sst in outputs),
        status=CompactionStatus[value.status.name],
        output_ssts=[_sst(sst) for sst in outputs],
        active=value.is_active,
    )


def _spec(value: compactions.Spec) -> CompactionSpec:
    views: list[SourceId] = [SourceId.SST_VIEW(str(id)) for id in value.l0_views]
    sources = views + [SourceId.SORTED_RUN(id) for id in value.sorted_runs]
    if isinstance(value, compactions.TieredSpec):
        return CompactionSpec.TIERED(value.segment, sources, value.destination)
    return CompactionSpec.DRAIN_SEGMENT(value.segment, sources)


def engine_spec(spec: CompactionSpec) -> compactions.Spec:
    """The other way round: what an administrator asks for."""
    wanted = instance(spec, CompactionSpec, "spec")
    assert isinstance(wanted, CompactionSpec.TIERED | CompactionSpec.DRAIN_SEGMENT)  # there are no others
    segment = arguments.octets(wanted.segment, "segment")
    sources = [instance(source, SourceId, "a source") for source in wanted.sources]
    views = tuple(view_id(source[0]) for source in sources if isinstance(source, SourceId.SST_VIEW))
    runs = tuple(
        arguments.unsigned(source[0], "the id of a sorted run", 32)
        for source in sources
        if isinstance(source, SourceId.SORTED_RUN)
    )
    if isinstance(wanted, CompactionSpec.TIERED):
        return compactions.TieredSpec(views, runs, arguments.unsigned(wanted.destination, "destination", 32), segment)
    return compactions.DrainSpec(segment, views, runs)


def view_id(text: str) -> Ulid:
    """The ULID of an SST or of a view of one."""
    found = arguments.text(text, "the id of an SST")
    try:
        return Ulid.parse(found.upper())
    except ValueError:
        reason = "invalid length" if len(found) != 26 else "invalid character"
        raise InvalidError(f"invalid SST ULID: {reason}: {found!r}; take it from a manifest") from None


def _segment(value: tree.Segment) -> Segment:
    return Segment(
        prefix=value.prefix,
        last_compacted_l0_sst_view_id=_text(value.tree.last_compacted_l0_view),
        l0=_views(value.tree.l0),
        compacted=[_run(run) for run in value.tree.runs],
    )


def _run(value: tree.SortedRun) -> SortedRun:
    return SortedRun(id=value.id, sst_views=_views(value.views), estimated_size_bytes=value.estimated_size)


def _views(values: Views) -> list[SsTableView]:
    return [_view(view) for view in values]


def _view(value: SstView) -> SsTableView:
    return SsTableView(
        id=str(value.id),
        sst=_sst(value.sst),
        visible_range=public_range(value.visible_range),
        estimated_size_bytes=value.estimated_size,
    )


def _sst(value: SstHandle) -> SsTableHandle:
    info = value.info
    return SsTableHandle(
        id=SsTableId(value=str(value.id)),
        info=SsTableInfo(
            first_entry=info.first_entry,
            last_entry=info.last_entry,
            index_offset=info.index_offset,
            index_len=info.index_len,
            filter_offset=info.filter_offset,
            filter_len=info.filter_len,
            compression_codec=_CODECS.get(info.codec),
            sst_type=SstType[info.sst_type.name],
            stats_offset=info.stats_offset,
            stats_len=info.stats_len,
            filter_format=FilterFormat[info.filter_format.name],
        ),
        estimated_size_bytes=value.estimated_size,
    )


def _external_db(value: manifest.ExternalDb) -> ExternalDb:
    return ExternalDb(
        path=value.path,
        source_checkpoint_id=str(value.source_checkpoint_id),
        final_checkpoint_id=_text(value.final_checkpoint_id),
        sst_ids=[SsTableId(value=str(id)) for id in value.sst_ids],
    )


def _text(value: object | None) -> str | None:
    return None if value is None else str(value)
