"""What was asked of a database, what it said, and whether what can be read from it agrees.

Every commit writes, beside its own changes, a row under a name that only it has. So each state that anybody reads says
itself which commits it is made of, and everything else in it follows: all their rows, none of any other, in the order of
their sequence numbers. What remains to be judged is whether it is made of the right commits:

* one that was acknowledged is there, whoever opens the database, from then on and for ever;
* one that was refused (its ``write`` raised) never is. One whose ``durable`` raised may be there or not, but if it is seen
  once it stays;
* of one writer's commits those that are there are the first ones: none is missing before one that is there. Only a writer
  with several WAL files under way may lose one and keep a later one (RFC-0001), neither of which it has acknowledged: with
  a commit all before it are acknowledged;
* no sequence number is used twice;
* a writer that opens the database has everything that any older writer ever acknowledges, even afterwards.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from slate_engine.format.columns import MERGE, TOMBSTONE
from slate_engine.lsm.commit import Change

Note = Callable[[str, str, str, str], None]
"""Told who did what, with which commit or epoch, and how it went: for the record of a run."""

MARK = b"!"
"""The first byte of the names that commits have in the database."""


class Fate(enum.Enum):
    ASKED = "asked"
    """The writer has not taken it yet."""
    TAKEN = "taken"
    """The writer shows it; it may or may not survive."""
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNSURE = "unsure"


@dataclass(eq=False)
class Attempt:
    """One commit that somebody asked for."""

    id: int
    session: Tenure
    changes: tuple[Change, ...]
    fate: Fate = Fate.ASKED
    seq: int = 0

    @property
    def name(self) -> bytes:
        return MARK + b"%d" % self.id

    def __repr__(self) -> str:
        return f"<commit {self.id} of {self.session.name}, {self.fate.value}, seq {self.seq}>"


@dataclass(eq=False)
class Tenure:
    """One writer's time with the database."""

    name: str
    parallel: bool
    epoch: int = 0
    found: frozenset[int] | None = None
    """The commits that it saw when it had opened the database."""
    taken: list[Attempt] = field(default_factory=list)


@dataclass(frozen=True)
class Seen:
    """A state as somebody saw it: key, value and sequence number of each row."""

    rows: dict[bytes, tuple[bytes, int]]

    @staticmethod
    def of(rows: Iterable[Sequence[object]]) -> Seen:
        return Seen({bytes(row[0]): (bytes(row[1]), int(row[2])) for row in rows})  # type: ignore[call-overload, arg-type]


class Ledger:
    """The record of one run."""

    def __init__(self, note: Note = lambda who, what, which, how: None) -> None:
        self._note = note
        self.rules: list[Callable[[Seen], None]] = []
        """What must hold of every state that anybody sees, besides; each raises ``AssertionError``."""
        self.attempts: list[Attempt] = []
        self.tenures: list[Tenure] = []
        self._seen: list[tuple[str, frozenset[int]]] = []
        self._last_seen: dict[str, frozenset[int]] = {}

    # --- what happens --------------------------------------------------------------------------------------------

    def tenure(self, name: str, *, parallel: bool = False) -> Tenure:
        tenure = Tenure(name, parallel)
        self.tenures.append(tenure)
        return tenure

    def opened(self, tenure: Tenure, epoch: int, seen: Seen) -> None:
        """A writer has taken over: it must have all that older ones have acknowledged by now."""
        assert all(other.epoch != epoch for other in self.tenures), f"epoch {epoch} was given out twice"
        tenure.epoch = epoch
        tenure.found = self.judge(f"{tenure.name} at its opening", seen)
        missing = {
            attempt.id
            for attempt in self.attempts
            if attempt.fate is Fate.ACKNOWLEDGED and attempt.session.epoch < epoch and attempt.id not in tenure.found
        }
        assert not missing, f"{tenure.name} opened the database without {self._named(missing)}"
        self._note(tenure.name, "opened", f"epoch {epoch}", f"found {len(tenure.found)} commits")

    def asked(self, tenure: Tenure, changes: Iterable[Change]) -> Attempt:
        attempt = Attempt(len(self.attempts) + 1, tenure, tuple(changes))
        self.attempts.append(attempt)
        return attempt

    def taken(self, attempt: Attempt, seq: int) -> None:
        before = attempt.session.taken[-1].seq if attempt.session.taken else 0
        assert seq > before, f"{attempt} got sequence number {seq} after {before}"
        attempt.fate, attempt.seq = Fate.TAKEN, seq
        attempt.session.taken.append(attempt)
        self._tell(attempt)

    def refused(self, attempt: Attempt) -> None:
        attempt.fate = Fate.REFUSED
        self._tell(attempt)

    def unsure(self, attempt: Attempt) -> None:
        attempt.fate = Fate.UNSURE
        self._tell(attempt)

    def acked(self, attempt: Attempt) -> None:
        """Nobody who has taken over may be without it, nor without what its writer took before it."""
        for earlier in attempt.session.taken:
            if earlier.seq < attempt.seq and earlier.fate in (Fate.TAKEN, Fate.UNSURE):
                self._acked(earlier)
        self._acked(attempt)

    def _acked(self, attempt: Attempt) -> None:
        attempt.fate = Fate.ACKNOWLEDGED
        self._tell(attempt)
        for tenure in self.tenures:
            if tenure.found is not None and tenure.epoch > attempt.session.epoch:
                assert attempt.id in tenure.found, f"{attempt} was acknowledged behind the back of {tenure.name}"

    def _tell(self, attempt: Attempt) -> None:
        keys = b" ".join(change.key for change in attempt.changes).decode(errors="replace")
        what = f"commit {attempt.id}: {keys}"
        self._note(attempt.session.name, attempt.fate.value, what, f"seq {attempt.seq}" if attempt.seq else "")

    def saw(self, reader: str, seen: Seen, must_have: frozenset[int] = frozenset()) -> frozenset[int]:
        """A reader of what is durable has read everything. What it sees only ever grows."""
        commits = self.judge(reader, seen)
        lost = self._last_seen.get(reader, frozenset()) - commits
        assert not lost, f"{reader} does not see {self._named(lost)} any more"
        missing = must_have - commits
        assert not missing, f"{reader} does not see {self._named(missing)}, acknowledged before it looked"
        self._last_seen[reader] = commits
        self._seen.append((reader, commits))
        return commits

    @property
    def acknowledged(self) -> frozenset[int]:
        return frozenset(attempt.id for attempt in self.attempts if attempt.fate is Fate.ACKNOWLEDGED)

    # --- whether it is right -------------------------------------------------------------------------------------

    def judge(self, reader: str, seen: Seen) -> frozenset[int]:
        """The commits that a state is made of; fails unless it is exactly what they come to."""
        names = [key for key in seen.rows if key.startswith(MARK)]
        commits = [self.attempts[int(name[1:]) - 1] for name in names]
        for attempt in commits:
            assert attempt.fate is not Fate.REFUSED, f"{reader} sees {attempt}"
            assert seen.rows[attempt.name][1] == attempt.seq, f"{reader} sees {attempt} at {seen.rows[attempt.name][1]}"
        commits.sort(key=lambda attempt: attempt.seq)
        for before, after in itertools.pairwise(commits):
            assert before.seq < after.seq, f"{reader} sees {before} and {after}"
        expected = state_of(commits)
        assert seen.rows == expected, f"{reader} sees {_difference(seen.rows, expected)}"
        for rule in self.rules:
            rule(seen)
        return frozenset(attempt.id for attempt in commits)

    def close(self, seen: Seen) -> None:
        """The end of a run: ``seen`` is what the database holds for good."""
        final = self.judge("the last reader", seen)
        lost = self.acknowledged - final
        assert not lost, f"{self._named(lost)} is lost"
        for tenure in self.tenures:
            self._check_prefix(tenure, final)
        for reader, commits in self._seen:
            newest = max((self.attempts[id - 1].seq for id in commits), default=0)
            there_by_then = {id for id in final if self.attempts[id - 1].seq <= newest}
            assert commits == there_by_then, (
                f"{reader} saw a state that never was: {self._named(commits ^ there_by_then)} makes the difference"
            )

    def _check_prefix(self, tenure: Tenure, final: frozenset[int]) -> None:
        if tenure.parallel:
            return
        missing: Attempt | None = None
        for attempt in tenure.taken:
            if attempt.id not in final:
                missing = missing or attempt
            else:
                assert missing is None, f"{missing} is lost, and {attempt} is there"

    def _named(self, ids: Iterable[int]) -> str:
        return ", ".join(repr(self.attempts[id - 1]) for id in sorted(ids))


def state_of(commits: Iterable[Attempt]) -> dict[bytes, tuple[bytes, int]]:
    """What commits, in this order, come to. The merge operator of these databases joins values."""
    rows: dict[bytes, tuple[bytes, int]] = {}
    for attempt in commits:
        rows[attempt.name] = b"", attempt.seq
        for change in attempt.changes:
            if change.flags & TOMBSTONE:
                rows.pop(change.key, None)
            elif change.flags & MERGE:
                rows[change.key] = rows.get(change.key, (b"", 0))[0] + change.value, attempt.seq
            else:
                rows[change.key] = change.value, attempt.seq
    return rows


def _difference(found: dict[bytes, tuple[bytes, int]], expected: dict[bytes, tuple[bytes, int]]) -> str:
    wrong = [key for key in sorted({*found, *expected}) if found.get(key) != expected.get(key)]
    return "; ".join(f"{key!r} as {found.get(key)}, not {expected.get(key)}" for key in wrong[:5])
