"""The sequence tracker: which sequence number was committed when, for about the last weeks of a database's life.

Two columns that do not descend, sequence numbers and unix seconds. On the wire each is a stream of bits: the count, the
first value in full, and then how much every step differs from the step before, in five sizes of code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slate_engine.errors import CorruptData, UnsupportedFormat
from slate_engine.format.columns import I64, U8, U64
from slate_engine.format.flatbuf.spans import readonly
from slate_engine.format.kernel import kernel

CAPACITY = 8192
"""When there are more points than this, every second one is dropped."""

INTERVAL_S = 60
"""At most one point is recorded in this time."""

_MOST_POINTS = 128 * CAPACITY
"""Far more than anybody records; a bound on what a corrupt count can make us allocate."""

_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class SequenceTracker:
    """Points (sequence number, unix second), oldest first."""

    seq: U64
    time_s: I64

    @staticmethod
    def of(points: list[tuple[int, int]]) -> SequenceTracker:
        return SequenceTracker(
            np.array([seq for seq, _ in points], np.uint64), np.array([time for _, time in points], np.int64)
        )

    def __len__(self) -> int:
        return len(self.seq)

    def __repr__(self) -> str:
        return f"<tracker of {len(self)} points>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SequenceTracker):
            return NotImplemented
        return np.array_equal(self.seq, other.seq) and np.array_equal(self.time_s, other.time_s)

    __hash__ = None  # type: ignore[assignment]

    def record(self, seq: int, now_s: int) -> SequenceTracker:
        """With this point, unless it comes too soon after the last one or would make a column descend."""
        if len(self) and (now_s - int(self.time_s[-1]) < INTERVAL_S or seq < int(self.seq[-1])):
            return self
        seqs, times = np.append(self.seq, np.uint64(seq)), np.append(self.time_s, np.int64(now_s))
        step = 2 if len(seqs) > CAPACITY else 1
        return SequenceTracker(seqs[::step].copy(), times[::step].copy())

    def time_of(self, seq: int, *, round_up: bool) -> int | None:
        """When ``seq`` was committed. Between two points it is that of the later or of the earlier one."""
        place = _neighbour(self.seq, np.uint64(seq), round_up=round_up)
        return None if place is None else int(self.time_s[place])

    def seq_at(self, time_s: int, *, round_up: bool) -> int | None:
        """What had been committed at ``time_s``, rounded likewise."""
        place = _neighbour(self.time_s, np.int64(time_s), round_up=round_up)
        return None if place is None else int(self.seq[place])

    def encode(self) -> bytes:
        """The wire has no code for a step that differs by more than 32 bits from the one before; SlateDB 0.17 writes
        wrong data there, and cannot read the version that can. So the points before such a leap are given up."""
        first = _encodable_from(self.seq.view(np.int64), self.time_s)
        count = len(self) - first
        # The longest code takes 36 bits.
        out = np.zeros(5 + 2 * (12 + (36 * count + 7) // 8), np.uint8)
        out[:5] = np.frombuffer(bytes([_VERSION]) + count.to_bytes(4, "little"), np.uint8)
        end = _encode(self.seq[first:].view(np.int64), out, 5)
        end = _encode(self.time_s[first:], out, end)
        return out[:end].tobytes()

    @staticmethod
    def decode(data: U8, *, object: str, offset: int) -> SequenceTracker:
        """``offset`` is where ``data`` lies in the object, for errors."""
        if len(data) < 5:
            raise CorruptData("a sequence tracker is cut short", object=object, offset=offset)
        if data[0] != _VERSION:
            raise UnsupportedFormat(
                f"the sequence tracker in {object} at byte {offset} has version {data[0]}, known is {_VERSION}: "
                "read this database with the newer SlateDB that wrote it"
            )
        count = int.from_bytes(data[1:5].tobytes(), "little")
        data = readonly(data)
        # Every value takes at least a bit, so that a count cannot ask for more than the bytes can hold.
        if count > min(_MOST_POINTS, 8 * len(data)):
            raise CorruptData(f"a sequence tracker claims {count} points", object=object, offset=offset + 1)
        seq, time_s = np.empty(count, np.int64), np.empty(count, np.int64)
        end = _decode(data, 5, seq)
        if end < 0 or _decode(data, end, time_s) < 0:
            raise CorruptData("a sequence tracker does not decode", object=object, offset=offset)
        return SequenceTracker(seq.view(np.uint64), time_s)


EMPTY_TRACKER = SequenceTracker.of([])


def _neighbour(column: U64 | I64, value: np.uint64 | np.int64, *, round_up: bool) -> int | None:
    place = int(np.searchsorted(column, value))
    if place < len(column) and (round_up or column[place] == value):
        return place
    return place - 1 if place > 0 and not round_up else None


def _encodable_from(seq: I64, time_s: I64) -> int:
    """The first point from which on all the steps of both columns can be written."""
    if len(seq) < 2:
        return 0
    points: I64 = np.stack([seq, time_s])
    steps: I64 = points[:, 1:] - points[:, :-1]
    turns: I64 = steps.copy()
    turns[:, 1:] -= steps[:, :-1]
    too_sharp = np.flatnonzero(~_in_32_bits(turns))
    first = int(too_sharp[-1]) if len(too_sharp) else 0
    # The first step is written whole. Later ones may be longer, as long as they do not differ much from those before.
    short = np.flatnonzero(_in_32_bits(steps[:, first:]))
    return first + int(short[0]) if len(short) else len(seq) - 1


def _in_32_bits(numbers: I64) -> npt.NDArray[np.bool_]:
    """Of each column of the two rows, whether both numbers fit."""
    fits: npt.NDArray[np.bool_] = (numbers >= -(2**31)) & (numbers < 2**31)
    both: npt.NDArray[np.bool_] = fits[0] & fits[1]
    return both


@kernel
def _put_bits(out: U8, at: int, value: int, width: int) -> int:
    """Write the low ``width`` bits of ``value``, the highest first, at bit ``at`` of a zeroed buffer."""
    for k in range(width - 1, -1, -1):
        out[at >> 3] |= ((value >> k) & 1) << (7 - (at & 7))
        at += 1
    return at


@kernel
def _encode(values: I64, out: U8, at: int) -> int:
    """Write a stream from byte ``at`` on; returns the byte after it."""
    bit = _put_bits(out, 8 * at, len(values), 32)
    if len(values) > 0:
        bit = _put_bits(out, bit, values[0], 64)
    before = 0
    for i in range(1, len(values)):
        step = values[i] - values[i - 1]
        turn = step - before
        before = step
        if turn == 0:
            bit = _put_bits(out, bit, 0, 1)
        elif -63 <= turn <= 63:
            bit = _put_bits(out, _put_bits(out, bit, 0b10, 2), turn, 7)
        elif -255 <= turn <= 255:
            bit = _put_bits(out, _put_bits(out, bit, 0b110, 3), turn, 9)
        elif -2047 <= turn <= 2047:
            bit = _put_bits(out, _put_bits(out, bit, 0b1110, 4), turn, 12)
        else:
            bit = _put_bits(out, _put_bits(out, bit, 0b1111, 4), turn, 32)
    return (bit + 7) >> 3


@kernel
def _bits(data: U8, at: int, width: int) -> int:
    value = 0
    for k in range(at, at + width):
        value = (value << 1) | int((np.int64(data[k >> 3]) >> (7 - (k & 7))) & 1)
    return value


@kernel
def _decode(data: U8, at: int, out: I64) -> int:
    """Read a stream from byte ``at`` on; returns the byte after it, or -1 if it is not a stream of this many values."""
    end = 8 * len(data)
    bit = 8 * at
    if bit + 32 > end or _bits(data, bit, 32) != len(out):
        return -1
    bit += 32
    if len(out) > 0:
        if bit + 64 > end:
            return -1
        out[0] = _bits(data, bit, 64)
        bit += 64
    step = 0
    for i in range(1, len(out)):
        ones = 0
        while ones < 4:
            if bit >= end:
                return -1
            bit += 1
            if _bits(data, bit - 1, 1) == 0:
                break
            ones += 1
        if ones > 0:
            width = 7 if ones == 1 else 9 if ones == 2 else 12 if ones == 3 else 32
            if bit + width > end:
                return -1
            turn = _bits(data, bit, width)
            bit += width
            if turn >> (width - 1):
                turn -= 1 << width
            step += turn
        out[i] = out[i - 1] + step
    return (bit + 7) >> 3
