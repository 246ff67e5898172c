"""The trees of a database laid flat: the columns that stand on the wire, and that checks run over."""

from __future__ import annotations

from dataclasses import dataclass

from slate_engine.format.columns import I64, U64
from slate_engine.state.view_table import ViewTable


@dataclass(frozen=True)
class FlatTrees:
    """All trees as the columns that go on the wire: the views of every L0, tree after tree, and then those of every run.

    The L0 of tree ``t`` is ``[l0_offsets[t], l0_offsets[t+1])``, its runs are those from ``run_offsets[t]`` to
    ``run_offsets[t+1]``, and run ``r`` has the views from ``view_offsets[r]`` to ``view_offsets[r+1]``.
    """

    views: ViewTable
    l0_offsets: I64
    run_offsets: I64
    run_ids: U64
    view_offsets: I64

    @property
    def l0_total(self) -> int:
        """How many of the views are in an L0: the first ones."""
        return int(self.l0_offsets[-1])
