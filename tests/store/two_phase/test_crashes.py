"""A process dies after any step: of a write, a recovery, a deletion. The write is absent or whole, and nobody else wins.

The steps are not written down here: each scenario is run once to see which calls it makes, and then once more for each of
them, dying right after it. A step that is added to the code is a case that is added to these tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from slate_engine.store.protocol import CREATE, Conflict, NotFound, Update
from slate_engine.store.two_phase import TwoPhaseStore
from slate_engine.store.two_phase.record import State
from tests.store.two_phase.doubles import (
    BOUNDARY,
    DAY,
    KEY,
    Crash,
    LyingStore,
    ManualRuntime,
    MemoryTransactions,
    Steps,
)

FIRST, SECOND = b"the first writer's bytes", b"what the second one wanted"


@dataclass
class World:
    """A bucket and a table that outlive the processes which use them."""

    runtime: ManualRuntime = field(default_factory=ManualRuntime)
    transactions: MemoryTransactions = field(default_factory=MemoryTransactions)

    def __post_init__(self) -> None:
        self.bucket = LyingStore(self.runtime, name="bucket")

    def process(self, steps: Steps | None = None) -> TwoPhaseStore:
        steps = steps or Steps()
        return TwoPhaseStore(steps.over(self.bucket), steps.over(self.transactions), self.runtime)

    async def run(self, action: Action, crash_after: int | None = None) -> tuple[object, list[str]]:
        """What the action answers (an exception it raised, if it did; None if its process died), and its steps."""
        steps = Steps(crash_after)
        try:
            return await action(self.process(steps)), steps.taken
        except (Conflict, NotFound) as answer:
            return answer, steps.taken
        except Crash:
            return None, steps.taken

    @property
    def durable(self) -> bytes | None:
        """The write that has won, by the record; None while there is none."""
        record = self.transactions.records.get(f"memory:///bucket/{KEY}")
        if record is None:
            return None
        return {len(FIRST): FIRST, len(SECOND): SECOND}[record.size]


Action = Callable[[TwoPhaseStore], Awaitable[object]]


async def write_first(store: TwoPhaseStore) -> object:
    return await store.put(KEY, FIRST, CREATE)


async def write_second(store: TwoPhaseStore) -> object:
    return await store.put(KEY, SECOND, CREATE)


async def impatient_second(store: TwoPhaseStore) -> object:
    store._patience_ms = -1.0  # this loser does not wait, and finishes the winner's write at once
    return await store.put(KEY, SECOND, CREATE)


async def recover(store: TwoPhaseStore) -> object:
    return await store.recover()


async def collect(store: TwoPhaseStore) -> object:
    return await store.collect(older_than=DAY)


async def read(store: TwoPhaseStore) -> object:
    return bytes((await store.get(KEY)).data)


async def listing(store: TwoPhaseStore) -> object:
    return [meta async for page in store.list("db/manifest/") for meta in page]


async def delete(store: TwoPhaseStore) -> object:
    return await store.delete([KEY])


FOLLOWERS: dict[str, Action] = {
    "recover": recover,
    "collect": collect,
    "second writer": write_second,
    "impatient second writer": impatient_second,
    "reader": read,
    "listing": listing,
}


async def steps_of(*actions: tuple[Action, int | None]) -> list[str]:
    world = World()
    taken: list[str] = []
    for action, crash_after in actions:
        _, taken = await world.run(action, crash_after)
    return taken


WRITE_STEPS = asyncio.run(steps_of((write_first, None)))


def followers() -> list[tuple[int, str, int]]:
    """Each crash of the writer, with each that comes next, dying after each of its own steps (or not at all)."""
    cases = []
    for crash in range(len(WRITE_STEPS) + 1):
        for name, action in FOLLOWERS.items():
            steps = asyncio.run(steps_of((write_first, crash), (action, None)))
            cases += [(crash, name, then) for then in range(1, len(steps) + 1)]
    return cases


def test_the_steps_are_those_of_the_protocol() -> None:
    assert WRITE_STEPS == ["head", "put", "put_if_absent", "copy", "head", "compare_and_set", "delete"]


@pytest.mark.parametrize(("crash", "follower", "then"), followers())
async def test_crash_and_crash_again(crash: int, follower: str, then: int) -> None:
    world = World()
    answer, steps = await world.run(write_first, crash)
    assert answer is None
    durable = "put_if_absent" in steps
    assert world.durable == (FIRST if durable else None)

    await world.run(FOLLOWERS[follower], then)
    world.runtime.seconds += 2 * DAY
    won = world.durable
    assert won in ([FIRST] if durable else [None, SECOND])

    # Everybody who looks sees the same, before any recovery and after it.
    for _ in range(2):
        seen, _ = await world.run(read)
        assert seen == won if won is not None else isinstance(seen, NotFound)
        listed, _ = await world.run(listing)
        assert [meta.key for meta in listed] == ([KEY] if won is not None else [])
        assert [meta.size for meta in listed] == ([len(won)] if won is not None else [])
        await world.run(recover)

    again, _ = await world.run(write_second)
    assert isinstance(again, Conflict) if won is not None else isinstance(again, str)
    await world.run(collect)
    assert world.bucket.snapshot() == {KEY: won or SECOND}
    assert [record.state for record in world.transactions.records.values()] == [State.COMMITTED]


@pytest.mark.parametrize("crash", range(len(WRITE_STEPS) + 1))
async def test_two_recoveries_at_once(crash: int) -> None:
    world = World()
    await world.run(write_first, crash)
    durable = world.durable
    await asyncio.gather(*(world.process().recover() for _ in range(4)))
    assert world.bucket.snapshot().get(KEY) == durable
    world.runtime.seconds += 2 * DAY
    await world.process().collect(older_than=DAY)
    assert world.bucket.temporaries() == []


DELETE_STEPS = asyncio.run(steps_of((write_first, None), (delete, None)))


@pytest.mark.parametrize("crash", range(len(DELETE_STEPS) + 1))
@pytest.mark.parametrize("written", range(WRITE_STEPS.index("put_if_absent") + 1, len(WRITE_STEPS) + 1))
async def test_crash_of_a_deletion(written: int, crash: int) -> None:
    world = World()
    await world.run(write_first, written)
    await world.run(delete, crash)
    seen, _ = await world.run(read)
    assert seen == FIRST or isinstance(seen, NotFound)

    await world.run(delete)
    assert isinstance((await world.run(read))[0], NotFound)
    assert (await world.run(listing))[0] == []
    assert world.durable is None
    assert isinstance((await world.run(write_second))[0], str)
    world.runtime.seconds += 2 * DAY
    await world.run(collect)
    assert world.bucket.snapshot() == {KEY: SECOND}


@pytest.mark.parametrize("crash", range(len(DELETE_STEPS) + 1))
async def test_the_collector_finishes_a_deletion(crash: int) -> None:
    world = World()
    await world.run(write_first)
    await world.run(delete, crash)
    world.runtime.seconds += 2 * DAY
    await world.run(collect)
    # Either nothing was deleted, or all of it is: no record keeps the name of a deleted object for ever.
    assert (world.durable is None) == (KEY not in world.bucket.snapshot())


def advance(value: bytes) -> Action:
    async def action(store: TwoPhaseStore) -> object:
        try:
            etag = (await store.get(BOUNDARY)).meta.etag
        except NotFound:
            return await store.put(BOUNDARY, value, CREATE)
        return await store.put(BOUNDARY, value, Update(etag))

    return action


async def boundary(store: TwoPhaseStore) -> object:
    return bytes((await store.get(BOUNDARY)).data)


async def forget_boundary(store: TwoPhaseStore) -> object:
    return await store.delete([BOUNDARY])


CHANGES: dict[str, tuple[Action, bytes | None]] = {"update": (advance(b"12"), b"12"), "delete": (forget_boundary, None)}


def changes() -> list[tuple[str, int]]:
    cases = []
    for name, (action, _) in CHANGES.items():
        steps = asyncio.run(steps_of((advance(b"7"), None), (action, None)))
        assert "compare_and_set" in steps
        cases += [(name, crash) for crash in range(len(steps) + 1)]
    return cases


@pytest.mark.parametrize(("change", "crash"), changes())
async def test_crash_of_a_change_to_a_mutable_object(change: str, crash: int) -> None:
    action, after = CHANGES[change]
    world = World()
    await world.run(advance(b"7"))
    _, steps = await world.run(action, crash)
    expected = after if "compare_and_set" in steps else b"7"

    for _ in range(2):
        seen, _ = await world.run(boundary)
        assert seen == expected if expected is not None else isinstance(seen, NotFound)
        await world.run(recover)
    assert world.bucket.snapshot() == ({} if expected is None else {BOUNDARY: expected})
    await world.run(advance(b"15"))
    assert world.bucket.snapshot() == {BOUNDARY: b"15"}
