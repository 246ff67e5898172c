"""Durations against the wheel's reading of them."""

from __future__ import annotations

import json
import re

import pytest
import slatedb.uniffi as wheel
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.api.durations import format_duration, parse_duration

NUMBERS = st.sampled_from(["0", "1", "25", "007", "100", "5000", "18446744073", "99999999999999999999"])
UNITS = st.sampled_from(re.split(" ", "s ms us µs ns m h d w mon y min hour hr second msec usec nsec S MIN "))
SPACE = st.sampled_from(["", "", " ", "\t", "  "])
TERMS = st.builds("{}{}{}{}{}".format, st.sampled_from(["", "+", "*"]), SPACE, NUMBERS, UNITS, SPACE)
ALMOST = st.one_of(
    st.lists(TERMS, min_size=1, max_size=4).map("".join),
    st.builds("{}{}{}".format, NUMBERS, UNITS, st.lists(TERMS, max_size=3).map("".join)),
    st.text("0123456789smhduy +*.-x", max_size=8),
)


def the_wheels(text: str) -> str | None:
    settings = wheel.Settings.default()
    try:
        settings.set("manifest_poll_interval", json.dumps(text))
    except wheel.Error.Invalid:
        return None
    return str(json.loads(settings.to_json_string())["manifest_poll_interval"])


def ours(text: str) -> str | None:
    try:
        return format_duration(parse_duration(text))
    except ValueError:
        return None


@given(ALMOST)
def test_read_as_the_wheel_reads_them(text: str) -> None:
    assert ours(text) == the_wheels(text)


@pytest.mark.long
@given(ALMOST)
def test_read_as_the_wheel_reads_them_at_length(text: str) -> None:
    assert ours(text) == the_wheels(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("250ms", 250),
        ("5", 5_000),
        ("1s+5ms", 1_005),
        ("1m30", 90_000),
        (" 1h 30m ", 5_400_000),
        ("2*3s", 6_000),
        ("1m*10ms", 600),
        ("1500us", 1),
        ("1mon", 2_592_000_000),
    ],
)
def test_some_durations(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds
    assert ours(text) == the_wheels(text)


@pytest.mark.parametrize(
    "text", ["", " ", "abc", "-1s", "1.5s", "1 s", "1s+", "+1s", "1s-1s", "1s+2*3", "600y", "1fortnight"]
)
def test_what_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration"):
        parse_duration(text)
    assert the_wheels(text) is None


@given(st.integers(0, 10**13))
def test_written_and_read_again(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds
