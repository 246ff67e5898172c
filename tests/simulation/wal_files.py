"""The log of one database, as the inspector knows it: which files are there, and which sequence numbers they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from slate_engine.state.manifest import Manifest
from slate_engine.store.protocol import Buffer
from tests.simulation.memo import read_wal


@dataclass(frozen=True)
class WalFile:
    """A fence has no rows, and no sequence numbers."""

    data: bytes
    first_seq: int = 0
    last_seq: int = 0

    @staticmethod
    def of(data: Buffer, id: int) -> WalFile:
        rows = read_wal(data, object=f"WAL {id}")
        seqs = rows.seq.tolist()
        assert sorted(seqs) == seqs, f"the rows of WAL file {id} are out of order"
        return WalFile(bytes(data), seqs[0], seqs[-1]) if seqs else WalFile(bytes(data))


@dataclass
class WalFiles:
    """Files come in any order, and each once."""

    found: dict[int, WalFile] = field(default_factory=dict)

    def add(self, id: int, data: Buffer, newest: Manifest | None) -> None:
        file = WalFile.of(data, id)
        before = self.found.setdefault(id, file)
        assert before.data == file.data, f"WAL file {id} was written over"
        # What comes late where replay has been is read by nobody.
        replay_after = 0 if newest is None else newest.replay_after_wal_id
        live = [(number, self.found[number]) for number in sorted(self.found) if number > replay_after]
        for (left, older), (right, newer) in pairwise([each for each in live if each[1].last_seq]):
            assert older.last_seq < newer.first_seq, (
                f"WAL file {right} begins with sequence number {newer.first_seq}, and {left} ends with {older.last_seq}"
            )

    def remove(self, id: int) -> None:
        self.found.pop(id, None)

    def missing(self, state: Manifest) -> list[int]:
        """The files that a state replays, as far as it knows of the log, and that are not there."""
        known = range(state.replay_after_wal_id + 1, state.wal_id_last_seen + 1)
        return [id for id in known if id not in self.found]
