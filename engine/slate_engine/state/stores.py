"""Where the state of a database lies: its manifests, and its compactions."""

from __future__ import annotations

from collections.abc import Callable

from slate_engine.runtime import Runtime
from slate_engine.state.commit import StateStore
from slate_engine.state.compactions import Compactions
from slate_engine.state.compactions_read import decode_compactions
from slate_engine.state.compactions_write import check_compactions_succession, encode_compactions
from slate_engine.state.invariants import check_succession
from slate_engine.state.manifest import Manifest
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.store.boundary import Boundary
from slate_engine.store.numbered import NumberedObjects
from slate_engine.store.protocol import Buffer, ObjectStore


class ManifestStore(StateStore[Manifest]):
    """``<root>/manifest/``. A checkpoint that is added for the manifest to come gets its number here."""

    @staticmethod
    def open(
        store: ObjectStore,
        root: str,
        runtime: Runtime,
        *,
        caretaker: bool = False,
        log_store: ObjectStore | None = None,
    ) -> ManifestStore:
        """``log_store`` is where the WAL files are, if they are elsewhere."""
        objects = _objects(store, root, "manifest", runtime, caretaker, log_store, _is_no_clone)
        return ManifestStore(objects, runtime)

    def _decode(self, data: Buffer, *, object: str) -> Manifest:
        return decode_manifest(data, object=object)

    def _encode(self, value: Manifest) -> Buffer:
        return encode_manifest(value)

    def _successor(self, before: Manifest, after: Manifest, id: int) -> Manifest:
        check_succession(before, after)
        return after.numbered(id)


class CompactionsStore(StateStore[Compactions]):
    """``<root>/compactions/``."""

    @staticmethod
    def open(store: ObjectStore, root: str, runtime: Runtime, *, caretaker: bool = False) -> CompactionsStore:
        return CompactionsStore(_objects(store, root, "compactions", runtime, caretaker), runtime)

    def _decode(self, data: Buffer, *, object: str) -> Compactions:
        return decode_compactions(data, object=object)

    def _encode(self, value: Compactions) -> Buffer:
        return encode_compactions(value)

    def _successor(self, before: Compactions, after: Compactions, id: int) -> Compactions:
        check_compactions_succession(before, after)
        return after


def _is_no_clone(data: Buffer) -> bool:
    """A clone may have nothing of its own but its manifests. All other databases have SSTs or WAL files."""
    return not decode_manifest(data, object="the manifest in memory").external_dbs


def _objects(
    store: ObjectStore,
    root: str,
    name: str,
    runtime: Runtime,
    caretaker: bool,
    log_store: ObjectStore | None = None,
    has_company: Callable[[Buffer], bool] = lambda data: True,
) -> NumberedObjects:
    directory = f"{root}/{name}" if root else name
    boundary = Boundary(store, root, name, runtime)
    return NumberedObjects(
        store, directory, name, boundary, runtime, caretaker=caretaker, log_store=log_store, has_company=has_company
    )
