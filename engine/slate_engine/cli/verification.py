"""Is every byte of a database as it has to be?

The newest manifest and those that checkpoints keep say which objects have to be there. All objects of the database are read
and decoded, whether or not they are needed, and compared with what the manifests say of them. Others go on working
meanwhile, so an object that is missing counts only if the state that needs it is still there at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slate_engine.admin.parents import neighbour, newest_or_none
from slate_engine.errors import CorruptData, DataError
from slate_engine.format.bloom import BloomFilter
from slate_engine.format.columns import Rows
from slate_engine.format.filters import Bloom
from slate_engine.format.ids import Ids
from slate_engine.format.sst import Sst, open_sst
from slate_engine.format.wal import read_wal
from slate_engine.lsm.order import is_sorted_by_version
from slate_engine.lsm.paths import Paths
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import truncated
from slate_engine.state.compactions_read import decode_compactions
from slate_engine.state.manifest import Manifest
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.store.boundary import parse
from slate_engine.store.protocol import NotFound, ObjectMeta, ObjectStore

AT_ONCE, AT_ONCE_BYTES = 16, 128 << 20
"""So many objects, and about so many bytes, are in memory at a time."""

Progress = Callable[[int, int, int], None]


@dataclass
class Verified:
    """What was read, and what is wrong with it."""

    objects: int = 0
    size: int = 0
    rows: int = 0
    findings: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        return {"objects": self.objects, "size_bytes": self.size, "rows": self.rows, "findings": self.findings}


@dataclass(frozen=True)
class Needed:
    """What the states of a database need: SSTs by their keys, with what a manifest says of them; and WAL ids."""

    ssts: dict[str, SstHandle]
    wal_ids: frozenset[int]
    findings: tuple[str, ...]


@dataclass(frozen=True)
class _Item:
    """One object to look at; ``handle`` if a manifest shows it."""

    store: ObjectStore
    key: str
    size: int
    handle: SstHandle | None


async def verify(files: DatabaseFiles, *, quick: bool, progress: Progress) -> Verified:
    """Look at all objects of the database, and at those of its parents that it needs."""
    needed = await needed_objects(files)
    listed = await _listed(files)
    present = {meta.key for meta in listed}
    result = Verified()
    items = [_Item(_store(files, meta.key), meta.key, meta.size, needed.ssts.get(meta.key)) for meta in listed]
    elsewhere = needed.ssts.keys() - present
    items += [_Item(files.store, key, needed.ssts[key].estimated_size, needed.ssts[key]) for key in sorted(elsewhere)]
    missing: set[str] = set()
    done = 0
    for batch in _batches(items):
        looks = (_look(files, item, quick and item.key.endswith(".sst"), result, missing) for item in batch)
        await asyncio.gather(*looks)
        done += len(batch)
        progress(done, len(items), result.size)
    missing |= {files.paths.wal(id) for id in needed.wal_ids} - present
    if missing:
        still = await needed_objects(files)
        lost = [id for id in sorted(still.wal_ids) if files.paths.wal(id) in missing]
        if lost and len(lost) == len(still.wal_ids):
            # Not file by file: all of them have one cause.
            result.findings.append((await truncated(files.log_store, files.paths, lost[0], lost)).message)
            lost = []
        keys = missing & (set(still.ssts) | {files.paths.wal(id) for id in lost})
        result.findings += [f"{key} is missing, and a state of the database needs it" for key in sorted(keys)]
    result.findings += needed.findings
    return result


async def needed_objects(files: DatabaseFiles) -> Needed:
    newest = await files.manifests.read_latest()
    states, findings = [newest.value], []
    for number in sorted({checkpoint.manifest_id for checkpoint in newest.value.checkpoints} - {newest.id}):
        keepers = ", ".join(str(each.id) for each in newest.value.checkpoints if each.manifest_id == number)
        try:
            states.append(await files.manifests.read(number))
        except NotFound:
            findings.append(f"manifest {number} is missing, and checkpoint {keepers} needs it")
        except DataError as error:
            findings.append(f"{error.message}, and checkpoint {keepers} needs it")
    ssts: dict[str, SstHandle] = {}
    wal_ids: set[int] = set()
    known = Ids.of([])
    for manifest in states:
        wal_ids |= set(manifest.needed_wal_ids)
        # A thousand checkpoints of a large database show mostly the same SSTs.
        new = np.flatnonzero(known.find(manifest.ssts.id) < 0)
        for row in new.tolist():
            handle, owner = manifest.ssts[row], int(manifest.owners[row])
            paths = files.paths if owner < 0 else Paths(manifest.external_dbs[owner].path)
            ssts[paths.compacted(handle.id)] = handle
        if len(new):
            both = Ids.concat([known, manifest.ssts.id.take(new)])
            order = both.order()
            known = both if order is None else both.take(order)
    findings += [text async for text in _unkept(files, newest.value)]
    return Needed(ssts, frozenset(wal_ids), tuple(findings))


async def _unkept(files: DatabaseFiles, manifest: Manifest) -> AsyncIterator[str]:
    """Parents that do not keep what this clone shows of them: a collector there may delete it at any moment."""
    for parent in manifest.external_dbs:
        final = parent.final_checkpoint_id
        if final is None or not len(parent.sst_ids):
            continue
        newest = await newest_or_none(neighbour(files, parent.path).manifests)
        if newest is None or newest.value.checkpoint(final) is None:
            yield f"{parent.path} does not keep the SSTs that this clone reads there: its checkpoint {final} is gone"


async def _listed(files: DatabaseFiles) -> list[ObjectMeta]:
    prefix = f"{files.paths.root}/" if files.paths.root else ""
    found = [meta async for page in files.store.list(prefix) for meta in page]
    if files.wal_store is not None:
        found += [meta async for page in files.wal_store.list(files.paths.wal_directory + "/") for meta in page]
    return found


def _store(files: DatabaseFiles, key: str) -> ObjectStore:
    in_log = key.startswith(files.paths.wal_directory + "/")
    return files.wal_store if in_log and files.wal_store is not None else files.store


def _batches(items: Sequence[_Item]) -> Iterator[list[_Item]]:
    batch: list[_Item] = []
    for item in items:
        if batch and (len(batch) == AT_ONCE or sum(each.size for each in batch) + item.size > AT_ONCE_BYTES):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


async def _look(files: DatabaseFiles, item: _Item, unread: bool, result: Verified, missing: set[str]) -> None:
    try:
        if unread:
            await item.store.head(item.key)
            size, rows = 0, 0
        else:
            data = (await item.store.get(item.key)).data
            name = item.key.removeprefix(files.paths.under(""))
            size, rows = len(data), await files.runtime.run(_decode, name, data, item.key, item.handle)
    except NotFound:
        missing.add(item.key)
        return
    except DataError as error:
        result.findings.append(error.message)
        return
    result.objects += 1
    result.size += size
    result.rows += rows


def _decode(name: str, data: bytes, key: str, handle: SstHandle | None) -> int:
    """Decode the object as what its name says; the number of row versions in it."""
    directory = name.partition("/")[0]
    if handle is not None or (directory == "compacted" and name.endswith(".sst")):
        return _decode_sst(data, key, handle)
    if directory == "wal" and name.endswith(".sst"):
        return len(read_wal(data, object=key))
    if name.endswith(".manifest"):
        decode_manifest(data, object=key)
    elif name.endswith(".compactions"):
        decode_compactions(data, object=key)
    elif name.endswith(".boundary"):
        parse(data, key)
    return 0


def _check_filters(sst: Sst, rows: Rows, key: str) -> None:
    """A filter that denies a key of its SST hides the key from every reader. Only filters of whole keys can be checked:
    the others belong to extractors that a user has written."""
    policy = Bloom()
    for found in sst.filters():
        if found.name == policy.name and not policy.may_have_keys(BloomFilter.decode(found.data), rows.keys).all():
            raise CorruptData("its filter denies a key that it has", object=key)


def _decode_sst(data: bytes, key: str, handle: SstHandle | None) -> int:
    sst = open_sst(data, object=key)
    rows = sst.rows()
    _check_filters(sst, rows, key)
    if handle is not None and (handle.info, handle.format_version) != (sst.info, sst.version):
        raise CorruptData("the manifest and the SST's own footer do not agree", object=key)
    if not is_sorted_by_version(rows):
        raise CorruptData("the rows are not in order", object=key)
    first, last = sst.info.first_entry, sst.info.last_entry
    if len(rows) and (first not in (None, rows.keys[0]) or last not in (None, rows.keys[-1])):
        raise CorruptData("its first or last key is not what its footer says", object=key)
    stats = sst.stats()
    if stats is not None and stats.num_puts + stats.num_deletes + stats.num_merges != len(rows):
        raise CorruptData(f"the statistics do not count {len(rows)} rows", object=key)
    return len(rows)
