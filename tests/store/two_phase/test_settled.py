"""A transactional store whose answers get lost: never a false conflict, never a false success."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from slate_engine.store.protocol import StoreUnavailable
from slate_engine.store.two_phase.record import Record, inlined, intent
from slate_engine.store.two_phase.settled import Settled
from tests.store.two_phase.doubles import ManualRuntime, MemoryTransactions

NAME = "s3://bucket/db/gc/x"
CLOCK = ManualRuntime()
FIRST, OURS, THEIRS = (inlined(NAME, data, CLOCK) for data in (b"1", b"2", b"3"))


class Losing(MemoryTransactions):
    """Breaks the connection at scripted calls: ``before`` they are carried out, or ``after``. Then others may act."""

    def __init__(
        self, *script: str, meanwhile: Callable[[MemoryTransactions], Awaitable[object]] | None = None
    ) -> None:
        super().__init__()
        self._script = list(script)
        self._meanwhile = meanwhile

    async def _struck(self, call: Callable[[], Awaitable[Any]]) -> Any:
        strike = self._script.pop(0) if self._script else "none"
        if strike == "none":
            return await call()
        if strike == "after":
            await call()
        if self._meanwhile is not None:
            table = MemoryTransactions()
            table.records = self.records
            await self._meanwhile(table)
        raise StoreUnavailable("connection broken", unknown_outcome=True, retryable=strike != "refused")

    async def put_if_absent(self, record: Record) -> Record | None:
        return await self._struck(lambda: MemoryTransactions.put_if_absent(self, record))

    async def compare_and_set(self, record: Record, *, expected: str) -> bool:
        return await self._struck(lambda: MemoryTransactions.compare_and_set(self, record, expected=expected))

    async def delete_version(self, record: Record) -> bool:
        return await self._struck(lambda: MemoryTransactions.delete_version(self, record))


@pytest.mark.parametrize("strike", ["before", "after"])
async def test_an_insert_is_ours_whichever_attempt_made_it(strike: str) -> None:
    table = Losing(strike, strike)
    assert await Settled(table, CLOCK).put_if_absent(OURS) is None
    assert table.records == {NAME: OURS}


@pytest.mark.parametrize("committed", [False, True])
async def test_an_insert_is_ours_even_if_somebody_finished_it_for_us(committed: bool) -> None:
    record = intent(NAME, b"data", CLOCK)

    async def finish(table: MemoryTransactions) -> None:
        if committed:
            await table.compare_and_set(record.committed(), expected=record.version)

    assert await Settled(Losing("after", meanwhile=finish), CLOCK).put_if_absent(record) is None


async def test_an_insert_that_never_arrived_loses_to_one_that_did() -> None:
    ours, theirs = (intent(NAME, data, CLOCK) for data in (b"1", b"2"))
    table = Losing("before", meanwhile=lambda table: table.put_if_absent(theirs))
    assert await Settled(table, CLOCK).put_if_absent(ours) == theirs


@pytest.mark.parametrize("strike", ["before", "after"])
async def test_a_compare_and_set_is_ours_whichever_attempt_made_it(strike: str) -> None:
    table = Losing("none", strike)
    store = Settled(table, CLOCK)
    await store.put_if_absent(FIRST)
    assert await store.compare_and_set(OURS, expected=FIRST.version)
    assert table.records == {NAME: OURS}


async def test_a_successor_hides_what_became_of_ours() -> None:
    """Ours was carried out and replaced, or it never was: both look the same, and neither is guessed."""
    for strike, expected in (("after", OURS), ("before", FIRST)):
        replaced = expected.version
        table = Losing(
            "none", strike, meanwhile=lambda table, replaced=replaced: table.compare_and_set(THEIRS, expected=replaced)
        )
        store = Settled(table, CLOCK)
        await store.put_if_absent(FIRST)
        with pytest.raises(StoreUnavailable) as caught:
            await store.compare_and_set(OURS, expected=FIRST.version)
        assert caught.value.unknown_outcome
        assert table.records == {NAME: THEIRS}


async def test_a_successor_hides_what_became_of_our_insert() -> None:
    table = Losing("after", meanwhile=lambda table: table.compare_and_set(THEIRS, expected=OURS.version))
    with pytest.raises(StoreUnavailable) as caught:
        await Settled(table, CLOCK).put_if_absent(OURS)
    assert caught.value.unknown_outcome


async def test_a_plain_refusal_is_a_refusal() -> None:
    table = Losing()
    store = Settled(table, CLOCK)
    await store.put_if_absent(FIRST)
    assert not await store.compare_and_set(OURS, expected=THEIRS.version)
    assert await store.put_if_absent(OURS) == FIRST


async def test_committing_what_is_gone_is_not_in_doubt() -> None:
    record = intent(NAME, b"data", CLOCK)
    assert not await Settled(Losing("before"), CLOCK).compare_and_set(record.committed(), expected=record.version)


@pytest.mark.parametrize("strike", ["before", "after"])
async def test_a_deletion_is_done_whichever_attempt_did_it(strike: str) -> None:
    table = Losing("none", strike)
    store = Settled(table, CLOCK)
    await store.put_if_absent(FIRST)
    assert await store.delete_version(FIRST)
    assert table.records == {}


async def test_attempts_are_bounded_and_take_time() -> None:
    clock = ManualRuntime()
    table = Losing(*["before"] * 100)
    with pytest.raises(StoreUnavailable) as caught:
        await Settled(table, clock, attempts=5).put_if_absent(OURS)
    assert caught.value.unknown_outcome
    assert len(table._script) == 95
    assert 0.1 < clock.monotonic() - ManualRuntime().monotonic() < 10


async def test_what_will_not_get_better_is_not_tried_again() -> None:
    table = Losing(*["refused"] * 100)
    with pytest.raises(StoreUnavailable):
        await Settled(table, CLOCK).put_if_absent(OURS)
    assert len(table._script) == 99
