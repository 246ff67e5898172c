"""The merge of a chunk against the rules as they are written down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.errors import DataError
from slate_engine.format.columns import HAS_CREATE, Rows
from slate_engine.lsm.compaction.inputs import Rules
from slate_engine.lsm.compaction.merge import Mark, merge_chunk
from slate_engine.lsm.row import Row
from tests.unit.compaction.plain import RULES, Concat, compacted, levels


def merged(sources: list[list[Row]], rules: Rules, operator: bool, after: Mark | None = None) -> list[Row]:
    columns = [Rows.of(rows) for rows in sources]
    return [Row(*row) for row in merge_chunk(columns, rules, Concat() if operator else None, after).tuples()]


@given(levels(), RULES, st.booleans())
def test_keeps_folds_and_drops_as_the_rules_say(sources: list[list[Row]], rules: Rules, operator: bool) -> None:
    everything = [row for rows in sources for row in rows]
    assert merged(sources, rules, operator) == compacted(everything, rules, operator=operator)


@given(levels(), RULES, st.booleans(), st.data())
def test_goes_on_after_any_row(sources: list[list[Row]], rules: Rules, operator: bool, data: st.DataObject) -> None:
    whole = merged(sources, rules, operator)
    done = data.draw(st.integers(0, len(whole)))
    if done:
        last = whole[done - 1]
        # What is read again begins with the key of that row, with all of its versions.
        again = [[row for row in rows if row.key >= last.key] for rows in sources]
        assert merged(again, rules, operator, Mark(last.key, last.seq)) == whole[done:]


def test_levels_that_contradict_each_other_are_refused() -> None:
    older_above = [[Row(b"k", b"old", 1, HAS_CREATE, 1, 0)], [Row(b"k", b"new", 2, HAS_CREATE, 1, 0)]]
    with pytest.raises(DataError, match="newer than those in the levels above"):
        merged(older_above, Rules(0, 0, False), operator=False)
