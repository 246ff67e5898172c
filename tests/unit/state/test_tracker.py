"""The sequence tracker: its bytes, its look-ups, and how it forgets."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slate_engine.errors import CorruptData, UnsupportedFormat
from slate_engine.format.flatbuf.spans import readonly
from slate_engine.state.manifest import Manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.state.tracker import CAPACITY, EMPTY_TRACKER, SequenceTracker
from tests.unit.state.wheel import admin

VECTOR = [(1, 1700000000), (61, 1700000060), (200, 1700000120)]
VECTOR_BYTES = bytes.fromhex("01 03000000 00000003 0000000000000001 9e6278 00000003 000000006553f100 9e00")


def decoded(data: bytes) -> SequenceTracker:
    return SequenceTracker.decode(readonly(data), object="m", offset=100)


def test_the_test_vector() -> None:
    assert SequenceTracker.of(VECTOR).encode() == VECTOR_BYTES
    assert decoded(VECTOR_BYTES) == SequenceTracker.of(VECTOR)
    assert EMPTY_TRACKER.encode() == b"\x01" + bytes(12)
    assert decoded(b"\x01" + bytes(12)) == EMPTY_TRACKER


points = st.lists(
    st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 5000), st.integers(-(2**40), 2**40) | st.integers(0, 300)),
    max_size=60,
).map(lambda drawn: list(zip(sorted(p[0] for p in drawn), sorted(p[1] for p in drawn), strict=True)))


@given(points)
@example([(0, 0), (1, 0), (2**49, 2**30), (2**49, 2**30 + 2**31)])
def test_what_is_written_is_read_but_for_what_lies_before_a_leap(drawn: list[tuple[int, int]]) -> None:
    tracker = SequenceTracker.of(drawn)
    read = decoded(tracker.encode())
    kept = len(read)
    assert list(zip(read.seq.tolist(), read.time_s.tolist(), strict=True)) == drawn[len(drawn) - kept :]
    assert (kept > 0) == bool(drawn)
    # Not a point more than needed is given up.
    dropped = drawn[: len(drawn) - kept]
    if dropped:
        longer = SequenceTracker.of(drawn[len(dropped) - 1 :])
        assert len(decoded(longer.encode())) <= kept


@pytest.mark.parametrize("leap", [2**31 - 1, 2**31])
def test_a_leap_of_more_than_32_bits_costs_what_is_before_it(leap: int) -> None:
    # What counts is how much a step differs from the one before: ten, and then ten and the leap.
    seqs = [10, 20, 20 + leap + 10, 40 + 2 * leap]
    tracker = SequenceTracker.of(list(zip(seqs, range(100, 500, 100), strict=True)))
    read = decoded(tracker.encode())
    assert len(read) == (4 if leap < 2**31 else 1)
    assert read.seq.tolist() == seqs[-len(read) :]


def test_every_width_of_code() -> None:
    turns = [0, 1, -1, 63, -63, 64, -64, 255, -255, 256, -256, 2047, -2047, 2048, -2048, 2**31 - 1, -(2**31)]
    values, step = [2**40], 0
    for turn in [
        t for pair in zip(turns, turns, strict=True) for t in (pair[0], -pair[1] if abs(pair[1]) < 2**31 else 0)
    ]:
        step += turn
        values.append(values[-1] + step)
    tracker = SequenceTracker(np.array(values, np.uint64), np.array(values, np.int64))
    assert decoded(tracker.encode()) == tracker


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 2**20), st.integers(60, 10**6)), min_size=1, max_size=40))
def test_the_wheel_finds_what_we_find(steps: list[tuple[int, int]]) -> None:
    seq, time, made = 0, 1_700_000_000, []
    for ds, dt in steps:
        seq, time = seq + ds + 1, time + dt
        made.append((seq, time))
    tracker = SequenceTracker.of(made)
    asked_seqs = [0, *(s + d for s, _ in made for d in (-1, 0, 1))]
    asked_times = [0, *(t + d for _, t in made for d in (-1, 0, 1))]
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "db" / "manifest"
        files.mkdir(parents=True)
        (files / f"{1:020d}.manifest").write_bytes(encode_manifest(Manifest(sequence_tracker=tracker)))
        theirs = asyncio.run(_ask(Path(folder), asked_seqs, asked_times))
    ours = [
        *(tracker.time_of(seq, round_up=up) for seq in asked_seqs for up in (False, True)),
        *(tracker.seq_at(time, round_up=up) for time in asked_times for up in (False, True)),
    ]
    assert theirs == ours


async def _ask(folder: Path, seqs: list[int], times: list[int]) -> list[int | None]:
    wheel = admin(folder, "db")
    found = [await wheel.get_timestamp_for_sequence(seq, up) for seq in seqs for up in (False, True)]
    found += [await wheel.get_sequence_for_timestamp(time, up) for time in times for up in (False, True)]
    return found


def test_record_keeps_the_interval_and_the_order() -> None:
    tracker = EMPTY_TRACKER.record(5, 1000)
    assert tracker.record(6, 1059) is tracker
    assert tracker.record(4, 1060) is tracker
    assert tracker.record(6, 900) is tracker
    assert tracker.record(6, 1060) == SequenceTracker.of([(5, 1000), (6, 1060)])


def test_beyond_its_capacity_every_second_point_goes() -> None:
    full = SequenceTracker.of([(i, 60 * i) for i in range(CAPACITY)])
    more = full.record(CAPACITY, 60 * CAPACITY)
    assert more.seq.tolist() == list(range(0, CAPACITY + 1, 2))
    assert more.time_s.tolist() == list(range(0, 60 * CAPACITY + 1, 120))


def test_bytes_that_are_no_tracker() -> None:
    for cut in range(len(VECTOR_BYTES)):
        with pytest.raises(CorruptData) as caught:
            decoded(VECTOR_BYTES[:cut])
        assert caught.value.object == "m"
        assert 100 <= caught.value.offset < 100 + len(VECTOR_BYTES)
    with pytest.raises(UnsupportedFormat):
        decoded(b"\x02" + VECTOR_BYTES[1:])
    # A count that the bytes cannot hold allocates nothing.
    with pytest.raises(CorruptData, match="claims 4294967295 points"):
        decoded(b"\x01" + b"\xff" * 40)
