"""Is every byte of a database as it has to be?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slate_engine.cli.survey import survey
from slate_engine.errors import CorruptData, DataError
from slate_engine.format.sst import open_sst
from slate_engine.format.wal import read_wal
from slate_engine.lsm.order import is_sorted_by_version
from slate_engine.lsm.paths import Paths
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.compactions_read import decode_compactions
from slate_engine.state.manifest import Manifest
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.store.boundary import parse
from slate_engine.store.protocol import NotFound


async def verify_objects(files: DatabaseFiles, progress: Callable[[int, int], object]) -> dict[str, Any]:
    """Read all objects of the database, and those of its parents that it needs."""
    found = await survey(files)
    handles = _expected(files, found.manifest, *found.kept.values())
    keys = sorted({meta.key for meta in found.objects} | set(handles))
    result: dict[str, Any] = {"objects": 0, "bytes": 0, "rows": 0, "findings": []}
    for done, key in enumerate(keys):
        progress(done, len(keys))
        try:
            data = (await files.store.get(key)).data
            rows = await files.runtime.run(
                _verify, key.removeprefix(files.paths.under("")), data, key, handles.get(key)
            )
        except NotFound:
            if key in handles:
                result["findings"].append(f"{key} is missing, and the manifest needs it")
            continue
        except DataError as error:
            result["findings"].append(error.message)
            continue
        result["objects"] += 1
        result["bytes"] += len(data)
        result["rows"] += rows
    missing = [c for c in found.manifest.checkpoints if c.manifest_id not in found.kept]
    result["findings"] += [f"checkpoint {c.id} needs manifest {c.manifest_id}, which is missing" for c in missing]
    return result


def _expected(files: DatabaseFiles, *manifests: Manifest) -> dict[str, SstHandle]:
    """Where each SST that the manifests show has to be, and what they say of it."""
    handles: dict[str, SstHandle] = {}
    for manifest in manifests:
        for row, handle in enumerate(manifest.ssts):
            owner = int(manifest.owners[row])
            paths = files.paths if owner < 0 else Paths(manifest.external_dbs[owner].path)
            handles[paths.compacted(handle.id)] = handle
    return handles


def _verify(name: str, data: bytes, key: str, handle: SstHandle | None) -> int:
    """Decode the object as what its name says; the number of row versions in it."""
    directory = name.partition("/")[0]
    if handle is not None or (directory == "compacted" and name.endswith(".sst")):
        return _verify_sst(data, key, handle)
    if directory == "wal" and name.endswith(".sst"):
        return len(read_wal(data, object=key))
    if name.endswith(".manifest"):
        decode_manifest(data, object=key)
    elif name.endswith(".compactions"):
        decode_compactions(data, object=key)
    elif name.endswith(".boundary"):
        parse(data, key)
    return 0


def _verify_sst(data: bytes, key: str, handle: SstHandle | None) -> int:
    sst = open_sst(data, object=key)
    rows = sst.rows()
    sst.filters()
    if handle is not None and (handle.info, handle.format_version) != (sst.info, sst.version):
        raise CorruptData("the manifest and the SST's own footer do not agree", object=key)
    if not is_sorted_by_version(rows):
        raise CorruptData("the rows are not in order", object=key)
    stats = sst.stats()
    if stats is not None and stats.num_puts + stats.num_deletes + stats.num_merges != len(rows):
        raise CorruptData(f"the statistics do not count {len(rows)} rows", object=key)
    return len(rows)
