"""Which objects have to be looked at when one changes. Pure: from the change and what is known to keys.

An object's own status does not wake it, because only we write that. What others see of it wakes those who refer to it; facts
that change all the time, such as sizes, wake nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from slate_operator.kube.cache import Cache
from slate_operator.kube.cluster import BULK_READS, CHECKPOINTS, CLONES, DATABASES, SCHEDULES, Body, Key, Kind
from slate_operator.names import LABEL_DATABASE, LABEL_SCHEDULE
from slate_operator.work import Item

OURS = (DATABASES, CHECKPOINTS, CLONES, SCHEDULES, BULK_READS)
"""The kinds that are reconciled."""

_OWN = ("uid", "generation", "labels", "annotations", "finalizers", "deletionTimestamp", "ownerReferences")
_SHOWN = ("phase", "state", "id", "databaseRef", "image")

_ONCE = ("deletion", "manifestId", "parentCheckpointId")
"""Of these it matters whether they are there at all: who has begun needs what it was made from no more."""


def wakes(kind: Kind, key: Key, old: Body | None, new: Body | None, cache: Cache) -> Iterator[Item]:
    """Everything that may have to do something about this change."""
    body = new or old
    assert body is not None
    if kind not in OURS:
        yield from _owner(key, body)
        return
    if old is None or new is None or _own(old) != _own(new):
        yield Item(kind, key)
    if old is None or new is None or _seen(old) != _seen(new):
        for each in _FOLLOWERS.get(kind, _nobody)(key, body, cache):
            if each != Item(kind, key):
                yield each


def _own(body: Body) -> list[Any]:
    return [body["metadata"].get(name) for name in _OWN]


def _seen(body: Body) -> list[Any]:
    status: Mapping[str, Any] = body.get("status") or {}
    truths = [(each.get("type"), each.get("status"), each.get("reason")) for each in status.get("conditions") or ()]
    begun = [status.get(name) is None for name in _ONCE]
    return [_own(body), truths, [status.get(name) for name in _SHOWN], begun]


def _owner(key: Key, body: Body) -> Iterator[Item]:
    """What is made for a database wakes it."""
    database = (body["metadata"].get("labels") or {}).get(LABEL_DATABASE)
    if database:
        yield Item(DATABASES, Key(key.namespace, database))


def _of_database(key: Key, body: Body, cache: Cache) -> Iterator[Item]:
    for kind in OURS:
        for other in cache.list(kind, key.namespace):
            if key.name in _databases_of(kind, other):
                yield Item(kind, Key(key.namespace, other["metadata"]["name"]))
    for name in _checkpoints_of(DATABASES, body):
        yield Item(CHECKPOINTS, Key(key.namespace, name))


def _of_checkpoint(key: Key, body: Body, cache: Cache) -> Iterator[Item]:
    for name in _databases_of(CHECKPOINTS, body):
        yield Item(DATABASES, Key(key.namespace, name))
    for name in _checkpoints_of(CHECKPOINTS, body):
        yield Item(CHECKPOINTS, Key(key.namespace, name))
    schedule = (body["metadata"].get("labels") or {}).get(LABEL_SCHEDULE)
    if schedule:
        yield Item(SCHEDULES, Key(key.namespace, schedule))
    for kind in (CHECKPOINTS, CLONES, DATABASES, BULK_READS):
        for other in cache.list(kind, key.namespace):
            if key.name in _checkpoints_of(kind, other):
                yield Item(kind, Key(key.namespace, other["metadata"]["name"]))


def _of_clone(key: Key, body: Body, cache: Cache) -> Iterator[Item]:
    for name in _databases_of(CLONES, body):
        yield Item(DATABASES, Key(key.namespace, name))
    for name in _checkpoints_of(CLONES, body):
        yield Item(CHECKPOINTS, Key(key.namespace, name))


def _of_bulk_read(key: Key, body: Body, cache: Cache) -> Iterator[Item]:
    """Its database counts what holds its states."""
    for name in _databases_of(BULK_READS, body):
        yield Item(DATABASES, Key(key.namespace, name))
    for name in _checkpoints_of(BULK_READS, body):
        yield Item(CHECKPOINTS, Key(key.namespace, name))


def _nobody(key: Key, body: Body, cache: Cache) -> Iterable[Item]:
    return ()


_FOLLOWERS: Mapping[Kind, Callable[[Key, Body, Cache], Iterable[Item]]] = {
    DATABASES: _of_database,
    CHECKPOINTS: _of_checkpoint,
    CLONES: _of_clone,
    BULK_READS: _of_bulk_read,
}


def _databases_of(kind: Kind, body: Body) -> set[str]:
    """The SlateDatabases that an object names."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    if kind == CHECKPOINTS:
        names = [_name(spec, "databaseRef")]
    elif kind == SCHEDULES:
        names = [_name(spec, "template", "spec", "databaseRef")]
    elif kind == BULK_READS:
        names = [_name(spec, "databaseRef"), status.get("database")]
    elif kind == CLONES:
        own = body["metadata"]["name"]
        names = [_name(spec, "source", "databaseRef"), spec.get("databaseName") or own]
        names += [status.get("databaseRef"), status.get("sourceDatabase")]
    else:
        names = [_name(spec, "bootstrap", "clone", "databaseRef")]
    return {name for name in names if name}


def _checkpoints_of(kind: Kind, body: Body) -> set[str]:
    """The Checkpoints that an object names."""
    spec = body.get("spec") or {}
    path = {DATABASES: ("bootstrap", "clone"), BULK_READS: ()}.get(kind, ("source",))
    name = _name(spec, *path, "checkpointRef")
    return {name} if name else set()


def _name(tree: Mapping[str, Any], *path: str) -> str | None:
    for part in path:
        tree = tree.get(part) or {}
    return tree.get("name") if isinstance(tree, Mapping) else None
