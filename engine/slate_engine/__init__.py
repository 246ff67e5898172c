"""SlateDB in Python: ``import slate_engine as slatedb`` is a drop-in for ``slatedb.uniffi``.

Names are imported when they are first asked for, so that a program which only wants settings or errors does not wait for
the storage engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from slate_engine.api import HOME

_LIVE = {
    "admin": "Admin AdminBuilder",
    "clones": "CloneBuilder",
    "db": "Db",
    "db_builder": "DbBuilder",
    "handle": "WriteHandle",
    "iterator": "DbIterator",
    "object_store": "ObjectStore ObjectStoreBuilder",
    "reader": "DbReader",
    "reader_builder": "DbReaderBuilder",
    "scopes": "CheckpointScope",
    "snapshots": "DbSnapshot",
    "transaction": "DbTransaction",
    "wal_reader": "SlateDbWalIterator SlateDbWalReader",
}
_HOME = {**HOME, **{name: f"slate_engine.api.{module}" for module, names in _LIVE.items() for name in names.split()}}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
