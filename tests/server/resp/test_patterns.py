"""Patterns mean what they mean to Redis, and none takes long."""

from __future__ import annotations

import time

import pytest

from slate_engine.server.resp.commands.iteration import end_of
from slate_engine.server.resp.patterns import literal_prefix, matcher


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
    ],
)
def test_patterns(pattern: bytes, key: bytes, fits: bool) -> None:
    assert matcher(pattern)(key) is fits


def test_no_pattern_takes_long() -> None:
    started = time.process_time()
    assert not matcher(b"a*" * 50 + b"b")(b"a" * 20_000)
    assert time.process_time() - started < 1.0, "stars backtrack into each other"


def test_only_keys_with_the_prefix_are_read() -> None:
    assert literal_prefix(b"user:*") == b"user:"
    assert literal_prefix(b"user") == b"user"
    assert literal_prefix(b"*") == b""
    assert (end_of(b"user:"), end_of(b"a\xff"), end_of(b"\xff"), end_of(b"")) == (b"user;", b"b", None, None)
