"""The collector waits while many objects are made, and only then."""

from __future__ import annotations

import gc

import pytest

from slate_engine.lsm.undisturbed import MANY, undisturbed


def test_the_collector_waits_for_many_and_wakes_again() -> None:
    with undisturbed(MANY):
        assert not gc.isenabled()
    assert gc.isenabled()
    with undisturbed(MANY - 1):
        assert gc.isenabled()


def test_it_wakes_after_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), undisturbed(MANY):
        raise ZeroDivisionError
    assert gc.isenabled()


def test_one_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with undisturbed(MANY):
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
