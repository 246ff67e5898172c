"""Databases for tests, written step by step by our own engine, with what each state must hold; and reads without Spark."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType

import slate_engine as slatedb
from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint, delete_checkpoint
from slate_engine.format.columns import Bytes, Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_build import build_sst
from slate_engine.lsm.compaction.compactor import compact_once
from slate_engine.lsm.compaction.plan import Major
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import SystemRuntime
from slate_engine.spark.columns import columns_of
from slate_engine.spark.frame import reader_of
from slate_engine.spark.options import ReadOptions
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.state.tree import Tree
from slate_engine.state.views import SstView, Views
from slate_engine.store.open import open_store

NOBODY = ""
"""The address of a keeper where there is none."""

State = dict[bytes, bytes]


@dataclass
class Story:
    """A database ``db`` in a folder, and what it holds by now."""

    folder: Path
    rows: State = field(default_factory=dict)
    kept: dict[str, State] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    @property
    def options(self) -> dict[str, str]:
        return {"url": self.url, "path": "db"}

    def files(self) -> DatabaseFiles:
        runtime = SystemRuntime()
        return DatabaseFiles(open_store(self.url, runtime=runtime), "db", runtime)

    async def write(self, changes: Mapping[bytes, bytes | None], *, flush: bool = True) -> None:
        """Put, or delete where there is no value. Without ``flush`` the rows stay in the log."""
        place = slatedb.ObjectStoreBuilder(slatedb.ObjectStoreType.LOCAL)
        place.with_config("local_path", str(self.folder))
        builder = slatedb.DbBuilder("db", place.build())
        settings = slatedb.Settings.default()
        for name in ("compactor_options", "garbage_collector_options"):
            settings.set(name, json.dumps(None))
        builder.with_settings(settings)
        db = await builder.build()
        batch = slatedb.WriteBatch()
        for key, value in changes.items():
            if value is None:
                batch.delete(key)
                self.rows.pop(key, None)
            else:
                batch.put(key, value)
                self.rows[key] = value
        await db.write(batch)
        kind = slatedb.FlushType.MEM_TABLE if flush else slatedb.FlushType.WAL
        await db.flush_with_options(slatedb.FlushOptions(flush_type=kind))
        await db.shutdown_with_options(slatedb.CloseOptions(flush_type=kind))

    async def keep(self, name: str, lifetime_ms: int | None = None) -> UUID:
        made = await create_checkpoint(self.files(), CheckpointOptions(lifetime_ms, name=name, whole_log=True))
        self.kept[name] = dict(self.rows)
        return made.id

    async def forget(self, id: UUID) -> None:
        await delete_checkpoint(self.files(), id)

    async def compact(self) -> None:
        """Everything into one run."""
        await compact_once(self.files(), Major(), force=True)


async def write_layers(folder: Path, layers: int, rows: int, value_bytes: int) -> Story:
    """A database kept as ``c`` whose L0 has so many SSTs, which all span the same keys; built without a writer."""
    story = Story(folder)
    files = story.files()
    views = []
    for layer in range(layers):
        ids = np.arange(layer, layers * rows, layers)
        digits = ids[:, None] // 10 ** np.arange(7, -1, -1) % 10 + ord("0")
        numbers = np.zeros(rows, np.int64)
        sst = build_sst(
            Rows(
                Bytes(digits.astype(np.uint8).reshape(-1), np.arange(0, 8 * rows + 1, 8)),
                Bytes(np.full(rows * value_bytes, layer, np.uint8), np.arange(0, value_bytes * rows + 1, value_bytes)),
                (ids + 1).astype(np.uint64),
                np.zeros(rows, np.uint8),
                numbers,
                numbers,
            )
        )
        handle = SstHandle(Ulid.new(files.runtime), sst.info, sst.version)
        await files.store.put(files.paths.compacted(handle.id), sst.tobytes())
        views.append(SstView(handle.id, handle))
    await files.manifests.create_first(Manifest())
    whole = Tree(Views.of(reversed(views)))
    await files.manifests.update(lambda old: replace(old.with_root(whole), last_l0_seq=layers * rows))
    await story.keep("c")
    return story


DATA = Path(__file__).parents[1] / "data"


async def upload(sample: str, store: Mapping[str, str]) -> None:
    """A database that the original wrote, into ``s3://bucket`` with these options."""
    bucket = open_store("s3://bucket", {**store, "probe": "false"}, runtime=SystemRuntime(), environment={})
    for file in (DATA / "store" / sample).rglob("*"):
        if file.is_file():
            await bucket.put(str(file.relative_to(DATA / "store")), file.read_bytes())
    await bucket.close()


_TYPES: dict[str, DataType] = {
    "change": StringType(),
    "key": BinaryType(),
    "value": BinaryType(),
    "old_value": BinaryType(),
}


async def read(options: Mapping[str, str], **more: Any) -> pa.Table:
    """What a frame with these options holds, read by this very process. ``more`` may be ``schema``, ``filters``, those that
    are ``left`` of them, a ``keeper`` and the frame's ``id``; with ``drop`` only their number is given."""
    return await asyncio.to_thread(_read, options, **more)


def _read(options: Mapping[str, str], *, keeper: str = NOBODY, id: UUID | None = None, **more: Any) -> pa.Table:
    names = ReadOptions.of(options).columns or columns_of(ReadOptions.of(options))
    schema = more.get("schema") or StructType([StructField(name, _TYPES.get(name, LongType())) for name in names])
    filters = more.get("filters", [])
    reader = reader_of(options, schema, id or UUID(int=1), keeper, pushes=bool(filters))
    assert list(reader.pushFilters(filters)) == more.get("left", [])
    batches = (batch for share in reader.partitions() for batch in reader.read(share))
    if more.get("drop"):
        # Only to see what it takes to read them.
        return sum(batch.num_rows for batch in batches)
    batches = list(batches)
    return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in names})


def peak_mib() -> int:
    """The most memory that this program has had. What the system counts for its parents would hide it, so not by rusage."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) >> 10


def pairs(table: pa.Table) -> State:
    """Keys and values of a read; every key must come once, in order."""
    keys = table["key"].to_pylist()
    assert keys == sorted(set(keys))
    return dict(zip(keys, table["value"].to_pylist(), strict=True))
