"""Write batches: what they keep, what they refuse, and that they are used once."""

from __future__ import annotations

import array
from typing import Any

import pytest
import slatedb.uniffi as wheel

from slate_engine.api import arguments, batch
from slate_engine.api.batch import WriteBatch
from slate_engine.api.changes import Changes
from slate_engine.api.choices import Ttl
from slate_engine.api.enums import RowEntryKind
from slate_engine.api.options import MergeOptions, PutOptions
from slate_engine.errors import InvalidError
from slate_engine.format.columns import HAS_EXPIRE
from slate_engine.lsm.commit import commit_rows


def test_operations_are_kept_in_order() -> None:
    writes = WriteBatch()
    writes.put(b"a", b"1")
    writes.merge(b"a", b"2")
    writes.delete(b"b")
    writes.put_with_options(b"c", b"", PutOptions(ttl=Ttl.EXPIRE_AFTER_MILLIS(5)))
    writes.merge_with_options(b"c", b"3", MergeOptions(ttl=Ttl.DEFAULT()))
    assert writes.take() == [
        (b"a", b"1", RowEntryKind.VALUE, None),
        (b"a", b"2", RowEntryKind.MERGE, None),
        (b"b", None, RowEntryKind.TOMBSTONE, None),
        (b"c", b"", RowEntryKind.VALUE, Ttl.EXPIRE_AFTER_MILLIS(5)),
        (b"c", b"3", RowEntryKind.MERGE, None),
    ]


def test_what_the_caller_may_change_is_copied() -> None:
    key, value = bytearray(b"key"), bytearray(b"value")
    writes = WriteBatch()
    writes.put(key, value)
    key[:], value[:] = b"xxx", b"xxxxx"
    assert writes.take()[0][:2] == (b"key", b"value")


def test_a_batch_is_used_once() -> None:
    writes = WriteBatch()
    writes.put(b"a", b"1")
    writes.take()
    for again in (
        writes.take,
        lambda: writes.put(b"a", b"1"),
        lambda: writes.delete(b"a"),
        lambda: writes.merge(b"a", b"1"),
    ):
        with pytest.raises(InvalidError) as caught:
            again()
        assert caught.value.message == "write batch has already been consumed"


def test_an_empty_batch_is_refused_and_consumed() -> None:
    writes = WriteBatch()
    with pytest.raises(InvalidError, match="empty write batch not allowed"):
        writes.take()
    with pytest.raises(InvalidError, match="consumed"):
        writes.put(b"a", b"1")


BAD: list[tuple[str, tuple[Any, ...]]] = [
    ("put", (b"", b"v")),
    ("put", ("a", b"v")),
    ("put", (1, b"v")),
    ("put", (None, b"v")),
    ("put", (b"a", None)),
    ("put", (b"a", "v")),
    ("delete", (b"",)),
    ("delete", ("a",)),
    ("merge", (b"", b"")),
    ("merge", (b"a", 3)),
    ("put", (bytearray(b"a"), memoryview(b"v"))),
    ("put", (array.array("B", [1, 2]), b"v")),
    ("put", (b"x" * 100_000, b"")),
    ("delete", (memoryview(b"abcdef")[::2],)),
]


@pytest.mark.parametrize(("method", "values"), BAD)
def test_arguments_are_refused_as_by_the_wheel(method: str, values: tuple[Any, ...]) -> None:
    refusals = []
    for writes in (wheel.WriteBatch(), WriteBatch()):
        try:
            getattr(writes, method)(*values)
        except (wheel.Error.Invalid, InvalidError) as refusal:
            refusals.append(refusal.message)
        except TypeError:
            refusals.append("TypeError")
        else:
            refusals.append("")
    assert refusals[0] == refusals[1]


@pytest.mark.parametrize(
    ("variant", "values"),
    [
        ("EXPIRE_AFTER_MILLIS", [0, -1, 2**64 - 1, 2**64, 1.5, "1", True]),
        ("EXPIRE_AT_MILLIS", [0, -1, -(2**63), -(2**63) - 1, 2**63 - 1, 2**63, None]),
    ],
)
def test_times_are_refused_as_by_the_wheel(variant: str, values: list[Any]) -> None:
    for value in values:
        outcomes = []
        for library, options, writes in (
            (wheel.Ttl, wheel.PutOptions, wheel.WriteBatch()),
            (Ttl, PutOptions, WriteBatch()),
        ):
            try:
                writes.put_with_options(b"a", b"", options(ttl=getattr(library, variant)(value)))
            except (TypeError, ValueError) as refusal:
                outcomes.append(type(refusal))
            else:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1], value


@pytest.mark.parametrize("options", [None, PutOptions(ttl=None), PutOptions(ttl=5), {"ttl": Ttl.DEFAULT()}], ids=repr)  # type: ignore[arg-type]
def test_options_of_another_kind_are_refused(options: Any) -> None:
    with pytest.raises(TypeError, match=r"options must be|ttl must be"):
        WriteBatch().put_with_options(b"a", b"", options)


def test_lengths_beyond_a_u32_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "LENGTH_MAX", 10)
    writes = batch.WriteBatch()
    writes.put(b"k" * 10, b"v" * 10)
    with pytest.raises(InvalidError, match="key size must be <="):
        writes.put(b"k" * 11, b"")
    with pytest.raises(InvalidError, match="value size must be <="):
        writes.put(b"k", b"v" * 11)


@pytest.mark.parametrize(
    ("ttl", "default", "expires"),
    [
        (None, None, None),
        (None, 50, 150),
        (Ttl.DEFAULT(), 50, 150),
        (Ttl.NO_EXPIRY(), 50, None),
        (Ttl.EXPIRE_AFTER_MILLIS(7), 50, 107),
        (Ttl.EXPIRE_AT_MILLIS(7), 50, 7),
        (Ttl.EXPIRE_AFTER_MILLIS(2**63 - 101), None, 2**63 - 1),
        (Ttl.EXPIRE_AFTER_MILLIS(2**63 - 100), None, None),
        (Ttl.EXPIRE_AFTER_MILLIS(2**64 - 1), None, None),
        (None, 2**64 - 1, None),
    ],
)
@pytest.mark.parametrize("batched", [True, False])
def test_when_a_row_expires(ttl: Ttl | None, default: int | None, expires: int | None, batched: bool) -> None:
    changes, options = Changes(default), None if ttl is None else PutOptions(ttl=ttl)
    if batched:
        writes = WriteBatch()
        writes.put(b"k", b"v") if options is None else writes.put_with_options(b"k", b"v", options)
        (change,) = changes.all_of(writes.take())
    else:
        change = changes.put(b"k", b"v", options)
    (row,) = commit_rows([change], 1, 100, None)
    assert (row.expire_ts if row.flags & HAS_EXPIRE else None) == expires
