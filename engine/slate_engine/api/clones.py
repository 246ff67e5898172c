"""Clones of databases, which this engine reads and writes but does not make yet."""

from __future__ import annotations

from slate_engine.api import arguments
from slate_engine.api.building import Builder, instance
from slate_engine.api.checkpoint_ids import checkpoint_id
from slate_engine.api.keys import KeyRange
from slate_engine.api.object_store import ObjectStore
from slate_engine.api.options import CloneSourceSpec
from slate_engine.errors import InvalidError


class CloneBuilder(Builder):
    """What a clone is to be made of. The arguments are checked as the original checks them."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise ValueError(
            "CloneBuilder has no default constructor; it comes from Admin.create_clone_builder_from_source"
        )

    @classmethod
    def of(cls, source: CloneSourceSpec) -> CloneBuilder:
        made = cls.__new__(cls)
        made.with_source(source)
        return made

    def with_source(self, source: CloneSourceSpec) -> None:
        """One more database to take in."""
        self._check_unused()
        spec = instance(source, CloneSourceSpec, "source")
        arguments.text(spec.path, "path")
        if spec.checkpoint is not None:
            checkpoint_id(spec.checkpoint)
        _check_range(spec.projection_range)

    def with_projection_range(self, projection_range: KeyRange | None) -> None:
        """Which of the keys to take."""
        self._check_unused()
        _check_range(projection_range)

    def with_clone_path(self, clone_path: str) -> None:
        self._check_unused()
        arguments.text(clone_path, "clone_path")

    def with_object_store(self, object_store: ObjectStore) -> None:
        self._check_unused()
        instance(object_store, ObjectStore, "object_store")

    def with_wal_object_store(self, wal_object_store: ObjectStore) -> None:
        self._check_unused()
        instance(wal_object_store, ObjectStore, "wal_object_store")

    def with_seed(self, seed: int) -> None:
        self._check_unused()
        arguments.unsigned(seed, "seed")

    async def build(self) -> None:
        self._consume()
        raise InvalidError("cloning is not built yet: let the original's admin make the clone; this engine opens it")


def _check_range(range: KeyRange | None) -> None:
    if range is not None:
        instance(range, KeyRange, "projection_range").check()
