"""The simulated world itself: processes that stop where they stand, requests that outlive them, and all kinds of mishaps."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from slate_engine.store.protocol import CREATE, Conflict, StoreUnavailable
from tests.simulation.ledger import Ledger, Seen
from tests.simulation.network import CALM, Moment, Weather
from tests.simulation.session import drawn_changes
from tests.simulation.world import HASTY, Broken, Crashed, World, explore


def test_a_crashed_process_never_runs_another_line() -> None:
    async def scene(world: World) -> list[str]:
        process = world.process()
        process.link.crash_at = 2, Moment.AFTER
        log: list[str] = []

        async def beside() -> None:
            while True:
                await asyncio.sleep(0.001)
                log.append("beside")

        async def work() -> None:
            process.start(beside())
            try:
                await process.store.put("a", b"1")
                log.append("put a")
                await process.store.put("b", b"1")
                log.append("put b")
            finally:
                log.append("finally")

        with pytest.raises(Crashed):
            await process.run(work())
        by_then = list(log)
        await asyncio.sleep(10)
        assert log == by_then
        assert {key for key in ("a", "b") if key in world.bucket._objects} == {"a", "b"}
        return by_then

    log = explore(scene, 1)
    assert "put a" in log
    assert "beside" in log
    assert not {"put b", "finally"} & set(log)


@pytest.mark.parametrize(("moment", "there"), [(Moment.BEFORE, [False]), (Moment.AFTER, [True])])
def test_the_last_request_of_a_process(moment: Moment, there: list[bool]) -> None:
    assert [_is_there(moment, after=0.0)] == there


def test_a_request_may_arrive_long_after_its_sender_is_gone() -> None:
    assert not _is_there(Moment.LATER, after=0.0)
    assert _is_there(Moment.LATER, after=31.0)


def _is_there(moment: Moment, after: float) -> bool:
    async def scene(world: World) -> bool:
        process = world.process()
        process.link.crash_at = 1, moment
        with pytest.raises(Crashed):
            await process.run(process.store.put("a", b"1"))
        await asyncio.sleep(after)
        return "a" in world.bucket._objects

    return explore(scene, 3)


def test_a_paused_process_goes_on_where_it_was() -> None:
    async def scene(world: World) -> list[float]:
        process = world.process()
        ticks: list[float] = []

        async def tick() -> None:
            for _ in range(4):
                await asyncio.sleep(1)
                ticks.append(world.loop.time())

        task = process.start(tick())
        await asyncio.sleep(1.5)
        process.pause(10)
        await task
        return ticks

    assert explore(scene, 1) == pytest.approx([1, 11.5, 12.5, 13.5])


def test_nothing_gets_through_to_who_is_cut_off() -> None:
    async def scene(world: World) -> None:
        process = world.process(patience=HASTY)
        process.cut_off(60)
        with pytest.raises(StoreUnavailable) as caught:
            await process.run(process.store.put("a", b"1"))
        assert caught.value.unknown_outcome
        assert "a" not in world.bucket._objects
        await asyncio.sleep(60)
        await process.run(process.store.put("b", b"1"))
        assert "b" in world.bucket._objects

    explore(scene, 1)


def test_lost_answers_are_settled_by_the_real_store() -> None:
    """Of many creators of one object, with answers lost all the time, exactly one believes that he won."""

    async def scene(world: World) -> None:
        weather = replace(CALM, unanswered=0.2, late=0.1, twice=0.2, longest=1.0)
        won: list[str] = []

        async def create(name: str) -> None:
            process = world.process(name, weather)
            try:
                await process.run(process.store.put("same", b"", CREATE))
                won.append(name)
            except Conflict:
                pass

        await asyncio.gather(*(create(name) for name in "abcdef"))
        assert len(won) == 1

    for seed in range(30):
        explore(scene, seed)


def test_a_failure_names_its_seed_and_shows_what_happened() -> None:
    async def scene(world: World) -> None:
        process = world.process("who")
        await process.run(process.store.put("where", b""))
        raise AssertionError("this is wrong")

    with pytest.raises(Broken, match=r"scene, seed 42: AssertionError: this is wrong\nreplay: .*\n.*who +put +where"):
        explore(scene, 42)


def test_a_task_that_nobody_waits_for_does_not_fail_unseen() -> None:
    async def scene(world: World) -> None:
        async def fail() -> None:
            raise ValueError("unseen")

        world.process().start(fail())
        await asyncio.sleep(1)

    with pytest.raises(Broken, match="unseen"):
        explore(scene, 1)


class TestTheLedger:
    """It finds fault with each kind of wrong state."""

    def setup_method(self) -> None:
        self.ledger = Ledger()
        self.tenure = self.ledger.tenure("w")
        self.ledger.opened(self.tenure, 1, Seen({}))

    def _commit(self, seq: int, *, acked: bool = False) -> dict[bytes, tuple[bytes, int]]:
        changes = [change._replace(flags=0) for change in drawn_changes(random.Random(seq), str(seq), keys=1000)]
        attempt = self.ledger.asked(self.tenure, changes)
        self.ledger.taken(attempt, seq)
        if acked:
            self.ledger.acked(attempt)
        return {attempt.name: (b"", seq), **{change.key: (change.value, seq) for change in changes}}

    def test_a_whole_state_is_right(self) -> None:
        first, second = self._commit(1, acked=True), self._commit(2)
        self.ledger.close(Seen(first))
        self.ledger.close(Seen({**first, **second}))

    def test_a_lost_commit(self) -> None:
        self._commit(1, acked=True)
        with pytest.raises(AssertionError, match="is lost"):
            self.ledger.close(Seen({}))

    def test_a_torn_commit(self) -> None:
        rows = self._commit(1)
        rows.pop(max(rows))
        with pytest.raises(AssertionError, match="sees"):
            self.ledger.judge("r", Seen(rows))

    def test_a_commit_without_the_one_before(self) -> None:
        self._commit(1)
        second = self._commit(2)
        with pytest.raises(AssertionError, match="is lost, and"):
            self.ledger.close(Seen(second))

    def test_a_refused_commit(self) -> None:
        attempt = self.ledger.asked(self.tenure, [])
        self.ledger.refused(attempt)
        with pytest.raises(AssertionError, match="refused"):
            self.ledger.judge("r", Seen({attempt.name: (b"", 0)}))

    def test_a_reader_that_goes_back(self) -> None:
        first, second = self._commit(1), self._commit(2)
        self.ledger.saw("r", Seen({**first, **second}))
        with pytest.raises(AssertionError, match="any more"):
            self.ledger.saw("r", Seen(first))

    def test_a_state_that_never_was(self) -> None:
        first, second = self._commit(1), self._commit(2)
        self.ledger.saw("r", Seen(first))
        with pytest.raises(AssertionError, match="is lost, and"):
            self.ledger.close(Seen(second))

    def test_an_acknowledgement_behind_the_back_of_a_successor(self) -> None:
        attempt = self.ledger.asked(self.tenure, [])
        self.ledger.taken(attempt, 1)
        self.ledger.opened(self.ledger.tenure("next"), 2, Seen({}))
        with pytest.raises(AssertionError, match="behind the back"):
            self.ledger.acked(attempt)

    def test_an_epoch_that_is_given_out_twice(self) -> None:
        with pytest.raises(AssertionError, match="twice"):
            self.ledger.opened(self.ledger.tenure("next"), 1, Seen({}))


def test_weather_can_be_confined_to_some_requests() -> None:
    async def scene(world: World) -> None:
        bad = Weather(broken=1.0, applies=lambda operation, key: key == "bad")
        process = world.process(weather=bad, patience=HASTY)
        await process.run(process.store.put("good", b""))
        with pytest.raises(StoreUnavailable):
            await process.run(process.store.put("bad", b""))

    explore(scene, 1)
