"""Mixed load for minutes: every answer is right, and memory stays flat.

``SLATEKEEPER_LOAD_MINUTES`` says for how long, if it is not to be the suite's share of ten.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field

import psutil
import pytest
from redis.asyncio import Redis
from redis.exceptions import WatchError

from tests.server.conftest import Start
from tests.server.processes import Service
from tests.share import SHARE

MINUTES = float(os.environ.get("SLATEKEEPER_LOAD_MINUTES", 10 * SHARE))
WORKERS, KEYS = 24, 300
MOST = 500e6
"""What the writer's memory may come to at any time: the cache and what is not flushed are bounded, and so is the rest."""
GROWTH = 40 << 20
"""What it may grow by, from the end of the warm-up to the end of the load."""
WARM_UP = 0.4
"""The share of the time in which memtables, caches and threads reach their size."""
LONG_ENOUGH = 8.0
"""Minutes. A shorter play is over before they have, and says nothing of growth."""

SETTINGS = '{"l0_sst_size_bytes": 1048576, "compactor_options": {"poll_interval": "500ms"}}'


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Worker:
    """A client with keys of its own, which knows what each must hold."""

    number: int
    port: int
    counts: Counter[str]
    values: dict[str, tuple[bytes, int | None]] = field(default_factory=dict)
    """What is stored, and until when, in milliseconds of the epoch."""
    client: Redis | None = None

    async def work(self, deadline: float) -> None:
        chance = random.Random(self.number)
        steps = [self.set, self.set, self.get, self.get, self.delete, self.mget, self.incr, self.scan, self.expire]
        steps += [self.transaction, self.pipeline]
        await self.connect()
        while time.monotonic() < deadline:
            if chance.random() < 0.01:
                await self.connect()
                self.counts["reconnect"] += 1
            step = chance.choice(steps)
            await step(chance)
            self.counts[step.__name__] += 1
        await self.check_all()
        assert self.client is not None
        await self.client.aclose()

    async def connect(self) -> None:
        if self.client is not None:
            await self.client.aclose()
        self.client = Redis(
            port=self.port, single_connection_client=True, socket_timeout=30, protocol=2 + self.number % 2
        )
        if self.number % 4:
            await self.client.execute_command("CLIENT", "SLATE", "DURABILITY", "memory")

    def key(self, chance: random.Random) -> str:
        return f"w{self.number:02}:{chance.randrange(KEYS):04}"

    def check(self, key: str, found: bytes | None, before: int) -> None:
        """What was found between ``before`` and now. A key that has expired meanwhile may be there or not."""
        value, until = self.values.get(key, (None, None))
        if until is not None and before <= until <= now_ms() and found is None:
            return
        if until is not None and until < before:
            value = None
        assert found == value, f"{key}: {found!r} instead of {value!r}, expires {until}, asked at {before}"

    # --- what it does --------------------------------------------------------------------------------------------

    async def set(self, chance: random.Random) -> None:
        assert self.client is not None
        key, value = self.key(chance), chance.randbytes(chance.choice((10, 100, 1000)))
        until = now_ms() + chance.randrange(50, 5000) if chance.random() < 0.3 else None
        assert await self.client.set(key, value, pxat=until) is True
        self.values[key] = (value, until)

    async def get(self, chance: random.Random) -> None:
        assert self.client is not None
        key, before = self.key(chance), now_ms()
        self.check(key, await self.client.get(key), before)

    async def delete(self, chance: random.Random) -> None:
        assert self.client is not None
        key, before = self.key(chance), now_ms()
        deleted = await self.client.delete(key)
        _, until = self.values.get(key, (None, None))
        if until is None:
            assert deleted == (key in self.values)
        elif until < before:
            assert deleted == 0
        self.values.pop(key, None)

    async def mget(self, chance: random.Random) -> None:
        assert self.client is not None
        keys, before = [self.key(chance) for _ in range(10)], now_ms()
        for key, found in zip(keys, await self.client.mget(keys), strict=True):
            self.check(key, found, before)

    async def incr(self, chance: random.Random) -> None:
        assert self.client is not None
        key = f"w{self.number:02}:counter"
        value = int(self.values.get(key, (b"0", None))[0]) + 3
        assert await self.client.incrby(key, 3) == value
        self.values[key] = (b"%d" % value, None)
        await self.client.incr("everybody")
        self.counts["everybody"] += 1

    async def expire(self, chance: random.Random) -> None:
        assert self.client is not None
        key, before = self.key(chance), now_ms()
        value, until = self.values.get(key, (b"", before - 1))
        new = now_ms() + chance.randrange(50, 5000)
        done = await self.client.pexpireat(key, new)
        if until is None or until > now_ms():
            assert done
        elif until < before:
            assert not done
        if done:
            self.values[key] = (value, new)

    async def transaction(self, chance: random.Random) -> None:
        assert self.client is not None
        first, second, value = self.key(chance), self.key(chance), b"%d" % chance.randrange(10**9)
        before = now_ms()
        async with self.client.pipeline(transaction=True) as pipe:
            await pipe.watch(first)
            pipe.multi()
            pipe.set(first, value).set(second, value).get(first)
            try:
                assert await pipe.execute() == [True, True, value]
            except WatchError:
                # Nobody else writes it; but it may have expired between the two.
                _, until = self.values.get(first, (b"", None))
                assert until is not None, f"{first} does not expire"
                assert before <= until <= now_ms(), f"{first} expires {until}, watched at {before}"
                return
        self.values[first] = self.values[second] = (value, None)

    async def pipeline(self, chance: random.Random) -> None:
        assert self.client is not None
        keys, value = [self.key(chance) for _ in range(20)], chance.randbytes(200)
        async with self.client.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.set(key, value)
            assert await pipe.execute() == [True] * len(keys)
        self.values.update(dict.fromkeys(keys, (value, None)))

    async def scan(self, chance: random.Random) -> None:
        """Of its own keys all that must be there, and none that must not."""
        assert self.client is not None
        if chance.random() < 0.8:
            return
        before = now_ms()
        found = [key.decode() async for key in self.client.scan_iter(match=f"w{self.number:02}:*", count=1000)]
        after = now_ms()
        assert len(found) == len(set(found))
        surely = {key for key, (_, until) in self.values.items() if until is None or until > after}
        perhaps = {key for key, (_, until) in self.values.items() if until is None or until >= before}
        assert surely <= set(found) <= perhaps

    async def check_all(self) -> None:
        assert self.client is not None
        for key in list(self.values):
            before = now_ms()
            self.check(key, await self.client.get(key), before)


async def watch_memory(service: Service, deadline: float) -> list[float]:
    """Megabytes, once a second."""
    assert service.process is not None
    process = psutil.Process(service.process.pid)
    curve = []
    while time.monotonic() < deadline:
        curve.append(process.memory_info().rss / 1e6)
        await asyncio.sleep(1)
    return curve


@pytest.mark.long
@pytest.mark.timeout(int(MINUTES * 60) + 240)
async def test_minutes_of_mixed_load(start: Start, bucket: dict[str, str]) -> None:
    writer = await start("writer", store="s3://bucket", environment=bucket, settings=SETTINGS).ready()
    deadline = time.monotonic() + MINUTES * 60
    counts: Counter[str] = Counter()
    watching = asyncio.ensure_future(watch_memory(writer, deadline))
    await asyncio.gather(*(Worker(number, writer.resp_port, counts).work(deadline) for number in range(WORKERS)))
    curve = await watching
    client = Redis(port=writer.resp_port)
    assert int(await client.get("everybody") or -1) == counts["everybody"]
    await client.aclose()
    assert writer.ask("GET", "/livez").status == 200
    status = writer.ask("GET", "/status").body
    assert writer.stop() == 0
    warm = int(len(curve) * WARM_UP)
    window = max(5, len(curve) // 10)
    first, last = statistics.median(curve[warm : warm + window]), statistics.median(curve[-window:])
    steps = [f"{value:.0f}" for value in curve[:: max(1, len(curve) // 20)]]
    print(
        f"{sum(counts.values())} requests, {dict(counts)}; MB: {' '.join(steps)}; after the warm-up {last - first:+.1f} MB"
    )
    print(f"L0 {status['l0_ssts']}, runs {status['sorted_runs']}, {status['size_bytes'] / 1e6:.1f} MB of data")
    assert max(curve) < MOST / 1e6, f"memory came to {max(curve):.0f} MB"
    if MINUTES >= LONG_ENOUGH:
        assert last - first < GROWTH / 1e6, f"memory grew from {first:.0f} to {last:.0f} MB"
