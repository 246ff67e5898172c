"""The Lease when its holder dies without a word, and when it comes back after that."""

from __future__ import annotations

import asyncio
import time

import pytest

from slate_operator.clock import SystemClock
from slate_operator.lease import Lease, LeaseLost
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.edge.world import World, world

SECONDS = 4.0


def lease(here: World, place: str, identity: str) -> Lease:
    return Lease(here.requests, SystemClock(), namespace=place, name="operator", identity=identity, seconds=SECONDS)


async def test_who_dies_is_replaced_when_his_time_is_up_and_not_before(kinds: ApiServer, place: str) -> None:
    async with world(kinds) as here:
        dead, heir = lease(here, place, "dead"), lease(here, place, "heir")
        await dead.acquire()
        began = time.monotonic()
        async with asyncio.timeout(20):
            await heir.acquire()
        assert time.monotonic() - began >= SECONDS, "it was taken from one who may have been alive"
        with pytest.raises(LeaseLost, match="heir has taken"):
            async with asyncio.timeout(20):
                await dead.keep()
        spec = kinds.kubectl.get("lease/operator", "-n", place)["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("heir", 2)


async def test_renewing_is_one_request_and_giving_back_lets_the_next_one_in_at_once(
    kinds: ApiServer, place: str
) -> None:
    async with world(kinds) as here:
        first, second = lease(here, place, "first"), lease(here, place, "second")
        await first.acquire()
        here.took()
        keeping = asyncio.create_task(first.keep())
        await asyncio.sleep(SECONDS)
        keeping.cancel()
        assert set(here.took()) == {("update", "leases")}
        await first.release()
        began = time.monotonic()
        await second.acquire()
        assert time.monotonic() - began < SECONDS


async def test_who_cannot_renew_gives_up_before_another_may_take_it(kinds: ApiServer, place: str) -> None:
    async with world(kinds) as here:
        cut_off = lease(here, place, "cut off")
        await cut_off.acquire()
        began = time.monotonic()
        here.requests._configuration.host = "https://127.0.0.1:1"
        with pytest.raises(LeaseLost, match="could not be renewed"):
            async with asyncio.timeout(20):
                await cut_off.keep()
        assert time.monotonic() - began < SECONDS
