"""SSTs as the state of a database knows them: one as a :class:`SstHandle`, many as the columns of :class:`Ssts`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from slate_engine.format.columns import I64, U64
from slate_engine.format.flatbuf.spans import Spans
from slate_engine.format.ids import Ids, Ulid
from slate_engine.format.sst_meta import Codec, FilterFormat, SstInfo, SstType

NUMBERS = (
    "index_offset",
    "index_len",
    "filter_offset",
    "filter_len",
    "codec",
    "sst_type",
    "stats_offset",
    "stats_len",
    "filter_format",
)
"""The columns of :class:`Ssts` that are numbers of :class:`SstInfo`."""


@dataclass(frozen=True, slots=True)
class SstHandle:
    """All that is needed to read a compacted SST without looking at its footer first."""

    id: Ulid
    info: SstInfo
    format_version: int

    @property
    def estimated_size(self) -> int:
        """The size that schedulers reckon with: all but the tail of the file."""
        return self.info.index_offset + self.info.index_len


@dataclass(frozen=True, slots=True, eq=False)
class Ssts(Sequence[SstHandle]):
    """A table of SSTs in columns. Its rows are handles, made when asked for."""

    id: Ids
    format_version: U64
    first: Spans
    last: Spans
    index_offset: U64
    index_len: U64
    filter_offset: U64
    filter_len: U64
    codec: U64
    sst_type: U64
    stats_offset: U64
    stats_len: U64
    filter_format: U64

    @staticmethod
    def of(handles: Iterable[SstHandle]) -> Ssts:
        listed = list(handles)
        infos = [handle.info for handle in listed]
        return Ssts(
            Ids.of(handle.id for handle in listed),
            np.array([handle.format_version for handle in listed], np.uint64),
            Spans.of(info.first_entry for info in infos),
            Spans.of(info.last_entry for info in infos),
            *(np.array([getattr(info, name) for info in infos], np.uint64) for name in NUMBERS),
        )

    @staticmethod
    def concat(parts: Sequence[Ssts]) -> Ssts:
        if len(parts) == 1:
            return parts[0]
        return Ssts(
            Ids.concat([part.id for part in parts]),
            np.concatenate([part.format_version for part in parts]),
            Spans.concat([part.first for part in parts]),
            Spans.concat([part.last for part in parts]),
            *(np.concatenate([getattr(part, name) for part in parts]) for name in NUMBERS),
        )

    def __len__(self) -> int:
        return len(self.id)

    @overload
    def __getitem__(self, i: int) -> SstHandle: ...

    @overload
    def __getitem__(self, i: slice) -> Ssts: ...

    def __getitem__(self, i: int | slice) -> SstHandle | Ssts:
        if isinstance(i, slice):
            return self.take(i)
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        return SstHandle(
            self.id[i],
            SstInfo(
                first_entry=self.first[i],
                last_entry=self.last[i],
                index_offset=int(self.index_offset[i]),
                index_len=int(self.index_len[i]),
                filter_offset=int(self.filter_offset[i]),
                filter_len=int(self.filter_len[i]),
                codec=Codec(int(self.codec[i])),
                sst_type=SstType(int(self.sst_type[i])),
                stats_offset=int(self.stats_offset[i]),
                stats_len=int(self.stats_len[i]),
                filter_format=FilterFormat(int(self.filter_format[i])),
            ),
            int(self.format_version[i]),
        )

    def __iter__(self) -> Iterator[SstHandle]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Ssts({list(self)})" if len(self) < 4 else f"<{len(self)} SSTs>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ssts):
            return NotImplemented
        return self.id == other.id and self.same_content(other)

    __hash__ = None  # type: ignore[assignment]

    def same_content(self, other: Ssts) -> bool:
        """Whether all but the ids is equal, row by row."""
        return (
            np.array_equal(self.format_version, other.format_version)
            and self.first == other.first
            and self.last == other.last
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in NUMBERS)
        )

    @property
    def sizes(self) -> U64:
        """The estimated size of each."""
        return self.index_offset + self.index_len

    def take(self, rows: I64 | slice) -> Ssts:
        return Ssts(
            self.id.take(rows),
            self.format_version[rows],
            self.first.take(rows),
            self.last.take(rows),
            *(getattr(self, name)[rows] for name in NUMBERS),
        )

    def find(self, id: Ulid) -> SstHandle | None:
        """The SST with this id, where the table is in ascending order of ids, as the pool of a manifest is."""
        row = int(self.id.find(Ids.of([id]))[0])
        return self[row] if row >= 0 else None


NO_SSTS = Ssts.of([])
