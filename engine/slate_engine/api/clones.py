"""Clones: a new database that begins as another one is, or as several are together, and shares their SSTs."""

from __future__ import annotations

from uuid import UUID

from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import NotThisClone, create_clone
from slate_engine.api import arguments
from slate_engine.api.building import Builder, instance
from slate_engine.api.checkpoint_ids import checkpoint_id
from slate_engine.api.db_builder import database_path
from slate_engine.api.keys import KeyRange
from slate_engine.api.object_store import ObjectStore
from slate_engine.api.options import CloneSourceSpec
from slate_engine.api.ranges import engine_range
from slate_engine.api.wheel_errors import as_the_wheel_has_them
from slate_engine.errors import DataError, InvalidError
from slate_engine.format.key_range import ALL
from slate_engine.format.key_range import KeyRange as EngineRange
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.commit import NothingStored


def database_files(path: str, store: ObjectStore, wal_store: ObjectStore | None = None) -> DatabaseFiles:
    """The database at ``path``, for who administers it."""
    logs = None if wal_store is None else wal_store.store
    return DatabaseFiles(store.store, path, store.runtime, wal_store=logs, caretaker=True)


class CloneBuilder(Builder):
    """What a clone is to be made of. Sources and clone lie in one store: that of the admin, unless told otherwise."""

    _path: str
    _store: ObjectStore
    _wal_store: ObjectStore | None
    _sources: list[CloneSource]
    _keys: EngineRange
    _id: UUID | None

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise ValueError(
            "CloneBuilder has no default constructor; it comes from Admin.create_clone_builder_from_source"
        )

    @classmethod
    def of(
        cls, source: CloneSourceSpec, path: str, store: ObjectStore, wal_store: ObjectStore | None = None
    ) -> CloneBuilder:
        made = cls.__new__(cls)
        made._path, made._store, made._wal_store = path, store, wal_store
        made._sources, made._keys, made._id = [], ALL, None
        made.with_source(source)
        return made

    def with_source(self, source: CloneSourceSpec) -> None:
        """One more database to take in."""
        self._check_unused()
        spec = instance(source, CloneSourceSpec, "source")
        self._sources.append(
            CloneSource(
                arguments.text(spec.path, "path"),
                None if spec.checkpoint is None else checkpoint_id(spec.checkpoint),
                _keys_of(spec.projection_range),
            )
        )

    def with_projection_range(self, projection_range: KeyRange | None) -> None:
        """Which of the keys to take, of all sources."""
        self._check_unused()
        self._keys = _keys_of(projection_range)

    def with_clone_path(self, clone_path: str) -> None:
        """Where the clone is to be, if not at the admin's own path."""
        self._check_unused()
        self._path = database_path(clone_path)

    def with_object_store(self, object_store: ObjectStore) -> None:
        """The store in which both the sources and the clone lie."""
        self._check_unused()
        self._store = instance(object_store, ObjectStore, "object_store")

    def with_wal_object_store(self, wal_object_store: ObjectStore) -> None:
        """Where the write-ahead logs of the sources and of the clone are, if not with the rest."""
        self._check_unused()
        self._wal_store = instance(wal_object_store, ObjectStore, "wal_object_store")

    def with_id(self, id: str) -> None:
        """A UUID of this request: a client that gives it may repeat the request, and finds the clone that it has made. An
        addition to what SlateDB offers."""
        self._check_unused()
        try:
            self._id = UUID(arguments.text(id, "id"))
        except ValueError:
            raise InvalidError(f"the id of a clone request is a UUID, which {id!r} is not") from None

    def with_seed(self, seed: int) -> None:
        """Checked and otherwise without effect: chance comes from the object store's runtime, which a test can replace."""
        self._check_unused()
        arguments.unsigned(seed, "seed")

    async def build(self) -> None:
        """Make the clone, or finish what an earlier attempt has begun. A finished clone at this path is an error, unless it
        was made with the same id, or shows what the named checkpoints keep."""
        self._consume()
        files = database_files(self._path, self._store, self._wal_store)
        with as_the_wheel_has_them(self._path, self._store.store.url):
            try:
                await create_clone(files, self._sources, self._keys, id=self._id)
            except NothingStored as missing:
                raise DataError(
                    f"Data error: failed to find latest transactional object (e.g. manifest) version: {missing}"
                ) from missing
            except NotThisClone as other:
                raise DataError(f"Data error: {other}") from other


def _keys_of(range: KeyRange | None) -> EngineRange:
    return ALL if range is None else engine_range(instance(range, KeyRange, "projection_range"))
