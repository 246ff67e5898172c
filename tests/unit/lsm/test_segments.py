"""Which tree a row belongs to, also while commits make new trees."""

from __future__ import annotations

import pytest

from slate_engine.format.columns import Rows
from slate_engine.format.filters import PrefixTarget
from slate_engine.format.key_range import KeyRange
from slate_engine.lsm import segments as module
from slate_engine.lsm.row import Row
from slate_engine.lsm.segments import Segments
from slate_engine.lsm.table import cut


class FirstOne:
    def name(self) -> str:
        return "first-one"

    def prefix_len(self, target: PrefixTarget) -> int | None:
        return 1


def rows(*keys: bytes) -> Rows:
    return Rows.of([Row(key, b"", seq, 0, 0, 0) for seq, key in enumerate(keys, 1)])


def test_rows_are_split_by_their_prefixes() -> None:
    segments = Segments(FirstOne())
    segments.add([b"c1", b"a1", b"b1"])
    parts = segments.split(rows(b"a1", b"a2", b"c1"))
    assert [(prefix, list(part.keys)) for prefix, part in parts] == [(b"a", [b"a1", b"a2"]), (b"c", [b"c1"])]


def test_a_segment_that_comes_while_rows_are_split_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush splits its rows in a thread, and commits go on."""
    segments = Segments(FirstOne())
    batch = rows(b"b1", b"c1", b"d1")
    segments.add(batch.keys)
    calls = 0

    def cut_beside_a_commit(part: Rows, wanted: KeyRange) -> Rows:
        nonlocal calls
        calls += 1
        if calls == 2:
            segments.add([b"a1"])
        return cut(part, wanted)

    monkeypatch.setattr(module, "cut", cut_beside_a_commit)
    parts = segments.split(batch)
    assert segments.prefixes == [b"a", b"b", b"c", b"d"]
    assert [(prefix, list(part.keys)) for prefix, part in parts] == [(b"b", [b"b1"]), (b"c", [b"c1"]), (b"d", [b"d1"])]
