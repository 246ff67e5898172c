"""What fills the cache: lists before anything else and every so often, and in between whatever the pump brings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from slate_operator.clock import Clock
from slate_operator.kube.cache import Cache, uid_of, version_of
from slate_operator.kube.cluster import (
    BULK_READS,
    CHECKPOINTS,
    CLONES,
    CONFIG_MAPS,
    DATABASES,
    DEPLOYMENTS,
    NETWORK_POLICIES,
    PODS,
    SCHEDULES,
    SERVICE_ACCOUNTS,
    SERVICES,
    Body,
    Kind,
    Refused,
    Unreachable,
)
from slate_operator.kube.freshness import Freshness
from slate_operator.kube.requests import Missing, Place, Requests
from slate_operator.names import GROUP, LABEL_DATABASE

log = logging.getLogger(__name__)

WATCHED: Mapping[Kind, str] = {
    DATABASES: "",
    CHECKPOINTS: "",
    CLONES: "",
    SCHEDULES: "",
    BULK_READS: "",
    **dict.fromkeys((DEPLOYMENTS, PODS, SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS, NETWORK_POLICIES), LABEL_DATABASE),
}
"""The kinds that are watched, each with the label that its objects must have: of others' pods we want to know nothing.
Secrets are not among them. Whoever may list those can read them all."""

SELECTED = frozenset(kind for kind, label in WATCHED.items() if label)


class NotInstalled(Exception):
    """The API server does not know our kinds."""


class Informer:
    """Keeps the cache true, in all namespaces or in those that are named."""

    def __init__(
        self, requests: Requests, cache: Cache, freshness: Freshness, clock: Clock, *, namespaces: Sequence[str]
    ) -> None:
        self._requests = requests
        self._cache = cache
        self._freshness = freshness
        self._clock = clock
        self._namespaces: tuple[str | None, ...] = tuple(namespaces) or (None,)

    async def list_all(self) -> int:
        """Read everything once, and correct the cache by it; how much of it was news."""
        return sum([await self._list(kind, namespace) for kind in WATCHED for namespace in self._namespaces])

    async def resync(self, every: float, look_again: Callable[[float], None]) -> None:
        """List everything every so often, for ever, and have everything looked at again within a tenth of that time.

        A watch may have missed something: a list finds it, and from then on the watch owes it to us.
        """
        while True:
            await self._clock.sleep(every * self._clock.uniform(0.9, 1.1))
            try:
                missed = await self.list_all()
            except (Unreachable, Refused) as trouble:
                log.warning("the objects could not be listed; the next resync will: %s", trouble)
                continue
            if missed:
                log.info("a list brought %d changes before the watches did", missed)
            look_again(every / 10)

    def happened(self, kind: Kind, type: str | None, body: Body) -> None:
        """A watch has brought this."""
        self._freshness.saw(kind, body)
        if type == "DELETED":
            self._freshness.forget(kind, body)
            self._cache.drop(kind, body)
        else:
            self._cache.put(kind, body)

    async def _list(self, kind: Kind, namespace: str | None) -> int:
        known = {uid_of(body): version_of(body) for body in self._cache.all(kind)}
        before = list(self._cache.all(kind))
        listed: set[str] = set()
        news = 0
        try:
            async for body in self._requests.list(Place(kind, namespace or ""), WATCHED[kind]):
                listed.add(uid_of(body))
                if self._cache.put(kind, body):
                    news += 1
                    if known:  # the first list is no correction: the watch is not there yet
                        self._freshness.expect(kind, body)
        except Missing:
            raise NotInstalled(
                f"the API server knows no {kind.plural} of {kind.api_version}; install the CRDs of {GROUP}, "
                "for instance with the chart, and start the operator again"
            ) from None
        self._cache.drop_unlisted(kind, namespace, listed, before)
        return news
