"""Everything that is done to a run, by name, and counted: a fault that never strikes proves nothing.

What strikes is decided by chance, and each strike has a name of its own in its run (``throttling of w1, request 17``). So a
run can be played again without some of them, and a long story becomes a short one (:mod:`tests.simulation.shrink`).
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator


class Fault(enum.Enum):
    """What can happen to a request, to a process, or to a clock; and company that nobody expects."""

    LATENCY = "latency"
    REORDERING = "reordering"
    THROTTLING = "throttling"
    ERROR_BEFORE = "error before the effect"
    ERROR_AFTER = "error after the effect"
    LATE = "carried out after the error"
    TWICE = "carried out twice"
    TORN = "torn multipart upload"
    SLOW_LIST = "slow listing"
    UNREACHABLE = "store unreachable"
    TABLE_UNREACHABLE = "transactional store unreachable"
    KILL_AT_REQUEST = "kill at a request"
    KILL_AT_AWAIT = "kill at any await"
    RESTART = "restart after a kill"
    PAUSE = "pause"
    LONG_STALL = "stall longer than the minimum age"
    LEASE_STALL = "stall longer than a lease"
    CLOCK_SKEW = "clock skew"
    CLOCK_JUMP = "clock jump"
    TWO_WRITERS = "two writers"
    TWO_READERS = "two readers"
    TWO_COMPACTORS = "two compactors"
    TWO_WORKERS = "two compaction workers"
    TWO_COLLECTORS = "two garbage collectors"
    TWO_KEEPERS = "two makers of checkpoints"
    TWO_CLONERS = "two makers of one clone"
    TWO_ADMINISTRATORS = "two who destroy, undelete or restore"


class Role(enum.Enum):
    """What a process is to a database; of each there may be two at once."""

    WRITER = Fault.TWO_WRITERS
    READER = Fault.TWO_READERS
    COMPACTOR = Fault.TWO_COMPACTORS
    WORKER = Fault.TWO_WORKERS
    COLLECTOR = Fault.TWO_COLLECTORS
    KEEPER = Fault.TWO_KEEPERS
    CLONER = Fault.TWO_CLONERS
    ADMINISTRATOR = Fault.TWO_ADMINISTRATORS


class Injector:
    """What strikes in one run: all that chance decides, but for what is named in ``without``."""

    def __init__(self, without: frozenset[str] = frozenset()) -> None:
        self.counts: Counter[Fault] = Counter()
        self._without = without
        self._decided: dict[str, None] = {}

    def allows(self, what: str) -> bool:
        """Whether something that could as well be left out is to happen."""
        self._decided[what] = None
        return what not in self._without

    def strikes(self, fault: Fault, where: str) -> bool:
        """The same for a fault, which counts if it does."""
        if not self.allows(f"{fault.value} of {where}"):
            return False
        self.counts[fault] += 1
        return True

    @property
    def happened(self) -> Iterator[str]:
        """Everything that could have been left out, and was not."""
        return (what for what in self._decided if what not in self._without)
