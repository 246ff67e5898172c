"""An SST as bytes: where its parts are, and what they say.

``data blocks | filters? | index | stats? | info | offset of info u64 BE | version u16 BE``, every part up to the info a
section with a checksum. Nothing here does I/O. A reader of ranges takes the end of the file to :func:`parse_footer` (or the
info from the manifest), the index section to :func:`read_index`, and block ranges to
:func:`~slate_engine.format.blocks.decode_blocks`; who has the whole file calls :func:`open_sst`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slate_engine.errors import CorruptData, UnsupportedFormat
from slate_engine.format import checksum
from slate_engine.format.blocks import VERSIONS, decode_blocks
from slate_engine.format.codec import decompress
from slate_engine.format.columns import I64, Bytes, Rows
from slate_engine.format.filters import NamedFilter, decode_filters
from slate_engine.format.sst_meta import SstInfo, SstStats, decode_index, decode_info, decode_stats

FOOTER_SIZE = 10
TAIL_SIZE = 4096
"""How much of a file's end to ask for first: it holds the info of every SST whose keys are not very long."""


class Footer(NamedTuple):
    """The info of an SST, its version, and the byte where its info begins."""

    info: SstInfo
    version: int
    offset: int


@dataclass(frozen=True, slots=True)
class BlockMap:
    """Where the data blocks lie (checksums included) and the separator that stands for each: a key that is greater than
    every key of the block before, and not greater than the first of its own. The first separator is empty."""

    starts: I64
    ends: I64
    first_keys: Bytes

    def __len__(self) -> int:
        return len(self.starts)


def info_offset(tail: Any, size: int, *, object: str = "") -> int:
    """Where the info of a file of ``size`` bytes begins, from its last bytes: a reader may have to fetch more of the end."""
    view = memoryview(tail)
    if size <= FOOTER_SIZE or len(view) < FOOTER_SIZE:
        raise CorruptData(f"a file of {size} bytes is not an SST", object=object)
    offset = int.from_bytes(view[-10:-2], "big")
    version = int.from_bytes(view[-2:], "big")
    if version not in VERSIONS:
        raise UnsupportedFormat(f"{object or 'buffer'} has version {version}; this engine reads {sorted(VERSIONS)}")
    if offset >= size - FOOTER_SIZE:
        raise CorruptData(
            f"the info is said to begin at byte {offset} of {size}", object=object, offset=size - FOOTER_SIZE
        )
    return offset


def parse_footer(tail: Any, size: int, *, object: str = "") -> Footer:
    """The info and version of a file of ``size`` bytes, from its last bytes, which reach back to :func:`info_offset`."""
    view = memoryview(tail)
    offset = info_offset(view, size, object=object)
    begin = offset - (size - len(view))
    if begin < 0:
        raise CorruptData(
            f"the info begins at byte {offset}, before the part that was read", object=object, offset=offset
        )
    payload = checksum.opened(view[begin:-FOOTER_SIZE], object=object, base=offset)
    info = decode_info(payload, object=object, base=offset)
    check_layout(info, offset, object=object)
    return Footer(info, int.from_bytes(view[-2:], "big"), offset)


def check_layout(info: SstInfo, end: int, *, object: str = "") -> None:
    """The parts that ``info`` names follow each other, and end before byte ``end``."""
    at = 0
    for name, offset, length in (
        ("filters", info.filter_offset, info.filter_len),
        ("index", info.index_offset, info.index_len),
        ("stats", info.stats_offset, info.stats_len),
    ):
        if name != "index" and length == 0:
            continue
        if offset < at or length <= checksum.SIZE or offset + length > end:
            raise CorruptData(
                f"the {name} are said to be {length} bytes from byte {offset}, where {at} to {end} are free",
                object=object,
                offset=end,
            )
        at = offset + length


def data_end(info: SstInfo) -> int:
    """The byte after the last data block."""
    return info.filter_offset if info.filter_len else info.index_offset


def read_index(section: Any, info: SstInfo, *, object: str = "") -> BlockMap:
    """The block map from the index section."""
    base, end = info.index_offset, data_end(info)
    index = decode_index(_unpacked(section, info, base, object), object=object, base=base)
    if len(index) and int(index.offsets.max()) > end:
        raise CorruptData(f"a block begins after byte {end}, where the blocks end", object=object, offset=base)
    starts = index.offsets.astype(np.int64)
    ends = np.append(starts[1:], end)[: len(starts)]
    if index.encoded_len is not None:
        padded = index.encoded_len > 0
        filled = starts + index.encoded_len.astype(np.int64)
        if (filled > ends)[padded].any():
            raise CorruptData("a padded block is longer than its place", object=object, offset=base)
        ends = np.where(padded, filled, ends)
    if (ends - starts <= checksum.SIZE).any():
        raise CorruptData("the blocks overlap or are empty", object=object, offset=base)
    return BlockMap(starts, ends, index.first_keys)


def read_filters(section: Any, info: SstInfo, *, object: str = "") -> list[NamedFilter]:
    """The filters in the filter section; none if there is no such section."""
    if not info.filter_len:
        return []
    base = info.filter_offset
    return decode_filters(_unpacked(section, info, base, object), info.filter_format, object=object, base=base)


def read_stats(section: Any, info: SstInfo, *, object: str = "") -> SstStats | None:
    """The statistics from the stats section, if there is one."""
    if not info.stats_len:
        return None
    return decode_stats(_unpacked(section, info, info.stats_offset, object), object=object, base=info.stats_offset)


def _unpacked(section: Any, info: SstInfo, base: int, object: str) -> memoryview:
    payload = checksum.opened(section, object=object, base=base)
    return decompress(info.codec, payload, object=object, offset=base)


@dataclass(frozen=True, slots=True)
class Sst:
    """A whole SST in memory. Its parts are decoded, and their checksums verified, when they are asked for."""

    data: memoryview
    info: SstInfo
    version: int
    object: str

    def _section(self, offset: int, length: int) -> memoryview:
        return self.data[offset : offset + length]

    def index(self) -> BlockMap:
        section = self._section(self.info.index_offset, self.info.index_len)
        return read_index(section, self.info, object=self.object)

    def filters(self) -> list[NamedFilter]:
        section = self._section(self.info.filter_offset, self.info.filter_len)
        return read_filters(section, self.info, object=self.object)

    def stats(self) -> SstStats | None:
        section = self._section(self.info.stats_offset, self.info.stats_len)
        return read_stats(section, self.info, object=self.object)

    def rows(self, first: int = 0, last: int | None = None, *, values: bool = True) -> Rows:
        """The rows of blocks ``[first, last)``, of all of them by default."""
        blocks = self.index()
        part = slice(first, last)
        return decode_blocks(
            self.data,
            blocks.starts[part],
            blocks.ends[part],
            version=self.version,
            codec=self.info.codec,
            object=self.object,
            values=values,
        )


def open_sst(data: Any, *, object: str = "") -> Sst:
    """An SST from all of its bytes."""
    view = memoryview(data).cast("B")
    footer = parse_footer(view, len(view), object=object)
    return Sst(view, footer.info, footer.version, object)
