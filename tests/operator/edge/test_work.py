"""The work queue: one look at a time at each object, nothing forgotten, nothing hammered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from slate_operator.kube.cluster import CHECKPOINTS, Key
from slate_operator.work import LONGEST_PAUSE, STUCK, Item, WorkQueue
from tests.operator.edge.clocks import HandClock, settle


def item(name: str) -> Item:
    return Item(CHECKPOINTS, Key("default", name))


class Workshop:
    """Counts who is worked on at once; work ends when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.together = 0
        self.most: dict[str, int] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self._at_work: list[str] = []

    async def handle(self, item: Item) -> None:
        name = item.key.name
        self.begun.append(name)
        self._at_work.append(name)
        self.together = max(self.together, len(self._at_work))
        self.most[name] = max(self.most.get(name, 0), self._at_work.count(name))
        await self.gate.wait()
        self._at_work.remove(name)


@asynccontextmanager
async def running(queue: WorkQueue, workshop: Workshop) -> AsyncIterator[None]:
    task = asyncio.create_task(queue.run(workshop.handle))
    try:
        await settle()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        workshop.gate.set()
        await queue.drain(5)


async def test_what_is_added_twice_is_done_once() -> None:
    queue, workshop = WorkQueue(HandClock(), 4), Workshop()
    for _ in range(3):
        queue.add(item("a"))
    async with running(queue, workshop):
        assert workshop.begun == ["a"]
        assert queue.idle


async def test_what_changes_while_it_is_worked_on_is_done_once_more_and_never_at_the_same_time() -> None:
    queue, workshop = WorkQueue(HandClock(), 4), Workshop()
    workshop.gate.clear()
    async with running(queue, workshop):
        queue.add(item("a"))
        await settle()
        queue.add(item("a"))
        queue.add(item("a"))
        await settle()
        assert workshop.begun == ["a"]
        workshop.gate.set()
        await settle()
    assert workshop.begun == ["a", "a"]
    assert workshop.most["a"] == 1


async def test_no_more_than_so_many_are_worked_on_and_nobody_is_passed_over() -> None:
    queue, workshop = WorkQueue(HandClock(), 3), Workshop()
    workshop.gate.clear()
    async with running(queue, workshop):
        for number in range(10):
            queue.add(item(str(number)))
        await settle()
        assert workshop.begun == ["0", "1", "2"]
        assert len(queue) == 7
        workshop.gate.set()
        await settle()
    assert workshop.begun == [str(number) for number in range(10)]
    assert workshop.together == 3


async def test_the_earlier_of_two_timers_counts() -> None:
    clock = HandClock()
    queue, workshop = WorkQueue(clock, 4), Workshop()
    async with running(queue, workshop):
        queue.add_after(item("a"), 100)
        queue.add_after(item("a"), 10)
        queue.add_after(item("a"), 50)
        await clock.pass_(9)
        assert workshop.begun == []
        await clock.pass_(2)
        assert workshop.begun == ["a"]
        await clock.pass_(200)
        assert workshop.begun == ["a"], "a timer that was overtaken still rang"


async def test_what_fails_comes_back_later_each_time_and_success_forgets_that() -> None:
    clock = HandClock()
    queue = WorkQueue(clock, 4)
    pauses = [queue.failed(item("a")) for _ in range(12)]
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == LONGEST_PAUSE
    queue.succeeded(item("a"))
    assert queue.failed(item("a")) == 1


async def test_a_handler_that_raises_is_tried_again_and_holds_nobody_up() -> None:
    clock = HandClock()
    queue = WorkQueue(clock, 1)
    seen: list[str] = []

    async def handle(item: Item) -> None:
        seen.append(item.key.name)
        if item.key.name == "bad":
            raise ZeroDivisionError

    task = asyncio.create_task(queue.run(handle))
    queue.add(item("bad"))
    queue.add(item("good"))
    await settle()
    assert seen == ["bad", "good"]
    await clock.pass_(1.5)
    assert seen == ["bad", "good", "bad"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_is_forgotten_does_not_ring() -> None:
    clock = HandClock()
    queue, workshop = WorkQueue(clock, 4), Workshop()
    async with running(queue, workshop):
        queue.add_after(item("a"), 5)
        queue.forget(item("a"))
        await clock.pass_(10)
        assert workshop.begun == []


async def test_waiting_for_ever_is_told() -> None:
    clock = HandClock()
    queue = WorkQueue(clock, 4)
    queue.add(item("a"))
    assert queue.stuck() == []
    await clock.pass_(STUCK + 1)
    assert "Checkpoint default/a has waited" in queue.stuck()[0]


async def test_at_the_end_work_in_hand_is_finished_or_cut_off() -> None:
    queue, workshop = WorkQueue(HandClock(), 4), Workshop()
    workshop.gate.clear()
    task = asyncio.create_task(queue.run(workshop.handle))
    queue.add(item("a"))
    await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert queue.busy == 1
    await queue.drain(0.01)
    assert queue.busy == 0
