"""WAL files: SSTs of rows in commit order, and the empty files that fence a writer off."""

from __future__ import annotations

from typing import Any

from slate_engine.errors import CorruptData
from slate_engine.format.columns import EMPTY, Rows
from slate_engine.format.sst import open_sst
from slate_engine.format.sst_build import BuiltSst, SstBuilder, SstOptions
from slate_engine.format.sst_meta import Codec, SstType

FENCE = b""
"""What a new writer puts at the next WAL id: whoever wrote before finds the id taken."""


def build_wal_sst(rows: Rows, codec: Codec = Codec.NONE) -> BuiltSst:
    """The WAL file of these rows, which come by rising seq; the rows of one commit share theirs."""
    builder = SstBuilder(SstOptions(codec=codec), kind=SstType.WAL)
    builder.append(rows)
    return builder.finish()


def read_wal(data: Any, *, object: str = "") -> Rows:
    """The rows of a WAL file; a fence has none."""
    if not len(data):
        return EMPTY
    sst = open_sst(data, object=object)
    if sst.info.sst_type is not SstType.WAL:
        raise CorruptData("this is an SST of sorted rows, where a WAL file should be", object=object)
    return sst.rows()
