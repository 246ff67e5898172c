"""The parser takes every request however it is cut up, and nothing that is too much."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.server.resp.requests import STRANGERS, Limits, ProtocolError, RequestParser, split_inline


def packed(request: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(request) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in request)


def parsed(pieces: list[bytes], limits: Limits | None = None) -> list[list[bytes]]:
    parser = RequestParser(limits or Limits())
    found: list[list[bytes]] = []
    for piece in pieces:
        parser.feed(piece)
        while some := parser.requests(2):
            found += some
    return found


WORDS = st.lists(st.binary(max_size=40), min_size=1, max_size=5)


@given(st.lists(WORDS, max_size=6), st.lists(st.integers(0, 400), max_size=10))
def test_however_it_is_cut_up(requests: list[list[bytes]], cuts: list[int]) -> None:
    data = b"".join(map(packed, requests))
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in itertools.pairwise(edges)]
    assert parsed(pieces) == requests


def test_byte_by_byte() -> None:
    request = [b"SET", b"k\r\n", b"\0" * 50]
    assert parsed([bytes([byte]) for byte in packed(request) * 2]) == [request, request]


@pytest.mark.parametrize("count", [1, 63, 64, 200])
@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 5000])
def test_of_any_size(count: int, size: int) -> None:
    request = [b"\r" * size] * count
    data = packed(request) + packed([b"PING"])
    assert parsed([data]) == parsed([data[:7], data[7:-3], data[-3:]]) == [request, [b"PING"]]


def test_a_large_argument_is_not_looked_at_before_it_is_there() -> None:
    parser = RequestParser(Limits())
    parser.feed(b"*2\r\n$3\r\nGET\r\n$1000000\r\n")
    assert parser.requests(10) == []
    for _ in range(999):
        parser.feed(b"x" * 1000)
        assert parser.requests(10) == []
        assert parser._awaited > len(parser._buffer)
    parser.feed(b"x" * 1000 + b"\r\n")
    assert parser.requests(10) == [[b"GET", b"x" * 1_000_000]]


@pytest.mark.parametrize(
    "data",
    [
        b"*2147483647\r\n",
        b"*99999999999999999999\r\n",
        b"*x\r\n",
        b"*3\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$2147483648\r\n",
        b"*1\r\n$3\r\nabcd\r\n",
        b"*1\r\n:3\r\n",
        b"*1\r\n" + b"$" + b"1" * 40,
        b"x" * (65 << 10),
        b'"open\r\n',
        b"POST / HTTP/1.1\r\n",
        b"host: 127.0.0.1:6379\r\n",
        b"Host:127.0.0.1:6379\r\n",
    ],
)
def test_what_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="Protocol error"):
        parsed([data])


def test_a_stranger_may_say_little() -> None:
    limits = Limits(arguments=2, bytes=100)
    assert parsed([packed([b"AUTH", b"secret"])], limits) == [[b"AUTH", b"secret"]]
    with pytest.raises(ProtocolError):
        parsed([packed([b"a", b"b", b"c"])], limits)
    with pytest.raises(ProtocolError):
        parsed([b"*1\r\n$101\r\n"], limits)
    with pytest.raises(ProtocolError, match="at most 100 bytes"):
        parsed([b"*2\r\n$60\r\n" + b"x" * 60 + b"\r\n$60\r\n"], limits)


@pytest.mark.parametrize("line", [b"a " * 11 + b"\r\n", b"a" * (17 << 10) + b"\r\n", b"a" * (17 << 10)])
def test_a_stranger_may_type_little(line: bytes) -> None:
    assert parsed([b"AUTH default secret\r\n"], STRANGERS) == [[b"AUTH", b"default", b"secret"]]
    with pytest.raises(ProtocolError, match="inline request"):
        parsed([line], STRANGERS)


@pytest.mark.parametrize("line", [b"a " * 10_000 + b"\r\n", b'"' + b"\\x41" * 5_000 + b'"\r\n', b"\n", b"*0\r\n"])
def test_little_that_is_typed_is_understood_in_one_go(line: bytes) -> None:
    parser, calls = RequestParser(Limits()), 0
    parser.feed(line * (400_000 // len(line)))
    while parser.buffered:
        before = parser.buffered
        parser.requests(1 << 20)
        assert before - parser.buffered < 100_000
        assert parser.paused or not parser.buffered
        calls += 1
    assert calls >= 4


def test_nothing_is_set_up_for_a_request_that_only_promises_much() -> None:
    parser = RequestParser(Limits())
    parser.feed(b"*1048576\r\n")
    assert parser.requests(1) == []
    assert parser._arguments == []


@given(st.binary(max_size=300))
def test_any_bytes_give_requests_or_the_error(data: bytes) -> None:
    try:
        parsed([data])
    except ProtocolError:
        return


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"PING", [b"PING"]),
        (b"  set  a   b ", [b"set", b"a", b"b"]),
        (b"set \"a b\" 'c d'", [b"set", b"a b", b"c d"]),
        (b'"\\x00\\n\\"" ', [b'\x00\n"']),
        (b"'it\\'s'", [b"it's"]),
        (b'""', [b""]),
        (b"", []),
    ],
)
def test_a_line_that_somebody_typed(line: bytes, words: list[bytes]) -> None:
    assert split_inline(line) == words


def test_empty_lines_and_empty_requests_are_passed_over() -> None:
    assert parsed([b"\r\n\n*0\r\n*-1\r\nPING\r\n"]) == [[b"PING"]]
