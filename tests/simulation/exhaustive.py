"""Every order in which a few processes can take their steps, on the real code: not some schedules but all of them.

An actor is a coroutine of the engine. Each request that it makes is one step; between two steps it is alone. At any step it
may also die when the request was carried out, or be told that the answer was lost. A state is what the stores hold and what
each actor has been answered so far, for that decides all that it will do; two schedules that lead to the same state need not
both be followed. The states are found by playing schedules from the beginning, so nothing in the engine knows of this; and
every one is looked at after each of its steps each time, for what was seen on the way is part of a state, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from slate_engine.runtime import Runtime
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import Attributes, Buffer, StoreUnavailable
from tests.simulation.network import WRITES

T = TypeVar("T")


class How(Enum):
    GOES_ON = ""
    DIES = "and dies before the answer"
    IS_NOT_TOLD = "and the answer is lost"


class Choice(NamedTuple):
    actor: str
    how: How


@dataclass
class Step:
    """A request that waits to be carried out; its actor is given the answer."""

    name: str
    call: Callable[[], Awaitable[Any]]

    @property
    def changes(self) -> bool:
        """Whether anything may be different after it."""
        return self.name.partition(" ")[0] in WRITES

    def __await__(self) -> Generator[Step, Any, Any]:
        return (yield self)


class Stepping:
    """A store each of whose calls is a step of whoever uses it."""

    def __init__(self, store: Any) -> None:
        self._store = store

    @property
    def url(self) -> str:
        return str(self._store.url)

    async def list(self, prefix: str, **options: Any) -> AsyncIterator[Any]:
        async def whole() -> list[Any]:
            return [page async for page in self._store.list(prefix, **options)]

        for page in await Step(f"list {prefix}", whole):
            yield page

    def __getattr__(self, name: str) -> Callable[..., Step]:
        method = getattr(self._store, name)

        def call(first: Any, *rest: Any, **options: Any) -> Step:
            about = getattr(first, "destination", first)
            return Step(f"{name} {about}", lambda: method(first, *rest, **options))

        return call


class Objects(MemoryStore):
    """Etags count the writes of each key, so that the order of writes to different keys does not show."""

    def __init__(self, runtime: Runtime, *, lies: bool = False) -> None:
        super().__init__(runtime)
        self.lies = lies
        self._writes: dict[str, int] = {}

    async def put(self, key: str, data: Buffer, mode: Any = None, *, mark: str = "") -> str:
        if mode is None or self.lies:
            return self._store(key, bytes(data), mark)
        return await super().put(key, data, mode, mark=mark)

    def _store(self, key: str, data: Buffer, mark: str, attributes: Attributes = ()) -> str:
        self._writes[key] = self._versions = self._writes.get(key, 0) + 1
        self._versions -= 1
        return super()._store(key, data, mark, attributes)


@dataclass
class Actor:
    """One process: what it does, what it waits for, and what it was answered."""

    work: Coroutine[Any, Any, None]
    answers: list[str] = field(default_factory=list)
    waits: Step | None = None

    def go_on(self, answer: Any = None, error: Exception | None = None) -> None:
        """To its next request, or to its end."""
        self.waits = None
        try:
            waits = self.work.send(answer) if error is None else self.work.throw(error)
            while not isinstance(waits, Step):
                waits = self.work.send(None)  # it sleeps, which takes no time that anybody could notice
            self.waits = waits
        except StopIteration:
            pass

    def die(self) -> None:
        self.waits = None


class Model:
    """A few actors on some stores; subclasses say which, and what must hold."""

    lost_answers = 1
    """So many answers are lost in one schedule, at most."""

    def __init__(self) -> None:
        self.actors: dict[str, Actor] = {}
        self.taken: list[str] = []
        self._left = self.lost_answers
        self.prepare()
        for actor in self.actors.values():
            actor.go_on()

    def prepare(self) -> None:
        """Fill the stores, and name the actors."""
        raise NotImplementedError

    def contents(self) -> Any:
        """What the stores hold, and what was promised so far: everything that matters beside the actors."""
        raise NotImplementedError

    def check(self) -> None:
        """Holds in every state: whoever comes now and finds everybody else stopped finds what was promised. Called after
        every step, so it may remember what was seen, as long as :meth:`contents` tells of that."""
        raise NotImplementedError

    def choices(self) -> Iterator[Choice]:
        for name, actor in self.actors.items():
            if actor.waits is None:
                continue
            yield Choice(name, How.GOES_ON)
            # Who dies with a look may as well never have looked; who is not told what he saw looks again.
            if actor.waits.changes:
                yield Choice(name, How.DIES)
                if self._left:
                    yield Choice(name, How.IS_NOT_TOLD)

    def take(self, choice: Choice) -> None:
        actor = self.actors[choice.actor]
        step = actor.waits
        assert step is not None
        self.taken.append(f"{choice.actor}: {step.name} {choice.how.value}".rstrip())
        answer, error = at_once(step.call)
        if choice.how is How.DIES:
            actor.die()
            return
        if choice.how is How.IS_NOT_TOLD:
            self._left -= 1
            answer, error = None, StoreUnavailable("the answer is lost", unknown_outcome=True)
        actor.answers.append(f"{answer!r}{error!r}")
        actor.go_on(answer, error)

    @property
    def state(self) -> int:
        """Of an actor that has ended, nothing matters but what it left behind."""
        actors = (tuple(actor.answers) if actor.waits is not None else None for actor in self.actors.values())
        return hash((repr(self.contents()), self._left, *actors))


@dataclass(frozen=True)
class Explored:
    """How much there was."""

    states: int
    ends: int
    deepest: int


def explore_all(model: Callable[[], Model], most: int = 200_000) -> Explored:
    """Check every state that the model can reach. What breaks is raised with the schedule that leads there."""
    seen: set[int] = set()
    waiting: list[tuple[Choice, ...]] = [()]
    ends = deepest = 0
    while waiting:
        path = waiting.pop()
        played = model()
        _check(played)
        for choice in path:
            _take(played, choice)
        while True:
            if played.state in seen:
                break
            seen.add(played.state)
            assert len(seen) <= most, f"there are more than {most} states; the model is too large"
            choices = list(played.choices())
            deepest = max(deepest, len(path))
            if not choices:
                ends += 1
                break
            # One goes on from here at once; the others begin anew.
            waiting += [(*path, choice) for choice in choices[1:]]
            path = (*path, choices[0])
            _take(played, choices[0])
    return Explored(len(seen), ends, deepest)


def _take(played: Model, choice: Choice) -> None:
    played.take(choice)
    _check(played)


def _check(played: Model) -> None:
    try:
        played.check()
    except Exception as error:
        steps = "\n".join(f"  {step}" for step in played.taken)
        raise AssertionError(f"{type(error).__name__}: {error}\nafter\n{steps}") from error


def at_once(call: Callable[[], Awaitable[T]]) -> tuple[T | None, Exception | None]:
    """Do something that waits for nothing."""

    async def whole() -> T:
        return await call()

    work = whole()
    try:
        while True:
            work.send(None)
    except StopIteration as done:
        return done.value, None
    except Exception as error:
        return None, error
