"""A survey of a database: its shape, and what every one of its objects is and who needs it. Facts only, no printing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from slate_engine.cli.text import show_bytes, show_time
from slate_engine.format.ids import Ulid
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.manifest import Checkpoint, Manifest
from slate_engine.state.tree import Tree
from slate_engine.store.protocol import NotFound, ObjectMeta


@dataclass
class Survey:
    """What was found: the newest manifest, those that checkpoints keep, and all objects."""

    manifest_id: int
    manifest: Manifest
    kept: dict[int, Manifest]
    objects: list[ObjectMeta]
    root: str
    _holders: dict[Ulid, list[str]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for label, views in _places(self.manifest):
            for id in views.sst_ids:
                self._holders[id].append(label)
        for checkpoint in self.manifest.checkpoints:
            manifest = self.kept.get(checkpoint.manifest_id)
            for id in manifest.ssts.id if manifest is not None else ():
                self._holders[id].append(f"checkpoint {checkpoint_name(checkpoint)}")

    def facts(self) -> dict[str, Any]:
        manifest = self.manifest
        return {
            "manifest": self.manifest_id,
            "initialized": manifest.initialized,
            "writer_epoch": manifest.writer_epoch,
            "compactor_epoch": manifest.compactor_epoch,
            "last_l0_seq": manifest.last_l0_seq,
            "replay_after_wal_id": manifest.replay_after_wal_id,
            "wal_id_last_seen": manifest.wal_id_last_seen,
            "size_bytes": manifest.estimated_size,
            "trees": [
                {"segment": show_bytes(segment.prefix), **_tree_facts(segment.tree)} for segment in manifest.segments
            ]
            if manifest.segments
            else [_tree_facts(manifest.root)],
            "checkpoints": [_checkpoint_facts(checkpoint) for checkpoint in manifest.checkpoints],
            "parents": [
                {"path": parent.path, "ssts": len(parent.sst_ids), "checkpoint": str(parent.final_checkpoint_id)}
                for parent in manifest.external_dbs
            ],
            "objects": [self._object_facts(meta) for meta in self.objects],
        }

    def _object_facts(self, meta: ObjectMeta) -> dict[str, Any]:
        name = meta.key.removeprefix(f"{self.root}/") if self.root else meta.key
        directory, _, file = name.partition("/")
        kind, held_by = {
            "manifest": self._manifest,
            "wal": self._wal,
            "compacted": self._compacted,
            "compactions": self._compactions,
            "gc": self._gc,
        }.get(directory, _unknown)(file, meta)
        return {"name": name, "kind": kind, "size": meta.size, "held_by": held_by}

    def _manifest(self, file: str, meta: ObjectMeta) -> tuple[str, list[str]]:
        number = _number(file)
        if number is None:
            return _unknown(file, meta)
        if number == self.manifest_id:
            return "manifest", ["the present state"]
        holders = [f"checkpoint {checkpoint_name(c)}" for c in self.manifest.checkpoints if c.manifest_id == number]
        return "manifest", holders

    def _wal(self, file: str, meta: ObjectMeta) -> tuple[str, list[str]]:
        number = _number(file)
        if number is None:
            return _unknown(file, meta)
        kind = "WAL fence" if meta.size == 0 else "WAL"
        holders = ["replay"] if number >= self.manifest.replay_after_wal_id else []
        for checkpoint in self.manifest.checkpoints:
            kept = self.kept.get(checkpoint.manifest_id)
            if kept is not None and kept.replay_after_wal_id < number <= kept.wal_id_last_seen:
                holders.append(f"checkpoint {checkpoint_name(checkpoint)}")
        return kind, holders

    def _compacted(self, file: str, meta: ObjectMeta) -> tuple[str, list[str]]:
        try:
            return "SST", self._holders.get(Ulid.parse(file.partition(".")[0]), [])
        except ValueError:
            return _unknown(file, meta)

    def _compactions(self, file: str, meta: ObjectMeta) -> tuple[str, list[str]]:
        numbers = [_number(each.key.rpartition("/")[2]) for each in self.objects if "/compactions/" in f"/{each.key}"]
        newest = max((number for number in numbers if number is not None), default=None)
        return "compactions", ["the present state"] if _number(file) == newest else []

    def _gc(self, file: str, meta: ObjectMeta) -> tuple[str, list[str]]:
        return ("boundary", ["garbage collection"]) if file.endswith(".boundary") else _unknown(file, meta)


async def survey(files: DatabaseFiles) -> Survey:
    """Look at the newest manifest, all that checkpoints keep, and the names and sizes of all objects."""
    newest = await files.manifests.read_latest()
    kept: dict[int, Manifest] = {}
    for number in {checkpoint.manifest_id for checkpoint in newest.value.checkpoints}:
        try:
            kept[number] = await files.manifests.read(number)
        except NotFound:
            continue
    prefix = f"{files.paths.root}/" if files.paths.root else ""
    objects = [meta async for page in files.store.list(prefix) for meta in page]
    return Survey(newest.id, newest.value, kept, objects, files.paths.root)


def checkpoint_name(checkpoint: Checkpoint) -> str:
    return checkpoint.name or str(checkpoint.id)[:8]


def _places(manifest: Manifest) -> list[tuple[str, Any]]:
    places = []
    for prefix, tree in [(b"", manifest.root), *((s.prefix, s.tree) for s in manifest.segments)]:
        where = f"segment {show_bytes(prefix)} " if prefix else ""
        places.append((f"{where}L0", tree.l0))
        places += [(f"{where}run {run.id}", run.views) for run in tree.runs]
    return places


def _tree_facts(tree: Tree) -> dict[str, Any]:
    return {
        "l0": [_view_facts(view) for view in tree.l0],
        "runs": [
            {"id": run.id, "ssts": [_view_facts(view) for view in run.views], "size_bytes": run.estimated_size}
            for run in tree.runs
        ],
    }


def _view_facts(view: Any) -> dict[str, Any]:
    info = view.sst.info
    return {
        "sst": str(view.sst.id),
        "size_bytes": view.estimated_size,
        "first_key": show_bytes(info.first_entry or b""),
        "last_key": show_bytes(info.last_entry) if info.last_entry is not None else None,
        "partly_visible": view.visible_range is not None,
    }


def _checkpoint_facts(checkpoint: Checkpoint) -> dict[str, Any]:
    expires = checkpoint.expire_time_s
    return {
        "id": str(checkpoint.id),
        "name": checkpoint.name,
        "manifest": checkpoint.manifest_id,
        "created": show_time(checkpoint.create_time_s),
        "expires": show_time(expires) if expires is not None else None,
    }


def _number(file: str) -> int | None:
    stem = file.partition(".")[0]
    return int(stem) if stem.isdecimal() else None


def _unknown(file: str, meta: ObjectMeta) -> tuple[str, list[str]]:
    return "unknown", []
