"""Finding out why each object of a database is there.

This looks at everything, so it is for people who ask, not for passes that run all the time. It goes by the same rules, in
the same order: what it calls garbage, a pass with the same options deletes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt

from slate_engine.admin.parents import newest_or_none
from slate_engine.format.columns import I64, U8
from slate_engine.format.ids import Ids
from slate_engine.gc.compacted import Cutoff
from slate_engine.gc.explanation import MOST_HOLDERS, Borrowed, Explained, Explanation, Holder, Holding, Verdict
from slate_engine.gc.inventory import parse_ulids
from slate_engine.gc.options import GcOptions, Task
from slate_engine.gc.wal import wal_number
from slate_engine.lsm.paths import Paths
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.commit import Versioned
from slate_engine.state.compactions import Compactions
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import CompactionsStore
from slate_engine.state.tombstone import show_second
from slate_engine.store.protocol import NotFound, ObjectMeta

Mask: TypeAlias = npt.NDArray[np.bool_]

_DIGITS, _ULID = 20, 26
"""The lengths of the names of numbered objects, and of SSTs."""


async def explain(
    files: DatabaseFiles, options: GcOptions | None = None, clones: Mapping[UUID, str] | None = None
) -> Explanation:
    """Look at the newest state, at all that checkpoints keep, and at the names and sizes of all objects. ``clones`` tells
    for whom a checkpoint is (:func:`~slate_engine.gc.discovery.find_clones`)."""
    book = await newest_or_none(CompactionsStore.open(files.store, files.paths.root, files.runtime))
    newest = await files.manifests.read_latest()
    now_ms = files.runtime.now_ms()
    objects = _Objects.of(await _list(files), files.paths)
    holders, needs = await _holders(files, newest, 0 if book is None else book.id, objects, clones or {})
    named, count = _first_holders(needs, len(objects))
    judge = _Judge(options or GcOptions(), newest, book, now_ms, any(holder.missing for holder in holders))
    explained = [
        _explained(meta, objects, row, judge, [holders[i] for i in named[row].tolist() if i >= 0], int(count[row]))
        for row, meta in enumerate(objects.metas)
    ]
    sizes = np.array([meta.size for meta in objects.metas], np.int64)
    holdings = list(_holdings(holders, needs, sizes, count))
    holdings.sort(key=lambda each: (-each.alone, -each.size))
    return Explanation(
        files.path, now_ms, sorted(explained, key=lambda each: each.name), holdings, list(_borrowed(newest.value))
    )


async def _list(files: DatabaseFiles) -> list[ObjectMeta]:
    prefix = f"{files.paths.root}/" if files.paths.root else ""
    found = [meta async for page in files.store.list(prefix) for meta in page]
    if files.wal_store is not None:
        found += [meta async for page in files.wal_store.list(files.paths.wal_directory + "/") for meta in page]
    return found


@dataclass(frozen=True)
class _Objects:
    """Everything in the database's folder: what it is, and its number (of SSTs, the time in their ids). SSTs are found by
    their ids, which stand beside their rows."""

    metas: list[ObjectMeta]
    kinds: list[str]
    numbers: I64
    sst_rows: I64
    sst_ids: Ids
    masks: dict[str, Mask]

    @staticmethod
    def of(metas: list[ObjectMeta], paths: Paths) -> _Objects:
        named = [_named(meta.key[len(paths.under("")) :], meta.size) for meta in metas]
        kinds = [kind for kind, _ in named]
        numbers = np.array([number for _, number in named], np.int64)
        rows = [row for row, kind in enumerate(kinds) if kind == "SST"]
        ids, sound = parse_ulids([metas[row].key.rpartition("/")[2].partition(".")[0] for row in rows])
        sst_rows = np.array(rows, np.int64)[sound]
        numbers[sst_rows] = ids.ms
        for row in set(rows) - set(sst_rows.tolist()):
            kinds[row] = "unknown"
        column = np.array(kinds, np.str_)
        return _Objects(metas, kinds, numbers, sst_rows, ids, {kind: column == kind for kind in set(kinds)})

    def __len__(self) -> int:
        return len(self.metas)

    def needed_by_checkpoint(self, id: int, manifest: Manifest) -> Mask:
        """Which of them a checkpoint of manifest ``id`` needs."""
        after, last = manifest.replay_after_wal_id, manifest.wal_id_last_seen
        needed: Mask = (
            self._shown(manifest)
            | self._are("manifest") & (self.numbers == id)
            | (self._are("WAL") | self._are("fence")) & (self.numbers > after) & (self.numbers <= last)
        )
        return needed

    def needed_now(self, newest: Versioned[Manifest], book_id: int) -> Mask:
        """Which of them the live state needs: all that came since, too."""
        needed: Mask = (
            self._shown(newest.value)
            | self._are("manifest") & (self.numbers >= newest.id)
            | self._are("compactions") & (self.numbers >= book_id)
            | (self._are("WAL") | self._are("fence")) & (self.numbers >= newest.value.replay_after_wal_id)
        )
        return needed

    def _are(self, kind: str) -> Mask:
        mask: Mask | None = self.masks.get(kind)
        return np.zeros(len(self), np.bool_) if mask is None else mask

    def _shown(self, manifest: Manifest) -> Mask:
        mask = np.zeros(len(self), np.bool_)
        mask[self.sst_rows[manifest.ssts.id.find(self.sst_ids) >= 0]] = True
        return mask


def _named(name: str, size: int) -> tuple[str, int]:
    """What an object is by its name, and its number, -1 if it has none."""
    folder, _, file = name.partition("/")
    stem, _, extension = file.partition(".")
    number = wal_number(file)
    if number is not None and number >= 2**63:
        number = None
    match folder:
        case "manifest" | "compactions" if number is not None and extension == folder and len(stem) == _DIGITS:
            return folder, number
        case "wal" if number is not None:
            return ("WAL" if size else "fence"), number
        case "compacted" if len(stem) == _ULID:
            return "SST", -1
        case "gc" if file:
            return "gc", -1
    return "unknown", -1


async def _holders(
    files: DatabaseFiles, newest: Versioned[Manifest], book_id: int, objects: _Objects, clones: Mapping[UUID, str]
) -> tuple[list[Holder], list[U8]]:
    """All of them, the live state first; and what each needs, in bits, since a thousand states must fit into memory."""
    holders = [Holder(files.path)]
    needs = [np.packbits(objects.needed_now(newest, book_id))]
    known: dict[int, U8 | None] = {}
    for checkpoint in newest.value.checkpoints:
        id = checkpoint.manifest_id
        if id not in known:
            try:
                manifest = newest.value if id == newest.id else await files.manifests.read(id)
                known[id] = np.packbits(objects.needed_by_checkpoint(id, manifest))
            except NotFound:
                known[id] = None
        bits = known[id]
        if bits is None and (await files.manifests.read_latest()).value.checkpoint(checkpoint.id) is None:
            continue  # deleted since we looked
        holders.append(Holder(files.path, checkpoint, clones.get(checkpoint.id), missing=bits is None))
        needs.append(np.zeros_like(needs[0]) if bits is None else bits)
    return holders, needs


def _first_holders(needs: Sequence[U8], n: int) -> tuple[I64, I64]:
    """For each object the first few holders, by their places, and how many there are."""
    named: I64 = np.full((n, MOST_HOLDERS), -1, np.int64)
    count: I64 = np.zeros(n, np.int64)
    for place, bits in enumerate(needs):
        rows = np.flatnonzero(_unpacked(bits, n))
        free = rows[count[rows] < MOST_HOLDERS]
        named[free, count[free]] = place
        count[rows] += 1
    return named, count


class _Judge:
    """Tells what becomes of an object that nobody holds."""

    def __init__(
        self,
        options: GcOptions,
        newest: Versioned[Manifest],
        book: Versioned[Compactions] | None,
        now_ms: int,
        blind: bool,
    ) -> None:
        self.now_ms = now_ms
        self._options = options
        self._compacted = options.compacted
        self._cutoff = Cutoff.of(now_ms, options.compacted or Task(), book.value if book else None, newest.value)
        self._blind = blind

    def judge(self, kind: str, number: int, meta: ObjectMeta) -> tuple[Verdict, str]:
        options = self._options
        if kind in ("SST", "WAL", "fence") and self._blind:
            return Verdict.YOUNG, "the manifest of a checkpoint is missing, so nobody knows what that one needs"
        match kind:
            case "unknown":
                return Verdict.UNKNOWN, "not an object of a database; it is left alone"
            case "gc":
                return Verdict.HELD, "garbage collection remembers here what it has given up"
            case "compactions":
                return self._aged(meta, options.compactions)
            case "manifest":
                return self._aged(meta, options.manifests)
            case "WAL":
                return self._aged(meta, options.wal)
            case "fence":
                if options.fences is None or options.fences.dry_run:
                    return Verdict.HELD, "fences stay, lest a stalled writer comes back"
                return self._aged(meta, options.fences)
        if self._compacted is None:
            return Verdict.YOUNG, "SSTs are not collected"
        if number >= self._cutoff.ms:
            since = show_second(self._cutoff.ms // 1000)
            return (
                Verdict.YOUNG,
                f"no state shows it yet; collected is what is from before {since}, {self._cutoff.reason}",
            )
        return Verdict.GARBAGE, "no state shows it"

    def _aged(self, meta: ObjectMeta, task: Task | None) -> tuple[Verdict, str]:
        """Something whose age is that of its object."""
        if task is None:
            return Verdict.YOUNG, "this kind is not collected"
        left = meta.last_modified_ms + int(task.min_age * 1000) - self.now_ms
        if left >= 0:
            return Verdict.YOUNG, f"no state needs it, but it stays for another {left / 1000:.0f} s: the minimum age"
        return Verdict.GARBAGE, "no state needs it"


def _explained(
    meta: ObjectMeta, objects: _Objects, row: int, judge: _Judge, held: Sequence[Holder], count: int
) -> Explained:
    kind, age_s = objects.kinds[row], max(0, judge.now_ms - meta.last_modified_ms) // 1000
    if held:
        return Explained(meta.key, kind, meta.size, age_s, Verdict.HELD, tuple(held), count - len(held))
    verdict, why = judge.judge(kind, int(objects.numbers[row]), meta)
    return Explained(meta.key, kind, meta.size, age_s, verdict, why=why)


def _holdings(holders: Sequence[Holder], needs: Sequence[U8], sizes: I64, count: I64) -> Iterator[Holding]:
    for holder, bits in zip(holders, needs, strict=True):
        mask = _unpacked(bits, len(sizes))
        yield Holding(holder, int(mask.sum()), int(sizes[mask].sum()), int(sizes[mask & (count == 1)].sum()))


def _borrowed(newest: Manifest) -> Iterator[Borrowed]:
    for place, external in enumerate(newest.external_dbs):
        rows = np.flatnonzero(newest.owners == place)
        yield Borrowed(external.path, external.final_checkpoint_id, len(rows), int(newest.ssts.sizes[rows].sum()))


def _unpacked(bits: U8, n: int) -> Mask:
    return np.unpackbits(bits, count=n).astype(np.bool_)
