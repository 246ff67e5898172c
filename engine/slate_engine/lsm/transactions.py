"""Which transactions are open, and whether one that wants to commit has lost.

Under snapshot isolation a transaction loses when a key that it writes was committed by somebody else after it began; under
serializable isolation also when a key or a range that it read was. A plain write counts as a transaction of its own, so
what it committed is remembered as long as an open transaction could collide with it, and no longer. One that stays open
while more is committed than is worth remembering loses: whether it did collide, nobody knows any more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile

from slate_engine.format.key_range import BoundType, KeyRange

MOST_BYTES = 256 << 20
"""Of keys that were written while a transaction was open. More are not remembered for the sake of one that takes so long."""
ENTRY_BYTES = 200
"""What remembering a key takes beside the key itself."""


@dataclass(eq=False)
class Transaction:
    """What an open transaction has read and written; ``started_seq`` is the state that it sees."""

    started_seq: int
    writes: set[bytes] = field(default_factory=set)
    reads: set[bytes] = field(default_factory=set)
    ranges: list[KeyRange] = field(default_factory=list)


class Transactions:
    """The open transactions of one writer, and the commits that they could collide with. Both are in the order of their
    sequence numbers, so that what is not needed any more is always at the front."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._open: OrderedDict[Transaction, None] = OrderedDict()
        self._abandoned: deque[Transaction] = deque()
        self._committed: OrderedDict[bytes, int] = OrderedDict()
        self._forgotten_seq = 0
        """Up to here commits have been forgotten although somebody could have collided with them."""

    def begin(self, seq: int) -> Transaction:
        self._end_abandoned()
        transaction = Transaction(seq)
        self._open[transaction] = None
        return transaction

    def end(self, transaction: Transaction) -> None:
        """Forget a transaction that has committed or been rolled back. Ending it again changes nothing."""
        self._open.pop(transaction, None)
        oldest = self._oldest_seq()
        if oldest is None:
            self._committed.clear()
            self._bytes = 0
            return
        while self._committed and next(iter(self._committed.values())) <= oldest:
            self._forget_one()

    def abandon(self, transaction: Transaction) -> None:
        """Somebody has thrown a transaction away. Python may notice that in any thread, and while we look through what was
        committed, so it is only noted here, and ended later."""
        self._abandoned.append(transaction)

    def _end_abandoned(self) -> None:
        while self._abandoned:
            self.end(self._abandoned.popleft())

    def conflict(self, transaction: Transaction) -> bytes | None:
        """A key over which this transaction has lost, if there is one."""
        started, committed = transaction.started_seq, self._committed
        unknown = started < self._forgotten_seq
        for key in (*transaction.writes, *transaction.reads):
            if unknown or committed.get(key, 0) > started:
                return key
        if transaction.ranges:
            if unknown:
                return b""
            # Keys and ranges may both be many. In order, the first key from the start of a range on decides for it.
            newer = sorted(takewhile(lambda key: committed[key] > started, reversed(committed)))
            for read in transaction.ranges:
                search = bisect_right if read.start.type is BoundType.EXCLUDED else bisect_left
                place = search(newer, read.start.key)
                if place < len(newer) and newer[place] in read:
                    return newer[place]
        return None

    def committed(self, keys: Iterable[bytes], seq: int) -> None:
        """Remember that these keys were written at ``seq``, if any open transaction could still care."""
        self._end_abandoned()
        if not self._open:
            return
        committed = self._committed
        for key in keys:
            if key in committed:
                committed.move_to_end(key)
            else:
                self._bytes += len(key) + ENTRY_BYTES
            committed[key] = seq
        while self._bytes > self._most_bytes:
            self._forgotten_seq = self._forget_one()

    def min_seq(self) -> int | None:
        """The oldest state that an open transaction sees."""
        self._end_abandoned()
        return self._oldest_seq()

    def _oldest_seq(self) -> int | None:
        return next((transaction.started_seq for transaction in self._open), None)

    def _forget_one(self) -> int:
        """Forget the oldest commit; its sequence number."""
        key, seq = self._committed.popitem(last=False)
        self._bytes -= len(key) + ENTRY_BYTES
        return seq
