"""When the loop comes back to an object."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from slate_operator.controller import Controller
from slate_operator.informer import WATCHED
from slate_operator.kube.cache import Cache
from slate_operator.kube.cluster import CHECKPOINTS, Body, Key
from slate_operator.metrics import Metrics
from slate_operator.reconcile.outcome import Outcome
from slate_operator.work import Item, WorkQueue
from tests.operator.edge.clocks import HandClock, settle
from tests.operator.edge.world import checkpoint


class LateClock(HandClock):
    """Whose chance is always for the latest."""

    def uniform(self, low: float, high: float) -> float:
        return high


class Deaf:
    """Stands for the API server, and takes every status."""

    async def set_status(self, *_: Any) -> None: ...


@pytest.mark.parametrize(("asked", "within"), [(2.0, 0.5), (86400.0, 1.0), (None, 60.0)])
async def test_who_named_a_time_is_looked_at_then(asked: float | None, within: float) -> None:
    clock, cache, looked = LateClock(), Cache(WATCHED), list[float]()

    class Asking:
        async def reconcile(self, body: Body) -> Outcome:
            looked.append(clock.now())
            return Outcome(again_in=asked)

    queue = WorkQueue(clock, 1)
    cluster: Any = Deaf()
    controller = Controller(cluster, cache, queue, {CHECKPOINTS: Asking()}, clock, Metrics(), resync=600.0)
    body = checkpoint("shop")
    body["metadata"] |= {"uid": "one", "resourceVersion": "1"}
    cache.put(CHECKPOINTS, body)
    working = asyncio.create_task(queue.run(controller.handle))
    queue.add(Item(CHECKPOINTS, Key("shop", "one")))
    await settle()
    assert len(looked) == 1
    pause = 600.0 if asked is None else asked
    await clock.pass_(pause - 0.01)
    assert len(looked) == 1, "too early"
    await clock.pass_(within + 0.02)
    assert len(looked) == 2, "too late"
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
