"""One object of a database as facts that can be printed."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from itertools import islice
from typing import Any
from uuid import UUID

from slate_engine.cli.text import show_bytes
from slate_engine.errors import InvalidError
from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, Rows
from slate_engine.format.ids import Ids, Ulid
from slate_engine.format.sst import open_sst
from slate_engine.format.wal import read_wal
from slate_engine.state.compactions_read import decode_compactions
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.state.tracker import SequenceTracker
from slate_engine.store.boundary import parse
from slate_engine.store.protocol import Buffer


def decode_object(name: str, data: Buffer, key: str, rows: int) -> dict[str, Any]:
    """What the object ``name`` of a database holds, with at most so many rows of an SST."""
    directory = name.partition("/")[0]
    if directory == "manifest":
        facts = plain(decode_manifest(data, object=key))
    elif directory == "compactions":
        facts = plain(decode_compactions(data, object=key))
    elif directory == "wal":
        found = read_wal(data, object=key)
        facts = {"fence": not len(data), "row_count": len(found), "rows": row_facts(found, rows)}
    elif directory == "compacted":
        facts = _sst_facts(data, key, rows)
    elif name.endswith(".boundary"):
        facts = {"boundary": parse(data, key)}
    else:
        raise InvalidError(f"{name} is not an object of a database; `slate explain` lists those that there are")
    return {"object": key, "bytes": len(data), **facts}


def _sst_facts(data: Buffer, key: str, rows: int) -> dict[str, Any]:
    sst = open_sst(data, object=key)
    blocks = sst.index()
    stats = sst.stats()
    return {
        "version": sst.version,
        "info": plain(sst.info),
        "blocks": len(blocks),
        "filters": [{"name": each.name, "bytes": len(each.data)} for each in sst.filters()],
        "stats": {
            f: getattr(stats, f) for f in ("num_puts", "num_deletes", "num_merges", "raw_key_size", "raw_val_size")
        }
        if stats
        else None,
        "rows": row_facts(sst.rows(0, max(1, rows)), rows),
    }


def row_facts(rows: Rows, limit: int) -> list[dict[str, Any]]:
    return [
        {
            "key": show_bytes(key),
            "kind": "delete" if flags & TOMBSTONE else "merge" if flags & MERGE else "put",
            "value": None if flags & TOMBSTONE else show_bytes(value),
            "seq": seq,
            "create_ts": created if flags & HAS_CREATE else None,
            "expire_ts": expires if flags & HAS_EXPIRE else None,
        }
        for key, value, seq, flags, created, expires in islice(rows.tuples(), limit)
    ]


def plain(value: Any) -> Any:
    """A value of the state as dictionaries, lists, texts and numbers."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, bytes):
        return show_bytes(value)
    if isinstance(value, Ulid | UUID):
        return str(value)
    if isinstance(value, Ids):
        return [str(id) for id in value]
    if isinstance(value, SequenceTracker):
        return list(zip(value.seq.tolist(), value.time_s.tolist(), strict=True))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(each) for each in value]
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value
