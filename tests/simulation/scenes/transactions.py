"""Transactions under concurrency, and whether what they did could have been done one after another.

Commits have an order, that of their sequence numbers, so the question is simple to decide. A *serializable* transaction
must have read what it would have read if it had run as a whole at its place in that order. One under *snapshot* isolation
must have read the state in which it began, and nobody may have written any of its keys between its beginning and its end.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from slate_engine.errors import TransactionError
from slate_engine.format.key_range import KeyRange
from slate_engine.lsm.commit import Change
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.transactions import Transaction
from tests.simulation.ledger import Attempt, state_of
from tests.simulation.network import Weather
from tests.simulation.play import Play, drawn_options
from tests.simulation.session import Session
from tests.simulation.world import World

Rows = dict[bytes, bytes]


@dataclass
class Story:
    """What one transaction that committed has read, and when."""

    serializable: bool
    began: int
    keys: dict[bytes, bytes | None] = field(default_factory=dict)
    ranges: list[tuple[KeyRange, Rows]] = field(default_factory=list)
    attempt: Attempt | None = None

    def agrees_with(self, rows: Rows) -> bool:
        """Whether it would have read the same in this state."""
        return all(rows.get(key) == value for key, value in self.keys.items()) and all(
            {key: value for key, value in rows.items() if key in wanted} == found for wanted, found in self.ranges
        )


async def transactions(world: World) -> Play:
    """Some run transactions, some write without, all on the same few keys; the writer may crash under them."""
    play, chance = Play(world), world.chance
    stories: list[Story] = []
    process = world.process("bank", Weather.drawn(chance))
    if chance.random() < 0.3:
        process.doom(30, 200)

    async def work() -> None:
        session = await play.open(process, drawn_options(chance))
        await session.write([Change(b"%c" % letter, b"0") for letter in b"abcdef"])
        await asyncio.gather(
            *(_transact(session, chance, stories, f"t{number}") for number in range(chance.randint(2, 4))),
            _interfere(session, chance),
        )
        await session.close()

    await play.in_process(process, work())
    await play.finish()
    judge(play, stories)
    return play


async def _transact(session: Session, chance: random.Random, stories: list[Story], tag: str) -> None:
    for number in range(chance.randint(2, 5)):
        await asyncio.sleep(chance.uniform(0, 0.1))
        transaction, snapshot = session.writer.begin(), session.writer.snapshot()
        story = Story(chance.random() < 0.6, transaction.started_seq)
        try:
            changes = await _body(transaction, snapshot, story, chance, f"{tag}.{number}")
            attempt, commit = await session.take(changes, transaction)
            story.attempt = attempt
            stories.append(story)
        except TransactionError:
            continue
        finally:
            session.writer.end(transaction)
        if chance.random() < 0.5:
            await session.settle(attempt, commit)


async def _body(
    transaction: Transaction, snapshot: Snapshot, story: Story, chance: random.Random, tag: str
) -> list[Change]:
    """Read some keys and perhaps a range, take some time, and write some other keys or the same."""
    for _ in range(chance.randint(1, 2)):
        key = bytes([chance.choice(b"abcdef")])
        found = await snapshot.get(key)
        story.keys[key] = found.value if found is not None else None
    if chance.random() < 0.3:
        first = chance.choice(b"abcde")
        wanted = KeyRange.half_open(bytes([first]), bytes([first + 2]))
        rows = [row async for part in snapshot.scan(wanted) for row in part.tuples()]
        story.ranges.append((wanted, {row[0]: row[1] for row in rows}))
    await asyncio.sleep(chance.choice([0.0, 0.02, 0.2]))
    changes = [Change(bytes([chance.choice(b"abcdef")]), tag.encode()) for _ in range(chance.randint(1, 2))]
    transaction.writes.update(change.key for change in changes)
    if story.serializable:
        transaction.reads.update(story.keys)
        transaction.ranges.extend(wanted for wanted, _ in story.ranges)
    return changes


async def _interfere(session: Session, chance: random.Random) -> None:
    for number in range(4):
        await asyncio.sleep(chance.uniform(0, 0.2))
        await session.take([Change(bytes([chance.choice(b"abcdef")]), b"plain%d" % number)])
        if chance.random() < 0.3:
            await session.flush(memtable=True)


def judge(play: Play, stories: list[Story]) -> None:
    """Fails unless every transaction that committed did so by its level of isolation."""
    taken = sorted((attempt for tenure in play.ledger.tenures[:1] for attempt in tenure.taken), key=lambda one: one.seq)

    def state_before(seq: int) -> Rows:
        return {key: value for key, (value, _) in state_of(one for one in taken if one.seq < seq).items()}

    for story in stories:
        attempt = story.attempt
        assert attempt is not None
        assert story.agrees_with(state_before(story.began + 1)), f"{attempt} read a state that never was"
        if story.serializable:
            assert story.agrees_with(state_before(attempt.seq)), f"{attempt} is not serializable"
        mine = {change.key for change in attempt.changes}
        for other in taken:
            if story.began < other.seq < attempt.seq:
                theirs = mine & {change.key for change in other.changes}
                assert not theirs, f"{attempt} overwrote {theirs} of {other}, which it had not seen"
