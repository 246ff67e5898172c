"""Errors keep their facts when they cross a process boundary."""

from __future__ import annotations

import pickle

import pytest

from slate_engine.errors import ClosedError, CloseReason, CorruptData, Error, Fenced, InvalidError
from slate_engine.store.numbered import StaleWrite
from slate_engine.store.protocol import CREATE, Conflict, NotFound, StoreUnavailable, Update

ERRORS = [
    InvalidError("wrong"),
    CorruptData("bad checksum", object="db/wal/1.sst", offset=7),
    ClosedError("db is closed", CloseReason.CLEAN),
    Fenced("epoch 2 has taken over"),
    NotFound("db/manifest/1.manifest"),
    Conflict("key", CREATE),
    Conflict("key", Update("etag")),
    StaleWrite("key", 3, 5),
    StoreUnavailable("timeout", retryable=False, unknown_outcome=True),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_with_all_its_facts(error: Error) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), copy.args, vars(copy)) == (str(error), error.args, vars(error))


def test_the_variants_are_those_of_the_original() -> None:
    assert issubclass(CorruptData, Error.Data)
    assert issubclass(Fenced, Error.Closed)
    assert issubclass(NotFound, Error.Unavailable)
    with pytest.raises(Error.Closed) as caught:
        raise Fenced("by epoch 2")
    assert caught.value.reason is CloseReason.FENCED
