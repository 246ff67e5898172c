"""The options that name keys: for every kind of key, the ranges hold what a comparison with the decoded key lets through."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.errors import InvalidError
from slate_engine.spark.keys import KEYS
from slate_engine.spark.options import ReadOptions
from slate_engine.spark.ranges import EVERYTHING, is_point
from slate_engine.spark.stream import stream_reader_of
from tests.spark.test_filters import ENCODE, VALUES

HERE = {"url": "s3://bucket", "path": "db"}
TEXTS = {format: values for format, values in VALUES.items() if format != "binary"}
AS_BYTES: dict[str, Callable[[bytes], str]] = {"hex": bytes.hex, "base64": lambda key: b64encode(key).decode()}


def holds(key: bytes, **options: str) -> bool:
    return any(key in each for each in ReadOptions.of({**HERE, **options}).ranges)


@pytest.mark.parametrize("format", sorted(TEXTS))
@given(data=st.data())
def test_keys_as_the_column_shows_them(format: str, data: st.DataObject) -> None:
    key, low, high = (data.draw(TEXTS[format]) for _ in range(3))
    among = data.draw(st.lists(TEXTS[format], max_size=4))
    stored = ENCODE[format](key)
    assert holds(stored, keyFormat=format, start=str(low), end=str(high)) == (low <= key < high)
    assert holds(stored, keyFormat=format, keys=json.dumps(among)) == (key in among)
    asked = {"start": str(low), "keys": json.dumps([str(each) for each in among])}
    assert holds(stored, keyFormat=format, **asked) == (key in among and key >= low)


@given(st.text(max_size=3), st.text(min_size=1, max_size=2))
def test_prefixes_of_text(key: str, prefix: str) -> None:
    for format in ("binary", "utf8"):
        assert holds(key.encode(), keyFormat=format, prefix=prefix) == key.startswith(prefix)


@pytest.mark.parametrize("format", ["binary", "utf8", "int64", "json"])
@pytest.mark.parametrize("encoding", sorted(AS_BYTES))
@given(data=st.data())
def test_keys_as_they_are_stored(encoding: str, format: str, data: st.DataObject) -> None:
    """Whatever they decode to, the order is that of their bytes."""
    keys = st.binary(min_size=1, max_size=3)
    key, low, high, prefix = (data.draw(keys) for _ in range(4))
    write, told = AS_BYTES[encoding], {"keyFormat": format, "keyEncoding": encoding}
    assert holds(key, **told, start=write(low), end=write(high)) == (low <= key < high)
    assert holds(key, **told, prefix=write(prefix)) == key.startswith(prefix)
    assert holds(key, **told, keys=json.dumps([write(low), write(high)])) == (key in (low, high))


def test_single_keys_are_looked_up() -> None:
    ranges = ReadOptions.of({**HERE, "keys": '["b", "a", "b"]'}).ranges
    assert [each.start.key for each in ranges] == [b"a", b"b"]
    assert all(is_point(each) for each in ranges)


def test_what_is_not_given_does_not_narrow() -> None:
    assert ReadOptions.of({**HERE, **dict.fromkeys(KEYS, "")}).ranges == EVERYTHING
    assert ReadOptions.of({**HERE, "keys": "[]"}).ranges == ()
    assert ReadOptions.of({**HERE, "start": "b", "end": "a"}).ranges == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": str(b"order:1")}, "which is how Python shows bytes: give the text itself, or key.hex()"),
        ({"keys": json.dumps([str(bytearray(b"a"))])}, "which is how Python shows bytes"),
        ({"keys": str(["a"])}, r"must be a JSON array of keys.*write json.dumps"),
        ({"keys": "a,b"}, "must be a JSON array of keys"),
        ({"keys": '"a"'}, "must be a JSON array of keys"),
        ({"keys": "[1]"}, "must be a JSON array of keys"),
        ({"keys": "[true]", "keyFormat": "int32"}, "with texts or integers in it"),
        ({"start": "five", "keyFormat": "int64"}, "must be a number that fits int64, and is 'five'"),
        ({"end": str(2**40), "keyFormat": "int32"}, "must be a number that fits int32"),
        ({"start": "-1", "keyFormat": "uint64"}, "must be a number that fits uint64"),
        ({"prefix": "1", "keyFormat": "int64"}, "prefix is for keys that are bytes or text, and these are int64"),
        ({"start": "{}", "keyFormat": "json"}, "give the stored bytes with option"),
        ({"start": "\ud800"}, "no text that can be stored"),
        ({"prefix": "0x0", "keyEncoding": "hex"}, "option prefix must be hex"),
        ({"prefix": "?", "keyEncoding": "base64"}, "option prefix must be base64"),
        ({"prefix": "a", "keyEncoding": "utf16"}, "keyEncoding must be one of text, hex, base64"),
    ],
)
def test_mistakes_say_what_to_write(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        ReadOptions.of({**HERE, **options})


def test_a_stream_does_not_ignore_them() -> None:
    schema: Any = None
    with pytest.raises(InvalidError, match="a stream has all keys: leave the options start, end, prefix, keys out"):
        stream_reader_of({**HERE, "prefix": "a"}, schema)
