"""Events: what ``kubectl describe`` shows under an object. The same again counts up instead of filling the list."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from slate_operator.clock import Clock, stamp
from slate_operator.kube.cache import key_of, uid_of
from slate_operator.kube.cluster import Body, Kind
from slate_operator.kube.requests import MERGE, AlreadyThere, Missing, Place, Requests
from slate_operator.names import MANAGED_BY

EVENTS = Kind("v1", "Event", "events")
LONGEST = 1024
"""The API server refuses longer messages."""
REMEMBERED = 4096


class Recorder:
    """An event's name follows from what it says, so that a new process counts on where another stopped."""

    def __init__(self, requests: Requests, clock: Clock, instance: str) -> None:
        self._requests = requests
        self._clock = clock
        self._instance = instance
        self._counts: OrderedDict[str, int] = OrderedDict()

    async def record(self, kind: Kind, body: Body, type: str, reason: str, message: str) -> None:
        key, message = key_of(body), message if len(message) <= LONGEST else message[: LONGEST - 1] + "…"
        said = hashlib.sha256("\0".join((uid_of(body), type, reason, message)).encode()).hexdigest()[:16]
        name = f"{key.name[:200]}.{said}"
        place = Place(EVENTS, key.namespace, name)
        if name in self._counts:
            try:
                return await self._count(place, self._counts[name] + 1)
            except Missing:  # events are forgotten by the cluster after an hour
                del self._counts[name]
        try:
            await self._requests.create(
                Place(EVENTS, key.namespace), self._event(kind, body, name, type, reason, message)
            )
            self._remember(name, 1)
        except AlreadyThere:
            found = await self._requests.get(place)
            await self._count(place, int(found.get("count") or 1) + 1)

    async def _count(self, place: Place, count: int) -> None:
        await self._requests.patch(place, MERGE, {"count": count, "lastTimestamp": stamp(self._clock.now())})
        self._remember(place.name, count)

    def _remember(self, name: str, count: int) -> None:
        self._counts[name] = count
        self._counts.move_to_end(name)
        while len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)

    def _event(self, kind: Kind, body: Body, name: str, type: str, reason: str, message: str) -> Body:
        key, now = key_of(body), stamp(self._clock.now())
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": key.namespace},
            "involvedObject": {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "namespace": key.namespace,
                "name": key.name,
                "uid": uid_of(body),
                "resourceVersion": body["metadata"].get("resourceVersion", ""),
            },
            "type": type,
            "reason": reason,
            "message": message,
            "source": {"component": MANAGED_BY},
            "reportingComponent": MANAGED_BY,
            "reportingInstance": self._instance,
            "action": reason,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
