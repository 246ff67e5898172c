"""The loop around the reconcilers: a change wakes a key, a key is looked at, and what was found is told.

A reconcile is handed the object as it is and never what changed, so it does the same after a restart, a lost event or a day
of absence. Everything that goes wrong ends in the object's conditions, where its user looks, and comes back by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import ValidationError

from slate_operator.api.conditions import Condition, merged, said
from slate_operator.clock import Clock, stamp
from slate_operator.kube.cache import Cache
from slate_operator.kube.client import KubeCluster
from slate_operator.kube.cluster import (
    DATABASES,
    Body,
    Conflict,
    Key,
    Kind,
    LeftBehind,
    NameTaken,
    Refused,
    Unreachable,
)
from slate_operator.metrics import Metrics
from slate_operator.names import READY, RECONCILING, STALLED
from slate_operator.reconcile.outcome import Outcome
from slate_operator.wakes import wakes
from slate_operator.work import Item, WorkQueue

log = logging.getLogger(__name__)

LONGEST = 180.0
"""Seconds that one look may take. Requests have shorter limits of their own; this one catches what has none."""
LATEST = 1.0
"""Seconds by which a look may be later than it was to be: a schedule may have no more time than that for its run."""
UNDER_WAY = 5.0
"""Seconds after which it is looked whether what is in the way has gone by itself."""
_NO_ANSWER = (Unreachable, TimeoutError)
_PHASES = {DATABASES: (STALLED, "NotReady")}
"""What an object that is stuck, and one that is not ready, is called in one word, where that is not Failed and Pending."""


class Reconciler(Protocol):
    async def reconcile(self, body: Body) -> Outcome:
        """Look at the object and at what is, do what is missing, and say what was found."""


class Controller:
    """Wakes and looks. The reconcilers are those of the kinds that are ours."""

    def __init__(
        self,
        cluster: KubeCluster,
        cache: Cache,
        queue: WorkQueue,
        reconcilers: Mapping[Kind, Reconciler],
        clock: Clock,
        metrics: Metrics,
        *,
        resync: float = 600.0,
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._queue = queue
        self._reconcilers = reconcilers
        self._clock = clock
        self._metrics = metrics
        self._resync = resync
        cache.listener = self.changed

    def changed(self, kind: Kind, key: Key, old: Body | None, new: Body | None) -> None:
        """Something is not as it was: wake everyone who may have to do something about it."""
        gone = old if new is None or (old is not None and _uid(old) != _uid(new)) else None
        if gone is not None:
            self._cluster.forget(kind, gone)
        for item in wakes(kind, key, old, new, self._cache):
            if item.kind in self._reconcilers and self._cache.get(item.kind, item.key) is not None:
                self._queue.add(item)

    def wake_all(self, within: float) -> None:
        """Look at everything again, spread over so many seconds."""
        for kind in self._reconcilers:
            for body in self._cache.all(kind):
                key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
                self._queue.add_after(Item(kind, key), self._clock.uniform(0.0, within))

    async def handle(self, item: Item) -> None:
        """One look at one object."""
        body = self._cache.get(item.kind, item.key)
        if body is None:
            self._queue.forget(item)
            return
        began, kind = self._clock.monotonic(), item.kind.kind
        result = await self._looked(item, body)
        self._metrics.durations.labels(kind).observe(self._clock.monotonic() - began)
        self._metrics.reconciles.labels(kind, result).inc()

    async def _looked(self, item: Item, body: Body) -> str:
        try:
            async with asyncio.timeout(LONGEST):
                outcome = await self._reconcilers[item.kind].reconcile(body)
                await self._report(item, body, outcome)
        except Conflict:
            self._queue.failed(item)  # what we saw is not so any more; the news wakes us, if not the timer does
            return "conflict"
        except _NO_ANSWER as trouble:
            pause = self._queue.failed(item)
            log.warning("%s: %s; again in %.0f s", item, trouble or "it took too long", pause)
            return "unreachable" if isinstance(trouble, Unreachable) else "timeout"
        except NameTaken as taken:
            await self._despair(item, body, "NameTaken", str(taken), stalled=True)
            return "refused"
        except LeftBehind as left:
            await self._despair(item, body, "LeftBehind", str(left), under_way=True)
            return "refused"
        except Refused as refusal:
            await self._despair(item, body, "Refused", f"The API server refuses: {refusal}")
            return "refused"
        except ValidationError as mistakes:
            told = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in mistakes.errors())
            await self._despair(
                item, body, "InvalidObject", f"This operator cannot read the object: {told}", stalled=True
            )
            return "invalid"
        except Exception as error:
            log.exception("%s could not be reconciled; this is a bug", item)
            told = f"The operator failed with {type(error).__name__}; its log says more. It will try again."
            await self._despair(item, body, "OperatorFailed", told)
            return "failed"
        self._queue.succeeded(item)
        if outcome.gone:
            self._queue.forget(item)
        else:
            self._queue.add_after(item, self._pause(outcome))
        return "done"

    def _pause(self, outcome: Outcome) -> float:
        """Chance spreads those that would come back together; but who named a time has something to do then."""
        if outcome.again_in is None:
            return self._resync * self._clock.uniform(1.0, 1.1)
        return outcome.again_in + self._clock.uniform(0.0, min(outcome.again_in / 10, LATEST))

    async def _report(self, item: Item, body: Body, outcome: Outcome) -> None:
        for each in outcome.events:
            kind = "Warning" if each.warning else "Normal"
            try:
                await self._cluster.event(item.kind, body, kind, each.reason, each.message)
            except Refused as refusal:
                # A namespace that goes takes no events any more; then it is told here, and nothing waits for it.
                log.warning("%s: %s: %s (no event of it: %s)", item, each.reason, each.message, refusal)
        if outcome.gone:
            return
        before = body.get("status") or {}
        generation = body["metadata"].get("generation", 0)
        if outcome.keep_generation:
            generation = before.get("observedGeneration", generation)
        found = self._conditions(body, outcome.conditions, generation)
        status = {**outcome.status, "conditions": found, "observedGeneration": generation}
        await self._cluster.set_status(item.kind, item.key, _without_nothing(status))

    async def _despair(
        self, item: Item, body: Body, reason: str, message: str, *, stalled: bool = False, under_way: bool = False
    ) -> None:
        """Tell the user why nothing happens, leaving all else that was said before, and come back later."""
        pause = self._queue.failed(item)
        if under_way:
            pause = min(pause, UNDER_WAY)
            self._queue.add_after(item, pause)
        log.warning("%s: %s; again in %.0f s", item, message, pause)
        before, generation = dict(body.get("status") or {}), body["metadata"].get("generation", 0)
        told = [said(READY, False, reason, message)]
        if stalled:
            told.append(said(STALLED, True, reason, message))
        if under_way:
            told.append(said(RECONCILING, True, reason, message))
        kept = [each for each in before.get("conditions") or () if each["type"] not in (READY, RECONCILING, STALLED)]
        found = [*kept, *self._conditions(body, told, generation)]
        found.sort(key=lambda each: str(each["type"]))
        status = {**before, "conditions": found, "observedGeneration": generation}
        if "phase" in before and not body["metadata"].get("deletionTimestamp"):
            status["phase"] = _PHASES.get(item.kind, ("Failed", "Pending"))[0 if stalled else 1]
        try:
            await self._cluster.set_status(item.kind, item.key, status)
        except (Conflict, Refused, Unreachable) as trouble:
            log.warning("%s: that cannot even be said in its status: %s", item, trouble)

    def _conditions(self, body: Body, found: Any, generation: int) -> list[dict[str, Any]]:
        known = _conditions_of(body.get("status") or {})
        now = stamp(self._clock.now())
        return [
            each.model_dump(mode="json", by_alias=True) for each in merged(known, found, generation=generation, now=now)
        ]


def _conditions_of(status: Mapping[str, Any]) -> list[Condition]:
    return [Condition.model_validate(each) for each in status.get("conditions") or ()]


def _uid(body: Body) -> Any:
    return body["metadata"].get("uid")


def _without_nothing(value: Any) -> Any:
    """Kubernetes has no null in a status: what is not known is not there."""
    if isinstance(value, Mapping):
        return {name: _without_nothing(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_without_nothing(each) for each in value]
    return value
