"""What lies between a process and its bucket: each process has a connection of its own, with weather.

A request travels to the bucket, is carried out there at one instant, and its answer travels back. Either way can take long,
and anything can go wrong: the service refuses to serve now (:attr:`Weather.refused`), the request is lost (``broken``), the
answer is lost (``unanswered``), the connection breaks and the request arrives all the same, later (``late``), or it is
carried out a second time by some proxy (``twice``). Whoever sent it cannot tell most of these apart.

A request that is on its way when its process crashes is on its way nevertheless.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum
import random
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from slate_engine.store.backend import Signed
from slate_engine.store.memory import PAGE, MemoryStore
from slate_engine.store.protocol import OVERWRITE, Buffer, Object, ObjectMeta, PutMode, StoreUnavailable
from tests.simulation.loop import SimulatedLoop

T = TypeVar("T")
WRITES = frozenset({"put", "put_stream", "copy", "delete"})


@dataclass(frozen=True)
class Weather:
    """How likely each mishap is for one request; times in seconds."""

    latency: tuple[float, float] = (0.005, 0.03)
    refused: float = 0.0
    broken: float = 0.0
    unanswered: float = 0.0
    late: float = 0.0
    twice: float = 0.0
    slow: float = 0.0
    longest: float = 20.0
    """How long at most a slow request takes, and a late or repeated one is on its way."""
    applies: Callable[[str, str], bool] = lambda operation, key: True
    """To which requests: an operation on a key. The others meet calm weather."""

    @staticmethod
    def drawn(chance: random.Random) -> Weather:
        """Some kind of weather: often calm, sometimes with one kind of mishap, sometimes with all of them."""

        def likely() -> float:
            return chance.choice([0.0, 0.0, 0.02, 0.1])

        return Weather(
            (0.002, chance.choice([0.01, 0.05, 0.3])),
            *(likely() for _ in range(6)),
            longest=chance.choice([1.0, 10.0, 70.0]),
        )


CALM = Weather()


class Moment(enum.Enum):
    """When a process crashes, seen from one of its requests."""

    BEFORE = "before it is sent"
    AFTER = "when it was carried out, before the answer"
    LATER = "while it is on its way, to be carried out later"


@dataclass(eq=False)
class Delivery:
    """A request on its way to the bucket."""

    arrive: Callable[[], None]
    timer: asyncio.TimerHandle


@dataclass
class Link:
    """One process's way to the bucket, as far as the world can change it."""

    weather: Weather = CALM
    out_until: float = 0.0
    """Until then nothing gets through."""
    requests: int = 0
    crash_at: tuple[int, Moment] | None = None
    pause_when: Callable[[str, str], float] | None = None
    """Asked for each request: for how many seconds the whole process stands still before the request is sent."""
    hold_when: Callable[[str, str], float] | None = None
    """Asked for each request: for how many seconds it is stuck on its way. The process goes on meanwhile."""
    under_way: dict[Delivery, None] = field(default_factory=dict)

    def scatter(self, chance: random.Random, loop: SimulatedLoop) -> None:
        """The sender is gone. Of its requests some are lost, some arrive as they would have, and some much later."""
        for delivery in list(self.under_way):
            match chance.randrange(3):
                case 0:
                    delivery.timer.cancel()
                    del self.under_way[delivery]
                case 1:
                    delivery.timer.cancel()
                    delivery.timer = loop.call_later(chance.uniform(0, 30), delivery.arrive)


class Connection:
    """The bucket as one process sees it: a :class:`~slate_engine.store.backend.Backend`."""

    def __init__(
        self,
        bucket: MemoryStore,
        loop: SimulatedLoop,
        link: Link,
        chance: random.Random,
        *,
        crash: Callable[[], None],
        pause: Callable[[float], None],
        note: Callable[[str, str, str], None],
    ) -> None:
        self._bucket = bucket
        self._loop = loop
        self._link = link
        self._chance = chance
        self._crash = crash
        self._pause = pause
        self._note = note
        self._outside = contextvars.copy_context()

    @property
    def url(self) -> str:
        return self._bucket.url

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return await self._call("get", key, lambda: self._bucket.get(key, if_none_match=if_none_match))

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        return await self._call("get_ranges", key, lambda: self._bucket.get_ranges(key, ranges))

    async def head(self, key: str) -> ObjectMeta:
        return await self._call("head", key, lambda: self._bucket.head(key))

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        return await self._call("put", key, lambda: self._bucket.put(key, data, mode, mark=mark))

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer], *, mark: str = "") -> str:
        whole = b"".join([bytes(chunk) async for chunk in chunks])
        return await self._call("put_stream", key, lambda: self._bucket.put(key, whole, mark=mark))

    async def read_mark(self, key: str) -> Signed:
        return await self._call("read_mark", key, lambda: self._bucket.read_mark(key))

    async def copy(self, source: str, destination: str) -> None:
        await self._call("copy", destination, lambda: self._bucket.copy(source, destination))

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        # Each page is a request of its own, so that a listing can break in the middle.
        after = start_after
        while True:
            page = await self._call("list", prefix, lambda after=after: self._page(prefix, after))
            if page:
                yield page
                after = page[-1].key
            if len(page) < PAGE:
                return

    async def delete(self, keys: Iterable[str]) -> None:
        gone = list(keys)
        await self._call("delete", gone[0] if gone else "", lambda: self._bucket.delete(gone))

    async def close(self) -> None:
        """The connection ends with its process."""

    async def _page(self, prefix: str, after: str) -> list[ObjectMeta]:
        async for page in self._bucket.list(prefix, start_after=after):
            return page
        return []

    async def _call(self, operation: str, key: str, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        link, loop, chance = self._link, self._loop, self._chance
        link.requests += 1
        moment = link.crash_at[1] if link.crash_at is not None and link.crash_at[0] == link.requests else None
        if link.pause_when is not None and (seconds := link.pause_when(operation, key)) > 0:
            self._pause(seconds)
            await asyncio.sleep(0)
        answer: asyncio.Future[T] = loop.create_future()
        calm = moment is not None or loop.time() < link.out_until or not link.weather.applies(operation, key)
        weather = CALM if calm else link.weather
        there, back = chance.uniform(*weather.latency), chance.uniform(*weather.latency)
        if moment is not None:
            self._send_and_crash(moment, operation, key, call)
        elif loop.time() < link.out_until:
            # Nothing gets through; what sits in some buffer may, once the way is free.
            if chance.random() < 0.3:
                self._deliver(link.out_until + there, operation, key, call)
            self._break(operation, key, answer, chance.uniform(0.5, 10), "unreachable")
        elif link.hold_when is not None and (seconds := link.hold_when(operation, key)) > 0:
            self._note(operation, key, "held")
            self._deliver(loop.time() + seconds, operation, key, call, answer, back)
        else:
            self._send(weather, operation, key, call, answer, there, back)
        return await answer

    def _send(
        self,
        weather: Weather,
        operation: str,
        key: str,
        call: Callable[[], Coroutine[Any, Any, T]],
        answer: asyncio.Future[T],
        there: float,
        back: float,
    ) -> None:
        chance, now = self._chance, self._loop.time()
        fate = chance.random()
        if (fate := fate - weather.refused) < 0:
            self._break(operation, key, answer, there + back, "refused")
        elif (fate := fate - weather.broken) < 0:
            self._break(operation, key, answer, there + back, "broken")
        elif (fate := fate - weather.unanswered) < 0:
            self._deliver(now + there, operation, key, call)
            self._break(operation, key, answer, there + back, "unanswered")
        elif (fate := fate - weather.late) < 0:
            self._deliver(now + chance.uniform(there, weather.longest), operation, key, call)
            self._break(operation, key, answer, there, "late")
        elif (fate := fate - weather.twice) < 0:
            self._note(operation, key, "twice")
            self._deliver(now + there, operation, key, call, answer, back)
            self._deliver(now + chance.uniform(there, weather.longest), operation, key, call)
        elif (fate := fate - weather.slow) < 0:
            self._note(operation, key, "slow")
            long = chance.uniform(0, weather.longest)
            there, back = chance.choice([(there + long, back), (there, back + long)])
            self._deliver(now + there, operation, key, call, answer, back)
        else:
            self._deliver(now + there, operation, key, call, answer, back)

    def _send_and_crash(
        self,
        moment: Moment,
        operation: str,
        key: str,
        call: Callable[[], Coroutine[Any, Any, T]],
    ) -> None:
        # The crash first: it scatters what was under way before.
        self._crash()
        match moment:
            case Moment.AFTER:
                self._carry_out(operation, key, call)
            case Moment.LATER:
                self._deliver(self._loop.time() + self._chance.uniform(0, 30), operation, key, call)

    def _deliver(
        self,
        when: float,
        operation: str,
        key: str,
        call: Callable[[], Coroutine[Any, Any, T]],
        answer: asyncio.Future[T] | None = None,
        back: float = 0.0,
    ) -> None:
        def arrive() -> None:
            self._link.under_way.pop(delivery, None)
            result, error = self._carry_out(operation, key, call)
            if answer is not None:
                self._answer(answer, back, result, error)

        delivery = Delivery(arrive, self._loop.call_at(when, arrive, context=self._outside))
        self._link.under_way[delivery] = None

    def _carry_out(
        self, operation: str, key: str, call: Callable[[], Coroutine[Any, Any, T]]
    ) -> tuple[T | None, BaseException | None]:
        result, error = _at_once(call())
        self._note(operation, key, type(error).__name__ if error is not None else "")
        return result, error

    def _break(self, operation: str, key: str, answer: asyncio.Future[T], seconds: float, how: str) -> None:
        self._note(operation, key, how)
        unknown = operation in WRITES and how != "refused"
        error = StoreUnavailable(f"{operation} of {key!r}: the request was {how}", unknown_outcome=unknown)
        self._answer(answer, seconds, None, error)

    def _answer(self, answer: asyncio.Future[T], back: float, result: T | None, error: BaseException | None) -> None:
        def tell() -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
                answer.exception()  # a process that has crashed meanwhile does not look at it
            else:
                answer.set_result(result)  # type: ignore[arg-type]

        self._loop.call_later(back, tell, context=self._outside)


def _at_once(call: Coroutine[Any, Any, T]) -> tuple[T | None, BaseException | None]:
    """Carry out a call of the bucket, which awaits nothing, in one step."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value, None
    except Exception as error:
        return None, error
    call.close()
    raise AssertionError("the bucket must not wait for anything")
