from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slate_engine.errors import InvalidError
from slate_engine.spark.decoding import Decoder, Undecodable

POINT = pa.struct([("x", pa.int32()), ("name", pa.string())])


def decoder(format: str, schema: str = "", *, nulls: bool = False) -> Decoder:
    return Decoder.of("value", {"value": format}, {"value": schema}, nulls)


def decode(
    format: str, items: list[bytes | None], wanted: pa.DataType, schema: str = "", *, nulls: bool = False
) -> list[Any]:
    found = decoder(format, schema, nulls=nulls).decode(pa.array(items, pa.binary()), wanted)
    assert found.type == wanted
    return found.to_pylist()


def stream(**row: Any) -> bytes:
    batch = pa.RecordBatch.from_pylist([row])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def reversed_text(column: pa.Array) -> pa.Array:
    return pa.array([item.decode()[::-1] for item in column.to_pylist()])


def too_short(column: pa.Array) -> pa.Array:
    return column.slice(1)


@pytest.mark.parametrize(
    ("format", "schema", "ddl"),
    [
        ("binary", "", "BINARY"),
        ("utf8", "", "STRING"),
        ("int32", "", "INT"),
        ("int64", "", "BIGINT"),
        ("uint32", "", "BIGINT"),
        ("uint64", "", "DECIMAL(20,0)"),
        ("json", "a INT, b STRING", "STRUCT<a INT, b STRING>"),
        ("struct", "STRUCT<a: INT>", "STRUCT<a: INT>"),
        ("some.module:f", "ARRAY<INT>", "ARRAY<INT>"),
    ],
)
def test_the_type_of_a_column(format: str, schema: str, ddl: str) -> None:
    assert decoder(format, schema).ddl == ddl


@pytest.mark.parametrize(
    ("format", "schema", "message"),
    [
        ("utf-8", "", "valueFormat must be one of binary, utf8, int32"),
        ("json", "", "needs option"),
        ("utf8", "a INT", "valueSchema says nothing for valueFormat utf8"),
    ],
)
def test_mistakes(format: str, schema: str, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        decoder(format, schema)


def test_texts_and_numbers() -> None:
    assert decode("utf8", ["ü".encode(), b""], pa.string()) == ["ü", ""]
    assert decode("int32", [b"\0\0\0\1", b"\xff\xff\xff\xfe"], pa.int32()) == [1, -2]
    assert decode("int64", [struct.pack(">q", -(2**63))], pa.int64()) == [-(2**63)]
    assert decode("uint32", [b"\xff\xff\xff\xff"], pa.int64()) == [2**32 - 1]
    assert decode("uint64", [b"\xff" * 8], pa.decimal128(20, 0)) == [Decimal(2**64 - 1)]


def test_json() -> None:
    items = [b'{"x": 1, "name": "a", "more": [1]}', b'{\n"name": "b\\nc"}', b"{}"]
    assert decode("json", items, POINT, "x INT, name STRING") == [
        {"x": 1, "name": "a"},
        {"x": None, "name": "b\nc"},
        {"x": None, "name": None},
    ]


def test_packed_fields() -> None:
    wanted = pa.struct([("flag", pa.bool_()), ("n", pa.int16()), ("f", pa.float64()), ("rest", pa.string())])
    items = [struct.pack(">?hd", True, -5, 0.5) + b"text", struct.pack(">?hd", False, 7, -1.0)]
    assert decode("struct", items, wanted, "…") == [
        {"flag": True, "n": -5, "f": 0.5, "rest": "text"},
        {"flag": False, "n": 7, "f": -1.0, "rest": ""},
    ]
    with pytest.raises(InvalidError, match="decode it with a function of yours"):
        decode("struct", items, pa.struct([("when", pa.timestamp("us"))]), "…")


def test_arrow_streams_of_one_row() -> None:
    items = [stream(name="a", x=1, more=2), stream(x=2, name="b", more=3)]
    assert decode("arrow", items, POINT, "…") == [{"x": 1, "name": "a"}, {"x": 2, "name": "b"}]


def test_a_function() -> None:
    assert decode(f"{__name__}:reversed_text", [b"abc", b""], pa.string(), "STRING") == ["cba", ""]
    with pytest.raises(InvalidError, match="must give one of as many"):
        decode(f"{__name__}:too_short", [b"abc"], pa.string(), "STRING")


BAD = [
    ("utf8", [b"ok", b"\xff\xfe"], pa.string(), ""),
    ("int32", [b"\0\0\0\1", b"\0"], pa.int32(), ""),
    ("json", [b'{"x": 1}', b"{oops"], POINT, "…"),
    ("json", [b'{"x": 1}', b'{"x": 1} {"x": 2}'], POINT, "…"),
    ("json", [b'{"x": 1}', b'{"x": "text"}'], POINT, "…"),
    ("json", [b'{"x": 1}', b'{"name": "\xff"}'], POINT, "…"),
    ("json", [b'{"x": 1}', b"null"], POINT, "…"),
    ("struct", [struct.pack(">i", 1) + b"n", b"\0"], POINT, "…"),
    ("arrow", [stream(x=1, name="n"), b"nonsense"], POINT, "…"),
]


@pytest.mark.parametrize(("format", "items", "wanted", "schema"), BAD)
def test_what_does_not_decode_ends_the_read_or_is_null(
    format: str, items: list[bytes], wanted: pa.DataType, schema: str
) -> None:
    with pytest.raises(Undecodable, match=r'is not (utf8|int32|json|struct|arrow).*option\("malformed", "null"\)'):
        decode(format, items, wanted, schema)
    good = decode(format, items[:1], wanted, schema)
    assert decode(format, [*items, items[0]] * 3, wanted, schema, nulls=True) == [*good, None, *good] * 3


@pytest.mark.parametrize(("format", "items", "wanted", "schema"), BAD)
def test_a_null_stays_null_and_nothing_is_nothing(
    format: str, items: list[bytes], wanted: pa.DataType, schema: str
) -> None:
    good = decode(format, items[:1], wanted, schema)
    assert decode(format, [None, items[0], None, items[0]], wanted, schema) == [None, *good, None, *good]
    assert decode(format, [], wanted, schema) == []


def test_a_slice_of_a_column() -> None:
    column = pa.array([b"\0\0\0\1", b"\0\0\0\2", b"\0\0\0\3"], pa.binary()).slice(1)
    assert decoder("int32").decode(column, pa.int32()).to_pylist() == [2, 3]


TWO = b'{"x":1}{"x":2}'


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([TWO, b'{"x":3}', b""], [None, 3, None]),
        ([b"", b'{"x":3}', TWO], [None, 3, None]),
        ([b'{"x":1}\n{"x":2}', b'{"x":3}', b'{"x":4}', b" \n"], [None, 3, 4, None]),
        # What would be right inside of something else: a member, an item, another row.
        ([b'1} {"v":2', b'{"x":3}', b""], [None, 3, None]),
        ([b'{"x":1},"w":{"x":2}', b'{"x":3}'], [None, 3]),
        ([b'{"x":1},{"x":2}', b'{"x":3}', b""], [None, 3, None]),
        # Halves of an object, or of a string, that the next item ends.
        ([b'{"x":1', b"}", TWO], [None, None, None]),
        ([b'{"a":[{}', b',{}],"x":1}', TWO], [None, None, None]),
        ([b'{"a":"', b'","x":1}', TWO], [None, None, None]),
        # The parser takes a zero for the end of all.
        ([TWO, b'{"x":3}\0', b'{"x":4}'], [None, None, 4]),
    ],
)
def test_no_item_of_json_takes_the_row_of_another(items: list[bytes], expected: list[int | None]) -> None:
    wanted = pa.struct([("x", pa.int32())])
    with pytest.raises(Undecodable, match="is not json"):
        decode("json", items, wanted, "…")
    found = decode("json", items, wanted, "…", nulls=True)
    assert found == [None if x is None else {"x": x} for x in expected]


NESTED = pa.struct([("x", pa.int64()), ("name", pa.string()), ("o", pa.struct([("y", pa.int64())]))])


class Pairs(dict[str, Any]):
    """An object as the parser sees it; to have a field twice is a fault of it."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = {name for name, _ in pairs if sum(name == other for other, _ in pairs) > 1}


def plain(value: Any, wanted: pa.DataType) -> Any:
    """What a value of JSON is as this type; raises if it is none."""
    if value is None:
        return None
    if pa.types.is_struct(wanted):
        if not isinstance(value, Pairs) or value.twice & {field.name for field in wanted}:
            raise ValueError(value)
        return {field.name: plain(value.get(field.name), field.type) for field in wanted}
    if type(value) is not (int if wanted == pa.int64() else str) or (type(value) is int and abs(value) >= 2**63):
        raise ValueError(value)
    return value


def by_itself(item: bytes) -> Any:
    """The item as Python reads it, alone; None if it is not one object."""
    try:
        return plain(json.loads(item.decode(), object_pairs_hook=Pairs), NESTED)
    except ValueError:
        return None


scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5)
inner = st.dictionaries(st.sampled_from(["y", "z"]), scalars | st.lists(scalars, max_size=2), max_size=2)
whole = st.fixed_dictionaries(
    {}, optional={"x": st.integers(), "name": st.text(max_size=8), "o": inner, "more": st.lists(inner | scalars)}
)
objects = st.builds(
    lambda value, indent, ascii: json.dumps(value, indent=indent, ensure_ascii=ascii).encode(),
    whole,
    st.sampled_from([None, 1]),
    st.booleans(),
)
pieces = st.sampled_from(
    [
        b"",
        b" ",
        b"\n",
        b"\0",
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\\",
        b",",
        b":",
        b"1",
        b'"x":',
        b'"name":"',
        b"{}",
        b"null",
    ]
)
blanks = st.text(" \t\r\n", max_size=3).map(str.encode)
scraps = st.lists(pieces | objects, max_size=6).map(b"".join)
cut = st.builds(lambda item, at: item[: at % (len(item) + 1)], objects, st.integers(0, 1000))
padded = st.tuples(blanks, objects, blanks).map(b"".join)
doubled = st.tuples(objects, blanks, objects).map(b"".join)


@given(st.lists(objects | padded | doubled | blanks | scraps | cut, max_size=8))
@example([TWO, b'{"x":3}', b""])
def test_json_is_what_each_item_is_by_itself(items: list[bytes]) -> None:
    expected = [by_itself(item) for item in items]
    assert decode("json", list(items), NESTED, "…", nulls=True) == expected
    if None in expected:
        with pytest.raises(Undecodable, match="is not json"):
            decode("json", list(items), NESTED, "…")
    else:
        assert decode("json", list(items), NESTED, "…") == expected
