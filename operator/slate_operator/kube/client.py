"""The API server as the controllers see it: reads from the cache, writes only of what is not so already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slate_operator.kube.cache import Cache, key_of, trim, uid_of
from slate_operator.kube.cluster import NAMESPACES, Body, Conflict, Key, Kind, Refused
from slate_operator.kube.events import Recorder
from slate_operator.kube.freshness import Freshness
from slate_operator.kube.ownership import check_own
from slate_operator.kube.requests import APPLY, JSON_PATCH, METADATA_ONLY, AlreadyThere, Missing, Place, Requests
from slate_operator.kube.sameness import appearance, digest, has_all, mark_of, marked
from slate_operator.names import FIELD_MANAGER, LABEL_DATABASE, STATUS_MANAGER


class KubeCluster:
    """``selected`` are the kinds of which the cache has only what is labelled as ours."""

    def __init__(
        self, requests: Requests, cache: Cache, freshness: Freshness, recorder: Recorder, *, selected: frozenset[Kind]
    ) -> None:
        self._requests = requests
        self._cache = cache
        self._freshness = freshness
        self._recorder = recorder
        self._selected = selected
        self._made: dict[tuple[Kind, str], tuple[str | None, str]] = {}
        """What we sent last of the objects that the server spells differently, and how they looked after that."""
        self._statuses: dict[tuple[Kind, str], tuple[str, str]] = {}
        self._just_read: tuple[Kind, Key, Body] | None = None
        """The last object that was read by a request. Who applies one mostly has just looked at it."""

    # --- reading -------------------------------------------------------------------------------------------------

    async def get(self, kind: Kind, key: Key) -> Body | None:
        if self._cache.holds(kind):
            known = self._cache.get(kind, key)
            # What is not ours carries no label, so that the cache does not know whether it is there.
            if known is not None or kind not in self._selected:
                return known
        try:
            found = await self._requests.get(_place(kind, key))
        except Missing:
            return None
        self._just_read = (kind, key, found)
        return found

    async def list(self, kind: Kind, namespace: str, labels: Mapping[str, str] | None = None) -> Sequence[Body]:
        labels = labels or {}
        if self._cache.holds(kind) and (kind not in self._selected or LABEL_DATABASE in labels):
            return self._cache.list(kind, namespace, labels)
        selector = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
        return [body async for body in self._requests.list(Place(kind, namespace), selector)]

    async def version(self, kind: Kind, key: Key) -> str | None:
        try:
            found = await self._requests.get(_place(kind, key), METADATA_ONLY)
        except Missing:
            return None
        return str(found["metadata"]["resourceVersion"])

    async def serves(self, kind: Kind) -> bool:
        return await self._requests.serves(kind)

    # --- writing -------------------------------------------------------------------------------------------------

    async def apply(self, kind: Kind, body: Body) -> Body:
        wanted, key = marked(body), key_of(body)
        read, self._just_read = self._just_read, None
        present = read[2] if read is not None and read[:2] == (kind, key) else await self.get(kind, key)
        if present is not None:
            check_own(kind, present, body)
            if self._stands(kind, present, wanted):
                return present
        try:
            made = await self._send(kind, key, wanted, present)
        except Missing as missing:
            if await self._requests.serves(kind):
                raise Refused(str(missing)) from None
            told = f"the cluster does not know {kind.kind} ({kind.api_version}): install its CRD, or do not ask for one"
            raise Refused(told) from None
        if not has_all(made, wanted):
            self._made[kind, uid_of(made)] = (mark_of(wanted), appearance(trim(kind, made)))
        self._took(kind, made)
        return made

    async def _send(self, kind: Kind, key: Key, wanted: Body, present: Body | None) -> Body:
        """Only over what we looked at: the name may have gone to somebody else's object meanwhile."""
        place, query = _place(kind, key), {"fieldManager": FIELD_MANAGER}
        if present is None:
            return await self._requests.patch(place, APPLY, wanted, query)
        this_one = {**wanted, "metadata": {**wanted["metadata"], "uid": uid_of(present)}}
        try:
            return await self._requests.patch(place, APPLY, this_one, {**query, "force": "true"})
        except Refused as refusal:
            if "metadata.uid" not in str(refusal):
                raise
            raise Conflict(f"{place} is another one than a moment ago; look again") from None

    def _stands(self, kind: Kind, present: Body, wanted: Body) -> bool:
        if mark_of(present) != mark_of(wanted):
            return False
        return has_all(present, wanted) or self._made.get((kind, uid_of(present))) == (
            mark_of(wanted),
            appearance(present),
        )

    async def create(self, kind: Kind, body: Body) -> bool:
        try:
            place, query = Place(kind, key_of(body).namespace), {"fieldManager": FIELD_MANAGER}
            self._took(kind, await self._requests.create(place, body, query))
        except AlreadyThere:
            return False
        return True

    async def delete(self, kind: Kind, key: Key, uid: str | None = None) -> None:
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._requests.delete(_place(kind, key), options)
        except Missing:
            return
        except Conflict:
            if uid is None:
                raise  # with a uid it says that another one has taken the name, and that one is to stay

    async def set_status(self, kind: Kind, key: Key, status: Body) -> None:
        known = await self.get(kind, key)
        if known is None:
            return
        which, wanted = (kind, uid_of(known)), digest(status)
        present = known.get("status") or {}
        if present == status or self._statuses.get(which) == (wanted, digest(present)):
            return
        # Only of what we saw: the name may have gone over to another object meanwhile.
        metadata = {
            "name": key.name,
            "namespace": key.namespace,
            "resourceVersion": known["metadata"]["resourceVersion"],
        }
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "status": status}
        query = {"fieldManager": STATUS_MANAGER, "force": "true"}
        try:
            made = await self._requests.patch(Place.of(kind, key, "status"), APPLY, body, query)
        except Missing:
            return  # it went away meanwhile
        self._statuses[which] = (wanted, digest(made.get("status") or {}))
        self._took(kind, made)

    async def set_finalizers(self, kind: Kind, body: Body, finalizers: Sequence[str]) -> None:
        metadata = body["metadata"]
        if list(metadata.get("finalizers") or ()) == list(finalizers):
            return
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": uid_of(body)},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
            {"op": "add", "path": "/metadata/finalizers", "value": list(finalizers)},
        ]
        try:
            made = await self._requests.patch(_place(kind, key_of(body)), JSON_PATCH, patch)
        except Missing:
            return
        self._took(kind, made)

    async def event(self, kind: Kind, body: Body, type: str, reason: str, message: str) -> None:
        await self._recorder.record(kind, body, type, reason, message)

    # --- remembering ---------------------------------------------------------------------------------------------

    def _took(self, kind: Kind, body: Body) -> None:
        """The answer to a write: what we know from now on, and what the watch has yet to bring."""
        if not self._cache.holds(kind) or (kind in self._selected and not _ours(body)):
            return
        metadata = body["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self._cache.drop(kind, body)  # the last finalizer was taken off: this was its end
        elif self._cache.put(kind, body):
            self._freshness.expect(kind, body)

    def forget(self, kind: Kind, body: Body) -> None:
        """The object is gone: so is what we remember of it."""
        self._made.pop((kind, uid_of(body)), None)
        self._statuses.pop((kind, uid_of(body)), None)


def _ours(body: Body) -> bool:
    return LABEL_DATABASE in (body["metadata"].get("labels") or {})


def _place(kind: Kind, key: Key) -> Place:
    return Place(kind, "", key.name) if kind == NAMESPACES else Place.of(kind, key)
