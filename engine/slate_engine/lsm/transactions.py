"""Which transactions are open, and whether one that wants to commit has lost.

Under snapshot isolation a transaction loses when a key that it writes was committed by somebody else after it began; under
serializable isolation also when a key or a range that it read was. A plain write counts as a transaction of its own, so
what it committed is remembered as long as an open transaction could collide with it, and no longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from slate_engine.format.key_range import KeyRange


@dataclass(eq=False)
class Transaction:
    """What an open transaction has read and written; ``started_seq`` is the state that it sees."""

    started_seq: int
    writes: set[bytes] = field(default_factory=set)
    reads: set[bytes] = field(default_factory=set)
    ranges: list[KeyRange] = field(default_factory=list)


class Transactions:
    """The open transactions of one writer, and the commits that they could collide with."""

    def __init__(self) -> None:
        self._open: set[Transaction] = set()
        self._committed: dict[bytes, int] = {}

    def begin(self, seq: int) -> Transaction:
        transaction = Transaction(seq)
        self._open.add(transaction)
        return transaction

    def end(self, transaction: Transaction) -> None:
        """Forget a transaction that has committed or been rolled back. Ending it again changes nothing."""
        self._open.discard(transaction)
        self._forget_old_commits()

    def conflict(self, transaction: Transaction) -> bytes | None:
        """A key over which this transaction has lost, if there is one."""
        started, committed = transaction.started_seq, self._committed
        for key in (*transaction.writes, *transaction.reads):
            if committed.get(key, 0) > started:
                return key
        if transaction.ranges:
            for key, seq in committed.items():
                if seq > started and any(key in read for read in transaction.ranges):
                    return key
        return None

    def committed(self, keys: Iterable[bytes], seq: int) -> None:
        """Remember that these keys were written at ``seq``, if any open transaction could still care."""
        if self._open:
            self._committed.update(dict.fromkeys(keys, seq))

    def min_seq(self) -> int | None:
        """The oldest state that an open transaction sees."""
        return min((transaction.started_seq for transaction in self._open), default=None)

    def _forget_old_commits(self) -> None:
        oldest = self.min_seq()
        if oldest is None:
            self._committed.clear()
        elif len(self._committed) > 1024:
            self._committed = {key: seq for key, seq in self._committed.items() if seq > oldest}
