"""Every safety mechanism is switched off in turn, and the simulation has to notice: the table is in ``mutants.py``."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from tests.simulation import mutants
from tests.simulation.mutants import BEGIN, END, MUTANTS, PAGE, Kill, Mutant, hunt
from tests.simulation.mutation import edited


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[each.switch.__name__ for each in MUTANTS])
def test_the_simulation_notices(mutant: Mutant) -> None:
    assert hunt(mutant) is not None, f"{mutant.name}: nobody noticed in {mutant.seeds} runs of {mutant.scene}"


def test_a_line_that_is_gone_cannot_be_changed_and_one_that_is_comes_back() -> None:
    with pytest.raises(LookupError, match="plant the bug anew"), edited(mutants, "hunt", "no such line", ""):
        pass
    right = hunt.__code__
    with edited(mutants, "hunt", "return None", "return Kill(0, '')"):
        assert hunt(Mutant(nullcontext, "outages", 1)) == Kill(0, "")
    assert hunt.__code__ is right


def test_the_page_has_the_whole_table() -> None:
    """``make sim-mutants ARGS=--write`` makes it anew."""
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    assert [(name, scene, most) for name, scene, _, most in rows] == [
        (each.name, each.scene, str(each.seeds)) for each in MUTANTS
    ]
    assert all(caught.isdecimal() for _, _, caught, _ in rows)
    assert len(rows) >= 40
