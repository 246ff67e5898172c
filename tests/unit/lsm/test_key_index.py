"""The index of a memtable tells keys apart by their bytes, not by their hashes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.lsm import row_log
from slate_engine.lsm.key_index import KeyIndex
from slate_engine.lsm.row import Row
from slate_engine.lsm.row_log import RowLog

KEYS = st.binary(min_size=1, max_size=12)


def log_of(keys: list[bytes], at_once: int) -> RowLog:
    log = RowLog()
    rows = [Row(key, b"%d" % seq, seq, 4, 0, 0) for seq, key in enumerate(keys, 1)]
    for start in range(0, len(rows), at_once):
        log.append(rows[start : start + at_once])
    return log


def found(log: RowLog, key: bytes, max_seq: int) -> list[int]:
    places = []
    place = log.newest(key, max_seq)
    while place >= 0:
        places.append(log.row(key, place).seq)
        place = log.older(key, place)
    return places


def expected(keys: list[bytes], key: bytes, max_seq: int) -> list[int]:
    return [seq for seq in range(len(keys), 0, -1) if keys[seq - 1] == key and seq <= max_seq]


@given(st.lists(KEYS, min_size=1, max_size=400), st.integers(1, 100), st.integers(0, 400), KEYS)
def test_all_versions_of_a_key_are_found_and_no_others(
    keys: list[bytes], at_once: int, max_seq: int, stranger: bytes
) -> None:
    log = log_of(keys, at_once)
    for key in {*keys, stranger}:
        assert found(log, key, max_seq) == expected(keys, key, max_seq)


def test_an_old_version_among_many_is_found_by_the_kernel(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """A key that is written all the time has as many versions as a memtable has rows."""
    log = log_of([b"hot"] * 50_000, 1000)

    def step_by_step(*arguments: object) -> int:
        raise AssertionError("Python walks from version to version")

    monkeypatch.setattr(KeyIndex, "older", step_by_step)
    assert [log.newest(b"hot", seq) for seq in (50_000, 20_000, 1, 0)] == [49_999, 19_999, 0, -1]


def test_keys_whose_hashes_are_the_same_are_told_apart(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    keys = [b"%d" % (i * i % 17) for i in range(200)]
    plain = row_log.hash_spans

    def of_the_first(data, starts, lengths):  # type: ignore[no-untyped-def]
        """As if every key had the hash of the first one."""
        first = plain(np.frombuffer(keys[0], np.uint8), np.zeros(1, np.int64), np.full(1, len(keys[0])))
        return np.full(len(starts), first[0])

    monkeypatch.setattr(row_log, "hash_spans", of_the_first)
    log = log_of(keys, 50)
    # The first key's slot is the one that a search finds: its chain goes through all of them.
    assert found(log, keys[0], 1000) == expected(keys, keys[0], 1000)
    assert log.older(keys[1], len(keys) - 1) == expected(keys[:-1], keys[1], 1000)[0] - 1


def test_many_keys_and_large_values_stay_what_they_were() -> None:
    keys = [b"%08d" % (i * 7919 % 30_011) for i in range(30_000)]
    log = RowLog()
    for start in range(0, len(keys), 1000):
        log.append([Row(key, key * 40, start + 1, 4, 7, 0) for key in keys[start : start + 1000]])
    for place in (0, 1, 999, 1000, 17_123, 29_999):
        assert log.newest(keys[place], 1 << 62) == place
        assert log.row(keys[place], place) == Row(keys[place], keys[place] * 40, place // 1000 * 1000 + 1, 4, 7, 0)
    picks = np.array([29_999, 0, 500])
    assert list(log.columns.keys(picks)) == [keys[i] for i in picks]
    assert log.columns.take(picks).values[1] == keys[0] * 40
    assert log.newest(b"unknown", 1 << 62) == -1
