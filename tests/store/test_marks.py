"""The rules by which a write without an answer is settled, one by one."""

from __future__ import annotations

import pytest

from slate_engine.runtime import SystemRuntime
from slate_engine.store.backend import Signed
from slate_engine.store.marks import Verdict, judge, new_mark
from slate_engine.store.protocol import CREATE, OVERWRITE, ObjectMeta, PutMode, Update

RUNTIME = SystemRuntime()
E1, E2 = Update('"e1"'), Update('"e2"')


def found(mark: str, etag: str = '"x"') -> Signed:
    return Signed(ObjectMeta("k", 0, 0, etag), mark)


def test_marks_are_unique_and_fit_a_header() -> None:
    marks = [new_mark(RUNTIME, mode) for mode in (CREATE, OVERWRITE, E1, E2) for _ in range(100)]
    assert len(set(marks)) == 400
    assert all(mark.isascii() and mark.isprintable() and " " not in mark and len(mark) < 64 for mark in marks)


@pytest.mark.parametrize("mode", [CREATE, OVERWRITE, E1])
@pytest.mark.parametrize("refused", [True, False])
@pytest.mark.parametrize("lost", [True, False])
def test_our_own_mark_has_won(mode: PutMode, refused: bool, lost: bool) -> None:
    mark = new_mark(RUNTIME, mode)
    assert judge(found(mark), mark, mode, refused=refused, lost=lost) is Verdict.WON


@pytest.mark.parametrize("mode", [CREATE, E1])
@pytest.mark.parametrize("there", [None, found(""), found("c.1"), found("u.1.1"), found("o.1")])
def test_a_refusal_stands_when_no_answer_was_lost(mode: PutMode, there: Signed | None) -> None:
    assert judge(there, new_mark(RUNTIME, mode), mode, refused=True, lost=False) is Verdict.LOST


@pytest.mark.parametrize(
    ("there", "refused", "verdict"),
    [
        (None, False, Verdict.AGAIN),
        (None, True, Verdict.UNKNOWN),
        (found("c.other"), False, Verdict.LOST),
        (found("c.other"), True, Verdict.LOST),
        (found("u.1.other"), False, Verdict.UNKNOWN),
        (found("o.other"), True, Verdict.UNKNOWN),
        (found(""), True, Verdict.UNKNOWN),
        (found(""), False, Verdict.UNKNOWN),
    ],
)
def test_a_create_whose_answer_was_lost(there: Signed | None, refused: bool, verdict: Verdict) -> None:
    assert judge(there, new_mark(RUNTIME, CREATE), CREATE, refused=refused, lost=True) is verdict


@pytest.mark.parametrize(
    ("there", "refused", "verdict"),
    [
        (None, False, Verdict.UNKNOWN),
        (None, True, Verdict.UNKNOWN),
        (found("c.other", E1.etag), False, Verdict.AGAIN),
        (found("", E1.etag), False, Verdict.AGAIN),
        (found("c.other", E1.etag), True, Verdict.UNKNOWN),
        (found(new_mark(RUNTIME, E1)), False, Verdict.LOST),
        (found(new_mark(RUNTIME, E1)), True, Verdict.LOST),
        (found(new_mark(RUNTIME, E2)), False, Verdict.UNKNOWN),
        (found(new_mark(RUNTIME, E2)), True, Verdict.UNKNOWN),
        (found("c.other"), True, Verdict.UNKNOWN),
        (found("o.other"), False, Verdict.UNKNOWN),
        (found(""), True, Verdict.UNKNOWN),
    ],
)
def test_an_update_whose_answer_was_lost(there: Signed | None, refused: bool, verdict: Verdict) -> None:
    assert judge(there, new_mark(RUNTIME, E1), E1, refused=refused, lost=True) is verdict


@pytest.mark.parametrize("there", [None, found(""), found("c.1"), found("u.1.1"), found("o.1")])
def test_an_overwrite_whose_answer_was_lost_is_written_again(there: Signed | None) -> None:
    assert judge(there, new_mark(RUNTIME, OVERWRITE), OVERWRITE, refused=False, lost=True) is Verdict.AGAIN
