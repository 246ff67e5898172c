"""Compactions as an administrator sees and asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slate_engine.api.enums import CompactionStatus
from slate_engine.api.records import SsTableHandle, VersionedManifest
from slate_engine.api.shapes import Record, Single, Variant


class SourceId(Variant):
    """What a compaction reads."""

    SORTED_RUN: ClassVar[type[_SourceIdSortedRun]]
    SST_VIEW: ClassVar[type[_SourceIdSstView]]

    def is_SORTED_RUN(self) -> bool:
        return isinstance(self, SourceId.SORTED_RUN)

    def is_SST_VIEW(self) -> bool:
        return isinstance(self, SourceId.SST_VIEW)

    is_sorted_run, is_sst_view = is_SORTED_RUN, is_SST_VIEW


class _SourceIdSortedRun(Single[int], SourceId):
    """A sorted run, by its number."""

    __qualname__ = "SourceId.SORTED_RUN"


class _SourceIdSstView(Single[str], SourceId):
    """An L0 SST, by the ULID of its view."""

    __qualname__ = "SourceId.SST_VIEW"


SourceId.SORTED_RUN, SourceId.SST_VIEW = _SourceIdSortedRun, _SourceIdSstView


class CompactionSpec(Variant):
    """What a compaction does. ``segment`` is the prefix of the segment it works in, empty for the root tree."""

    TIERED: ClassVar[type[_CompactionSpecTiered]]
    DRAIN_SEGMENT: ClassVar[type[_CompactionSpecDrainSegment]]

    def is_TIERED(self) -> bool:
        return isinstance(self, CompactionSpec.TIERED)

    def is_DRAIN_SEGMENT(self) -> bool:
        return isinstance(self, CompactionSpec.DRAIN_SEGMENT)

    is_tiered, is_drain_segment = is_TIERED, is_DRAIN_SEGMENT


@dataclass(repr=False)
class _CompactionSpecTiered(CompactionSpec):
    """Merge the sources into the sorted run numbered ``destination``."""

    __qualname__ = "CompactionSpec.TIERED"
    segment: bytes
    sources: list[SourceId]
    destination: int


@dataclass(repr=False)
class _CompactionSpecDrainSegment(CompactionSpec):
    """Retire the segment: detach the sources and write nothing."""

    __qualname__ = "CompactionSpec.DRAIN_SEGMENT"
    segment: bytes
    sources: list[SourceId]


CompactionSpec.TIERED, CompactionSpec.DRAIN_SEGMENT = _CompactionSpecTiered, _CompactionSpecDrainSegment


@dataclass(kw_only=True)
class Compaction(Record):
    """One compaction: what it was asked to do and how far it is."""

    id: str
    spec: CompactionSpec
    bytes_processed: int
    status: CompactionStatus
    output_ssts: list[SsTableHandle]
    active: bool


@dataclass(kw_only=True)
class VersionedCompactions(Record):
    """A ``.compactions`` object: the compactions that run, and the last that ran."""

    id: int
    compactor_epoch: int
    recent_compactions: list[Compaction]


@dataclass(kw_only=True)
class CompactorStateView(Record):
    """What a compactor decides on: its own state, if there is any yet, and the manifest."""

    compactions: VersionedCompactions | None
    manifest: VersionedManifest
