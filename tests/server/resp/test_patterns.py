"""Patterns mean what they mean to Redis, and none takes long."""

from __future__ import annotations

import time

import pytest

from slate_engine.server.resp.commands.iteration import end_of
from slate_engine.server.resp.patterns import _expression, literal_prefix, matcher
from slate_engine.server.resp.replies import CommandError


@pytest.mark.parametrize(
    ("pattern", "key", "fits"),
    [
        (b"*", b"", True),
        (b"h?llo", b"hello", True),
        (b"h?llo", b"hllo", False),
        (b"h*llo", b"heeeello", True),
        (b"h[ae]llo", b"hillo", False),
        (b"h[^e]llo", b"hallo", True),
        (b"h[^e]llo", b"hello", False),
        (b"h[a-b]llo", b"hbllo", True),
        (b"h[b-a]llo", b"hallo", True),
        (b"a\\*b", b"a*b", True),
        (b"a\\*b", b"axb", False),
        (b"*b*", b"abc", True),
        (b"a*ab", b"aab", True),
        (b"a*bc*d", b"axbcyd", True),
        (b"a*bc*d", b"axbcy", False),
        (b"[\\]]", b"]", True),
        (b"[abc", b"b", True),
        (b"a?c", b"a\nc", True),
        (b"\xff*", b"\xff\x00", True),
        (b"x*aba", b"xababa", True),
        (b"ab*b", b"ab", False),
        (b"ab*b", b"abb", True),
        (b"*ab*b", b"ab", False),
        (b"*[]", b"a", False),
        (b"*a?[b]", b"xaxb", True),
    ],
)
def test_patterns(pattern: bytes, key: bytes, fits: bool) -> None:
    assert matcher(pattern)(key) is fits


def test_no_pattern_takes_long() -> None:
    started = time.process_time()
    assert not matcher(b"a*" * 50 + b"b")(b"a" * 20_000)
    assert time.process_time() - started < 1.0, "stars backtrack into each other"


def test_what_comes_after_the_last_star_is_looked_for_in_one_place() -> None:
    fits, started = matcher(b"*" + b"a" * 1000 + b"b"), time.process_time()
    assert not any(fits(b"a" * 65_000) for _ in range(30))
    assert time.process_time() - started < 1.0


def test_only_keys_with_the_prefix_are_read() -> None:
    assert literal_prefix(b"user:*") == b"user:"
    assert literal_prefix(b"user") == b"user"
    assert literal_prefix(b"*") == b""
    assert (end_of(b"user:"), end_of(b"a\xff"), end_of(b"\xff"), end_of(b"")) == (b"user;", b"b", None, None)


@pytest.mark.parametrize("pattern", [b"[^x]" * 256, b"[a-z]" * 200, b"[^a-y]" * 150, b"?" * 1024, b"[" + b"ace" * 300])
def test_what_a_pattern_is_made_into_is_about_as_long(pattern: bytes) -> None:
    """To compile an expression takes time for every byte of it."""
    assert len(_expression(pattern)) <= 10 * len(pattern)


def test_a_pattern_has_its_length() -> None:
    with pytest.raises(CommandError, match="at most 1024 bytes"):
        matcher(b"?" * 1025)


def test_sets_are_those_that_are_written() -> None:
    for text in (b"[^x]", b"[a-cx-z]", b"[]-a]", b"[^\\]]", b"[-a]", b"[\\x]", b"[^]", b"[\x00-\xff]"):
        fits = matcher(text)
        expected = {byte for byte in range(256) if _member(text, byte)}
        assert {byte for byte in range(256) if fits(bytes([byte]))} == expected, text


def _member(text: bytes, byte: int) -> bool:
    """By the table of what these few sets mean."""
    everything = set(range(256))
    meant = {
        b"[^x]": everything - {ord("x")},
        b"[a-cx-z]": set(b"abcxyz"),
        b"[]-a]": set(),
        b"[^\\]]": everything - {ord("]")},
        b"[-a]": set(b"-a"),
        b"[\\x]": set(b"x"),
        b"[^]": everything,
        b"[\x00-\xff]": everything,
    }
    return byte in meant[text]
