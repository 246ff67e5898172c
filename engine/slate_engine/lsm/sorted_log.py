"""The rows of a log in the order of their keys, as row numbers: what a scan of a memtable needs.

Rows that have come since the last scan are sorted among themselves and become a run; neighbouring runs of like size are
merged. So a write makes the next scan sort what was written, and not everything again, a scan looks at few runs, and none of
the rows is copied before it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slate_engine.format.columns import I64, U8, Bytes, Rows
from slate_engine.format.kernel import kernel
from slate_engine.format.key_range import BoundType, KeyRange
from slate_engine.format.memory import octets, readonly
from slate_engine.lsm.cuts import marks
from slate_engine.lsm.order import compare, key_order, newest_first, run_bounds
from slate_engine.lsm.row_log import LogColumns

Run = npt.NDArray[np.int32]
"""Row numbers by key, the newest version first."""

LIKE = 2
"""A run that is at most so many times as long as the newer one before it is merged with it."""


@dataclass(frozen=True)
class SortedLog:
    """``runs`` come newest first, and each holds the rows between those of its neighbours."""

    columns: LogColumns
    runs: tuple[Run, ...] = ()

    @property
    def covered(self) -> int:
        return sum(map(len, self.runs))

    @property
    def work(self) -> int:
        """How many rows :meth:`completed` has to sort or merge."""
        new = self.columns.length - self.covered
        return new + sum(map(len, self.runs[: self._joined_by(new)])) if new else 0

    def completed(self) -> SortedLog:
        """The same with all rows of the log."""
        first, count = self.covered, self.columns.length
        if first == count:
            return self
        places = np.arange(first, count)
        places = places[newest_first(self.columns.keys(places))]
        joined = self._joined_by(len(places))
        newest = self._merged([places.astype(np.int32), *self.runs[:joined]])
        return replace(self, runs=(newest, *self.runs[joined:]))

    def in_one(self) -> SortedLog:
        """The same with all rows in one run."""
        whole = self.completed()
        return replace(whole, runs=(whole._merged(whole.runs),)) if len(whole.runs) > 1 else whole

    @property
    def places(self) -> I64:
        """The row numbers of the one run."""
        (run,) = self.runs
        return run.astype(np.int64)

    def key_begins(self, number: int) -> int:
        """The number, in the one run, of the first row from ``number`` on that begins a key."""
        (run,) = self.runs
        if not 0 < number < len(run):
            return number
        (before,) = self.columns.keys(run[number - 1 : number].astype(np.int64))
        return max(number, self._find(run, before, True))

    def _joined_by(self, rows: int) -> int:
        """How many of the runs are merged with a new one of so many rows."""
        for number, run in enumerate(self.runs):
            if LIKE * rows < len(run):
                return number
            rows += len(run)
        return len(self.runs)

    def _merged(self, runs: Sequence[Run]) -> Run:
        if len(runs) == 1:
            return runs[0]
        places = np.concatenate(runs)
        order = key_order(self.columns.keys(places.astype(np.int64)), run_bounds([len(run) for run in runs]))
        return places[order]

    # --- ranges --------------------------------------------------------------------------------------------------

    def within(self, wanted: KeyRange) -> list[Rows]:
        """The rows whose keys lie in ``wanted``, as sorted batches of their own, the newest first."""
        found = [run[slice(*self._span(run, wanted))] for run in self.runs]
        return [self.columns.take(places.astype(np.int64)) for places in found if len(places)]

    def marks(self, wanted: KeyRange) -> Iterator[tuple[Bytes, I64]]:
        """Of each run, keys that lie in ``wanted``, and about how many bytes of rows there are from each to the next: where
        it can be cut, as the block index of an SST tells it."""
        columns = self.columns
        for run in self.runs:
            part = run[slice(*self._span(run, wanted))]
            picks, sizes = marks(len(part), len(part) * columns.payload_bytes // max(1, columns.length))
            yield columns.keys(part[picks].astype(np.int64)), sizes

    def _span(self, run: Run, wanted: KeyRange) -> tuple[int, int]:
        first, last = 0, len(run)
        if wanted.start.bounded:
            first = self._find(run, wanted.start.key, wanted.start.type is BoundType.EXCLUDED)
        if wanted.end.bounded:
            last = self._find(run, wanted.end.key, wanted.end.type is BoundType.INCLUDED)
        return first, max(first, last)

    def _find(self, run: Run, key: bytes, after_equal: bool) -> int:
        return _search(
            readonly(self.columns.data), readonly(self.columns.offsets), readonly(run), octets(key), after_equal
        )


@kernel
def _search(data: U8, offsets: I64, run: Run, key: U8, after_equal: bool) -> int:
    """The number of the first row of a run that is at least ``key``, or greater than it."""
    low = 0
    high = len(run)
    while low < high:
        middle = (low + high) // 2
        at = 2 * run[middle]
        order = compare(data, offsets[at], offsets[at + 1], key, 0, len(key))
        if order < 0 or (after_equal and order == 0):
            low = middle + 1
        else:
            high = middle
    return low
