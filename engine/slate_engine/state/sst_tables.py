"""The tables that manifests and ``.compactions`` have in common, to and from columns: ids, ranges of keys, SSTs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import numpy as np

from slate_engine.errors import UnsupportedFormat
from slate_engine.format.columns import I64, U64
from slate_engine.format.flatbuf import layout
from slate_engine.format.flatbuf.field import Field
from slate_engine.format.flatbuf.reader import Tables
from slate_engine.format.flatbuf.spans import Spans
from slate_engine.format.flatbuf.writer import Builder, Refs
from slate_engine.format.ids import Ids, Ulid
from slate_engine.format.key_range import BoundType
from slate_engine.state.ranges import NO_RANGES, Ranges
from slate_engine.state.ssts import NUMBERS, Ssts

_INFO: Mapping[str, Field] = {name: getattr(layout.SsTableInfo, name) for name in NUMBERS}

_KNOWN = (("codec", len(layout.Codec)), ("sst_type", len(layout.SstType)), ("filter_format", len(layout.FilterFormat)))

ABSENT_FORMAT_VERSION = 1
"""The version of an SST's blocks where the table does not say."""


def read_ids(tables: Tables) -> Ids:
    """Ulid and Uuid tables are alike."""
    return Ids(*tables.u64(layout.Ulid.high, layout.Ulid.low))


def read_ulids(tables: Tables, field: Field) -> list[Ulid | None]:
    """An optional id of each table."""
    children = tables.child(field)
    return [id if at else None for at, id in zip(children.at.tolist(), read_ids(children), strict=True)]


def write_ids(builder: Builder, ids: Ids) -> Refs:
    return builder.tables(len(ids), {layout.Ulid.high: ids.high, layout.Ulid.low: ids.low})


def write_optional_ids(builder: Builder, ids: Sequence[Ulid | UUID | None]) -> Refs:
    """The ref of each; 0 for None."""
    refs = np.zeros(len(ids), np.int64)
    refs[[id is not None for id in ids]] = write_ids(builder, Ids.of(id for id in ids if id is not None))
    return refs


def read_ranges(tables: Tables) -> tuple[Ranges, I64]:
    """The distinct ranges among these tables, and which one each of them is; -1 where it is absent."""
    # The same table may serve any number of views: it is read once.
    at, which = np.unique(tables.at, return_inverse=True)
    which = which.reshape(-1).astype(np.int64, copy=False)
    if len(at) and at[0] == 0:
        at, which = at[1:], which - 1
    if not len(at):
        return NO_RANGES, which
    distinct = Tables(tables.source, at)
    ranges = Ranges(
        *_read_bounds(distinct.child(layout.BytesRange.start_bound)),
        *_read_bounds(distinct.child(layout.BytesRange.end_bound)),
    )
    empty = np.flatnonzero(ranges.is_empty)
    if len(empty):
        raise distinct.error("a range of keys is empty", int(empty[0]))
    return ranges, which


def _read_bounds(bounds: Tables) -> tuple[U64, Spans]:
    (kinds,), keys = bounds.u64(layout.BytesBound.bound_type), bounds.spans(layout.BytesBound.key)
    bounded = (kinds == BoundType.INCLUDED) | (kinds == BoundType.EXCLUDED)
    wrong = np.flatnonzero((bounded != keys.present) | (~bounded & (kinds != BoundType.UNBOUNDED)))
    if len(wrong):
        raise bounds.error("a bound is of no known type, or lacks its key, or has one and must not", int(wrong[0]))
    return kinds, keys


def write_ranges(builder: Builder, ranges: Ranges) -> Refs:
    refs = []
    for kinds, keys in ((ranges.start_type, ranges.start), (ranges.end_type, ranges.end)):
        columns = {
            layout.BytesBound.bound_type: kinds,
            layout.BytesBound.key: builder.strings(keys, terminated=False),
        }
        refs.append(builder.tables(len(ranges), columns))
    return builder.tables(len(ranges), {layout.BytesRange.start_bound: refs[0], layout.BytesRange.end_bound: refs[1]})


def read_ssts(tables: Tables, id: Field, info: Field, format_version: Field) -> Ssts:
    """The three fields tell which of the tables that describe an SST these are."""
    infos = tables.child(info)
    numbers = dict(zip(_INFO, infos.u64(*_INFO.values()), strict=True))
    for name, known in _KNOWN:
        unknown = np.flatnonzero(numbers[name] >= known)
        if len(unknown):
            at = tables.source.base + int(infos.at[unknown[0]])
            raise UnsupportedFormat(
                f"an SST in {tables.source.object} at byte {at} has the unknown {name} {numbers[name][unknown[0]]}: "
                "read this database with the newer SlateDB that wrote it"
            )
    (versions,) = tables.u64(format_version)
    # Zero is no version: it stands for absence here.
    versions[versions == 0] = ABSENT_FORMAT_VERSION
    return Ssts(
        read_ids(tables.child(id)),
        versions,
        infos.spans(layout.SsTableInfo.first_entry),
        infos.spans(layout.SsTableInfo.last_entry),
        **numbers,
    )


def write_infos(builder: Builder, ssts: Ssts) -> Refs:
    return builder.tables(
        len(ssts),
        {
            layout.SsTableInfo.first_entry: builder.strings(ssts.first, terminated=False),
            layout.SsTableInfo.last_entry: builder.strings(ssts.last, terminated=False),
            **{field: getattr(ssts, name) for name, field in _INFO.items()},
        },
    )
