"""Errors: the wheel's tree, and errors that survive a journey between processes."""

from __future__ import annotations

import inspect
import pickle

import pytest
import slatedb.uniffi as wheel

from slate_engine.api.merging import MergeOperatorCallbackError
from slate_engine.errors import ClosedError, CloseReason, CorruptData, Error, InternalError

VARIANTS = [name for name, found in inspect.getmembers(wheel.Error, inspect.isclass) if issubclass(found, wheel.Error)]


def test_the_variants_are_the_wheels() -> None:
    assert VARIANTS == ["Closed", "Data", "Internal", "Invalid", "Transaction", "Unavailable"]
    assert [name for name in VARIANTS if issubclass(getattr(Error, name), Error)] == VARIANTS


@pytest.mark.parametrize("name", VARIANTS)
def test_an_error_carries_its_message(name: str) -> None:
    error = getattr(Error, name)("what happened")
    assert error.message == "what happened"
    assert "what happened" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.message, str(again)) == (error.message, str(error))


def test_a_closed_error_carries_its_reason() -> None:
    again = pickle.loads(pickle.dumps(ClosedError("fenced", CloseReason.FENCED)))
    assert (again.message, again.reason) == ("fenced", CloseReason.FENCED)


def test_corrupt_data_keeps_its_place() -> None:
    again = pickle.loads(pickle.dumps(CorruptData("bad checksum", object="wal/1.sst", offset=7)))
    assert (again.reason, again.object, again.offset) == ("bad checksum", "wal/1.sst", 7)


def test_a_defect_is_an_internal_error() -> None:
    assert Error.Internal is InternalError


def test_a_merge_operator_can_fail() -> None:
    error = MergeOperatorCallbackError.Failed("cannot merge")
    assert error.message == wheel.MergeOperatorCallbackError.Failed("cannot merge").message
    assert isinstance(error, MergeOperatorCallbackError)
    assert not isinstance(error, Error)
    assert pickle.loads(pickle.dumps(error)).message == "cannot merge"
