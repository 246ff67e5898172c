"""Spans of time, in the grammar of SlateDB's own command."""

from __future__ import annotations

import pytest

from slate_engine.admin.lifetimes import NotASpan, parse_lifetime, parse_span, show_span

DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("7days 30min 10s", 7 * DAY + 30 * 60_000 + 10_000),
        ("7 days 30 min 10 s", 7 * DAY + 30 * 60_000 + 10_000),
        ("1h30m", 5_400_000),
        ("2 weeks", 14 * DAY),
        ("1M", 2_630_016_000),
        ("1m", 60_000),
        ("1month", 2_630_016_000),
        ("1y", 31_557_600_000),
        ("2years", 63_115_200_000),
        ("1500ms", 1500),
        ("1 000 ms", 1000),
        ("999us 1us", 1),
    ],
)
def test_what_humantime_takes(text: str, milliseconds: int) -> None:
    assert parse_lifetime(text) == milliseconds


@pytest.mark.parametrize("text", ["", " ", "soon", "7", "days", "7 d 3", "-1s", "1.5h", "7 fortnights", "1s,2s", "0s"])
def test_what_it_does_not(text: str) -> None:
    with pytest.raises(NotASpan, match="write it like"):
        parse_lifetime(text)


def test_none_at_all_is_a_span_but_no_lifetime() -> None:
    assert parse_span("0s") == 0
    with pytest.raises(NotASpan, match="too long"):
        parse_span("999999999999 years")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (59, "59s"), (61, "1min 1s"), (3600, "1h"), (90_000, "1day 1h"), (86_400 * 800, "2years 69days")],
)
def test_spans_are_shown_by_their_two_largest_parts(seconds: int, shown: str) -> None:
    assert show_span(seconds) == shown
    assert abs(parse_span(shown) / 1000 - seconds) < 86_400
