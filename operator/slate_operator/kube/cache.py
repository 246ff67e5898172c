"""The objects that watches keep us told of, trimmed to what is read of them.

What comes may come late, twice, or out of order: from a watch, from a list, or as the answer to a request of our own. The
resource version decides which is newer, so nobody ever sees an object go back to what it was.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from slate_operator.kube.cluster import PODS, Body, Key, Kind

REMEMBERED_GONE = 4096
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

Listener = Callable[[Kind, Key, Body | None, Body | None], None]
"""Told of every change: what an object was before and what it is now; None where there is none."""


class Cache:
    """Bodies that are handed out belong to the cache: read them, never change them."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._objects: dict[Kind, dict[str, dict[str, Body]]] = {kind: {} for kind in kinds}
        self._gone: OrderedDict[str, None] = OrderedDict()
        self.listener: Listener = lambda kind, key, old, new: None

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(self._objects)

    def holds(self, kind: Kind) -> bool:
        return kind in self._objects

    def get(self, kind: Kind, key: Key) -> Body | None:
        return self._objects[kind].get(key.namespace, {}).get(key.name)

    def list(self, kind: Kind, namespace: str, labels: Mapping[str, str] | None = None) -> list[Body]:
        found = self._objects[kind].get(namespace, {}).values()
        return [body for body in found if not labels or has_labels(body, labels)]

    def all(self, kind: Kind) -> Iterator[Body]:
        for namespace in list(self._objects[kind].values()):
            yield from list(namespace.values())

    def put(self, kind: Kind, body: Body) -> bool:
        """Take in how an object is; whether that was news."""
        key, known = key_of(body), self.get(kind, key_of(body))
        if uid_of(body) in self._gone:
            return False
        if known is not None and uid_of(known) == uid_of(body) and version_of(known) >= version_of(body):
            return False
        trimmed = trim(kind, body)
        self._objects[kind].setdefault(key.namespace, {})[key.name] = trimmed
        self.listener(kind, key, known, trimmed)
        return True

    def drop(self, kind: Kind, body: Body) -> bool:
        """Take in that an object is gone; whether it was there."""
        key = key_of(body)
        self._gone[uid_of(body)] = None
        while len(self._gone) > REMEMBERED_GONE:
            self._gone.popitem(last=False)
        known = self.get(kind, key)
        if known is None or uid_of(known) != uid_of(body):
            return False
        namespaced = self._objects[kind][key.namespace]
        del namespaced[key.name]
        if not namespaced:
            del self._objects[kind][key.namespace]
        self.listener(kind, key, known, None)
        return True

    def drop_unlisted(self, kind: Kind, namespace: str | None, listed: set[str], known_before: Iterable[Body]) -> None:
        """Forget what a list no longer showed, of what was known before it was asked for: such an end was missed."""
        for body in known_before:
            if uid_of(body) not in listed and (namespace is None or key_of(body).namespace == namespace):
                self.drop(kind, body)


def key_of(body: Body) -> Key:
    return Key(body["metadata"].get("namespace", ""), body["metadata"]["name"])


def uid_of(body: Body) -> str:
    return str(body["metadata"].get("uid", ""))


def version_of(body: Body) -> int:
    """Kubernetes promises since 1.35 that the resource versions of a kind can be compared as numbers; they always could."""
    return int(body["metadata"].get("resourceVersion") or 0)


def has_labels(body: Body, labels: Mapping[str, str]) -> bool:
    carried = body["metadata"].get("labels") or {}
    return all(carried.get(name) == value for name, value in labels.items())


def trim(kind: Kind, body: Body) -> Body:
    """Without what nobody reads, which is most of an object."""
    metadata: dict[str, Any] = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    if _LAST_APPLIED in (metadata.get("annotations") or {}):
        metadata["annotations"] = {n: v for n, v in metadata["annotations"].items() if n != _LAST_APPLIED}
    trimmed = {**body, "metadata": metadata}
    if kind == PODS:
        spec = body.get("spec") or {}
        containers = [{"name": each["name"], "image": each.get("image")} for each in spec.get("containers") or ()]
        trimmed["spec"] = {"nodeName": spec.get("nodeName"), "containers": containers}
    return trimmed
