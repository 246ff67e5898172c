"""What lies between a process and its stores: each process has a wire of its own to each of them, with weather.

A request travels to the store, is carried out there at one instant, and its answer travels back. Either way can take long,
and anything can go wrong: the service refuses to serve now (:attr:`Weather.refused`), the request is lost (``broken``), the
answer is lost (``unanswered``), the connection breaks and the request arrives all the same, later (``late``), or it is
carried out a second time by some proxy (``twice``); an upload in parts breaks off amid them (``torn``). Whoever sent it
cannot tell most of these apart.

A request that is on its way when its process crashes is on its way nevertheless.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from slate_engine.store.protocol import StoreUnavailable
from tests.simulation.faults import Fault, Injector
from tests.simulation.loop import SimulatedLoop

T = TypeVar("T")
WRITES = frozenset(
    {"put", "put_stream", "copy", "delete", "put_if_absent", "compare_and_set", "delete_records", "delete_version"}
)


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
    torn: float = 0.0
    longest: float = 20.0
    """How long at most a slow request takes, and a late or repeated one is on its way."""
    applies: Callable[[str, str], bool] = lambda operation, key: True
    """To which requests: an operation on a key. The others meet calm weather."""

    def mishap(self, fate: float, operation: str) -> Fault | None:
        """What happens to a request of this operation for which ``fate``, a number below one, was drawn."""
        for how, likely in (
            (Fault.THROTTLING, self.refused),
            (Fault.ERROR_BEFORE, self.broken),
            (Fault.ERROR_AFTER, self.unanswered),
            (Fault.LATE, self.late),
            (Fault.TWICE, self.twice),
            (Fault.SLOW_LIST if operation == "list" else Fault.LATENCY, self.slow),
        ):
            fate -= likely
            if fate < 0:
                return how
        return None

    @staticmethod
    def drawn(chance: random.Random) -> Weather:
        """Some kind of weather: often calm, sometimes with one kind of mishap, sometimes with all of them."""

        def likely() -> float:
            return chance.choice([0.0, 0.0, 0.02, 0.1])

        return Weather(
            (0.002, chance.choice([0.01, 0.05, 0.3])),
            *(likely() for _ in range(7)),
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

    number: int
    arrive: Callable[[], None]
    timer: asyncio.TimerHandle


@dataclass
class Link:
    """One process's way to a store, as far as the world can change it."""

    weather: Weather = CALM
    outage: Fault = Fault.UNREACHABLE
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


class Sender(Protocol):
    """The process at this end."""

    name: str

    def crash(self) -> None: ...

    def pause(self, seconds: float) -> None: ...

    def note(self, operation: str, key: str, outcome: str) -> None: ...


@dataclass(eq=False)
class Request(Generic[T]):
    """One call on its way, and the answer that its sender waits for."""

    operation: str
    key: str
    call: Callable[[], Coroutine[Any, Any, T]]
    answer: asyncio.Future[T]
    number: int


class Wire:
    """What carries the requests of one process to one store."""

    def __init__(
        self, sender: Sender, loop: SimulatedLoop, link: Link, chance: random.Random, injector: Injector
    ) -> None:
        self._sender = sender
        self._loop = loop
        self._link = link
        self._chance = chance
        self._injector = injector
        self._outside = contextvars.copy_context()

    async def call(self, operation: str, key: str, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        link, loop, weather = self._link, self._loop, self._link.weather
        link.requests += 1
        if link.pause_when is not None and (seconds := link.pause_when(operation, key)) > 0:
            self._sender.pause(seconds)
            await asyncio.sleep(0)
        request = Request(operation, key, call, loop.create_future(), link.requests)
        if not weather.applies(operation, key):
            weather = CALM
        if link.crash_at is not None and link.crash_at[0] == link.requests and self._strikes(Fault.KILL_AT_REQUEST):
            self._send_and_crash(request, link.crash_at[1])
        elif loop.time() < link.out_until and self._strikes(link.outage):
            self._send_nowhere(request)
        elif link.hold_when is not None and (seconds := link.hold_when(operation, key)) > 0:
            self._sender.note(operation, key, "held")
            self._deliver(request, loop.time() + seconds, self._chance.uniform(*weather.latency))
        else:
            self._send(request, weather)
        return await request.answer

    async def upload(self, key: str) -> None:
        """The parts of an upload that is to be completed by a call."""
        if self._chance.random() < self._link.weather.torn and self._strikes(Fault.TORN):
            self._sender.note("put_stream", key, "torn")
            await asyncio.sleep(self._chance.uniform(*self._link.weather.latency))
            raise StoreUnavailable(f"put_stream of {key!r}: the upload was torn", unknown_outcome=True)

    def _strikes(self, fault: Fault) -> bool:
        return self._injector.strikes(fault, f"{self._sender.name}, request {self._link.requests}")

    def _send(self, request: Request[T], weather: Weather) -> None:
        # The same draws whatever comes of them, so that a run without some mishap differs by that mishap.
        chance, now = self._chance, self._loop.time()
        there, back = chance.uniform(*weather.latency), chance.uniform(*weather.latency)
        fate, long, outward = chance.random(), chance.uniform(0, weather.longest), chance.random() < 0.5
        how = weather.mishap(fate, request.operation)
        if how is None or not self._strikes(how):
            self._deliver(request, now + there, back)
            return
        match how:
            case Fault.THROTTLING:
                self._break(request, there + back, "refused")
            case Fault.ERROR_BEFORE:
                self._break(request, there + back, "broken")
            case Fault.ERROR_AFTER:
                self._deliver(request, now + there)
                self._break(request, there + back, "unanswered")
            case Fault.LATE:
                self._deliver(request, now + max(there, long))
                self._break(request, there, "late")
            case Fault.TWICE:
                self._sender.note(request.operation, request.key, "twice")
                self._deliver(request, now + there, back)
                self._deliver(request, now + max(there, long))
            case _:
                self._sender.note(request.operation, request.key, "slow")
                self._deliver(request, now + there + outward * long, back + (not outward) * long)

    def _send_nowhere(self, request: Request[T]) -> None:
        """Nothing gets through; what sits in some buffer may, once the way is free."""
        chance = self._chance
        if chance.random() < 0.3:
            self._deliver(request, self._link.out_until + chance.uniform(*CALM.latency))
        self._break(request, chance.uniform(0.5, 10), "unreachable")

    def _send_and_crash(self, request: Request[T], moment: Moment) -> None:
        # The crash first: it scatters what was under way before.
        self._sender.crash()
        match moment:
            case Moment.AFTER:
                self._carry_out(request)
            case Moment.LATER:
                self._deliver(request, self._loop.time() + self._chance.uniform(0, 30))

    def _deliver(self, request: Request[T], when: float, back: float | None = None) -> None:
        """Have it carried out then, and answered ``back`` seconds later, if at all."""

        def arrive() -> None:
            under_way = self._link.under_way
            del under_way[delivery]
            if any(other.number < request.number for other in under_way):
                self._injector.counts[Fault.REORDERING] += 1
            result, error = self._carry_out(request)
            if back is not None:
                self._answer(request, back, result, error)

        delivery = Delivery(request.number, arrive, self._loop.call_at(when, arrive, context=self._outside))
        self._link.under_way[delivery] = None

    def _carry_out(self, request: Request[T]) -> tuple[T | None, BaseException | None]:
        result, error = _at_once(request.call())
        self._sender.note(request.operation, request.key, type(error).__name__ if error is not None else "")
        return result, error

    def _break(self, request: Request[T], seconds: float, how: str) -> None:
        self._sender.note(request.operation, request.key, how)
        unknown = request.operation in WRITES and how != "refused"
        what = f"{request.operation} of {request.key!r}: the request was {how}"
        self._answer(request, seconds, None, StoreUnavailable(what, unknown_outcome=unknown))

    def _answer(self, request: Request[T], back: float, result: T | None, error: BaseException | None) -> None:
        def tell() -> None:
            answer = request.answer
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
