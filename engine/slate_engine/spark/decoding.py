"""Keys and values as more than bytes: what the options name a format, for a column of rows at once.

A :class:`Decoder` is plain data that goes to executors. The type of its column is settled by Spark itself, which parses the
DDL; so a decoder knows the text of the type, and is handed the Arrow type when it decodes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from slate_engine.errors import InvalidError
from slate_engine.format.columns import I64, U8
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import readonly
from slate_engine.spark.options import imported

INTEGERS = {
    "int32": ("INT", ">i4"),
    "int64": ("BIGINT", ">i8"),
    "uint32": ("BIGINT", ">u4"),
    "uint64": ("DECIMAL(20,0)", ">u8"),
}
"""Big-endian integers of a fixed width: the type in Spark, which has no unsigned ones, and in numpy."""

FORMATS = ("binary", "utf8", *INTEGERS, "json", "struct", "arrow", "function")
_WITH_FIELDS = ("json", "struct", "arrow")

_PACKED = {
    pa.bool_(): ">u1",
    pa.int8(): ">i1",
    pa.int16(): ">i2",
    pa.int32(): ">i4",
    pa.int64(): ">i8",
    pa.float32(): ">f4",
    pa.float64(): ">f8",
}
SHOWN_BYTES = 32
"""So much of what does not decode stands in the error."""

_NESTED = re.compile(r"\s*struct\s*<", re.IGNORECASE)


class Undecodable(InvalidError):
    """Some bytes are not what the format says."""


@dataclass(frozen=True)
class Decoder:
    """How one column is decoded. ``function`` is the user's, as ``module:name``."""

    column: str
    format: str
    schema: str = ""
    function: str = ""
    nulls: bool = False

    @staticmethod
    def of(column: str, formats: Mapping[str, str], schemas: Mapping[str, str], nulls: bool) -> Decoder:
        format, schema = formats[column], schemas[column]
        function = ""
        if ":" in format:
            format, function = "function", format
        if format not in FORMATS[:-1] and not function:
            raise InvalidError(
                f"{column}Format must be one of {', '.join(FORMATS[:-1])}, or module:name of a function, and is {format!r}"
            )
        if not schema and (function or format in _WITH_FIELDS):
            raise InvalidError(f'{column}Format {format} needs option("{column}Schema", DDL): the type that it gives')
        if schema and not (function or format in _WITH_FIELDS):
            raise InvalidError(
                f"{column}Schema says nothing for {column}Format {format}; leave it out, or use json or struct"
            )
        return Decoder(column, format, schema, function, nulls)

    @property
    def ddl(self) -> str:
        """The type of the column, as Spark writes types."""
        if self.format in INTEGERS:
            return INTEGERS[self.format][0]
        if self.format in _WITH_FIELDS:
            return self.schema if _NESTED.match(self.schema) else f"STRUCT<{self.schema}>"
        return {"binary": "BINARY", "utf8": "STRING"}.get(self.format, self.schema)

    def decode(self, column: pa.Array, wanted: pa.DataType) -> pa.Array:
        """``column`` (binary) as ``wanted``. Bytes that are not of the format end the read, or become null."""
        if column.null_count:
            places = pc.if_else(
                column.is_valid(), pc.subtract(pc.cumulative_sum(column.is_valid().cast(pa.int64())), 1), None
            )
            return self.decode(column.drop_null(), wanted).take(places)
        return pa.concat_arrays(list(self._pieces(column, wanted)))

    def _pieces(self, column: pa.Array, wanted: pa.DataType) -> Iterator[pa.Array]:
        """The column decoded; where something is wrong with it, halves of it, so that one bad item costs little."""
        try:
            yield self._decoded(column, wanted)
            return
        except (Undecodable, pa.ArrowException) as error:
            if len(column) == 1 and not self.nulls:
                raise Undecodable(
                    f"{self.column} {column[0].as_py()[:SHOWN_BYTES]!r} is not {self.format}: {error}. Choose another "
                    f'{self.column}Format, or take null for it with option("malformed", "null")'
                ) from None
        if len(column) == 1:
            yield pa.nulls(1, wanted)
            return
        half = len(column) // 2
        yield from self._pieces(column.slice(0, half), wanted)
        yield from self._pieces(column.slice(half), wanted)

    def _decoded(self, column: pa.Array, wanted: pa.DataType) -> pa.Array:
        match self.format:
            case "binary":
                return column
            case "utf8":
                return column.cast(pa.string())
            case "json":
                return _json(column, wanted)
            case "struct":
                return _packed(column, wanted)
            case "arrow":
                return _arrow(column, wanted)
            case "function":
                return self._called(column, wanted)
        return _integers(column, np.dtype(INTEGERS[self.format][1])).cast(wanted)

    def _called(self, column: pa.Array, wanted: pa.DataType) -> pa.Array:
        made = imported(self.function, f"{self.column}Format")(column)
        if not isinstance(made, pa.Array) or len(made) != len(column):
            raise InvalidError(
                f"{self.function} was given an Arrow array of {len(column)} items and must give one of as many, in order"
            )
        return made if made.type == wanted else made.cast(wanted)


def _integers(column: pa.Array, kind: np.dtype[Any]) -> pa.Array:
    data, offsets = _buffers(column)
    if (np.diff(offsets) != kind.itemsize).any():
        raise Undecodable(f"it is not {kind.itemsize} bytes long")
    return pa.array(_field(data, offsets[:-1], kind))


def _json(column: pa.Array, wanted: pa.StructType) -> pa.Array:
    """One object for each item. Fields that the schema does not have are not looked at; those it lacks are null."""
    if not len(column):
        return pa.nulls(0, wanted)
    column.cast(pa.string())  # raises for what is no text, which the parser takes as it comes
    data, offsets = _buffers(column)
    if not _are_objects(readonly(data), readonly(offsets)):
        raise Undecodable("it is not one object")
    lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column), b"\n")[
        0
    ].as_buffer()
    read = pa.json.ReadOptions(use_threads=False, block_size=min(lines.size + 1, 2**31 - 1))
    parse = pa.json.ParseOptions(pa.schema(list(wanted)), newlines_in_values=True, unexpected_field_behavior="ignore")
    table = pa.json.read_json(io.BytesIO(lines), read_options=read, parse_options=parse)
    if table.num_rows != len(column):
        raise Undecodable("it is not one object")
    return _struct([table.column(field.name).combine_chunks() for field in wanted], wanted)


_QUOTE, _BACKSLASH = ord('"'), ord("\\")
_OBJECT, _ARRAY, _OBJECT_END, _ARRAY_END = ord("{"), ord("["), ord("}"), ord("]")
_SPACE, _TAB, _LINE, _RETURN = ord(" "), ord("\t"), ord("\n"), ord("\r")


@kernel
def _are_objects(data: U8, offsets: I64) -> bool:
    """Whether each item is one pair of braces with spaces around it. The parser is given all items as one text: as long as
    it finds no fault, it counts quotes and brackets as this does, so each item is one row, whatever stands in it."""
    for item in range(len(offsets) - 1):
        at, end, depth, quoted, over = offsets[item], offsets[item + 1], 0, False, False
        while at < end:
            byte = data[at]
            if quoted:
                if byte == _BACKSLASH:
                    at += 1
                elif byte == _QUOTE:
                    quoted = False
            elif depth == 0:
                if byte == _OBJECT and not over:
                    depth = 1
                elif byte not in (_SPACE, _TAB, _LINE, _RETURN):
                    return False
            elif byte == _QUOTE:
                quoted = True
            elif byte in (_OBJECT, _ARRAY):
                depth += 1
            elif byte in (_OBJECT_END, _ARRAY_END):
                depth -= 1
                over = depth == 0
            at += 1
        if not over:
            return False
    return True


def _packed(column: pa.Array, wanted: pa.StructType) -> pa.Array:
    """Fields one after the other: numbers big-endian in the width of their type; a text or bytes, which can only come
    last, to the end."""
    data, offsets = _buffers(column)
    fixed, tail = _layout(wanted)
    width = sum(kind.itemsize for kind in fixed)
    lengths = np.diff(offsets)
    if (lengths < width).any() or (tail is None and (lengths != width).any()):
        raise Undecodable(f"its fields take {width} bytes{'' if tail is None else ' or more'}")
    arrays, at = [], 0
    for field, kind in zip(wanted, fixed, strict=False):
        arrays.append(pa.array(_field(data, offsets[:-1] + at, kind)).cast(field.type))
        at += kind.itemsize
    if tail is not None:
        arrays.append(pc.binary_slice(column, width).cast(tail))
    return _struct(arrays, wanted)


def _layout(wanted: pa.StructType) -> tuple[list[np.dtype[Any]], pa.DataType | None]:
    fields = list(wanted)
    tail = fields[-1].type if fields[-1].type in (pa.string(), pa.binary()) else None
    numbers = fields if tail is None else fields[:-1]
    for field in numbers:
        if field.type not in _PACKED:
            raise InvalidError(
                f"format struct has fields of {', '.join(map(str, _PACKED))}, and a last one of string or binary, but "
                f"{field.name} is {field.type}; decode it with a function of yours"
            )
    return [np.dtype(_PACKED[field.type]) for field in numbers], tail


def _arrow(column: pa.Array, wanted: pa.StructType) -> pa.Array:
    """Each item is an Arrow IPC stream with one row."""
    tables = [pa.ipc.open_stream(item.as_buffer()).read_all() for item in column]
    if any(table.num_rows != 1 for table in tables):
        raise Undecodable("it is not a stream of one row")
    if not tables:
        return pa.nulls(0, wanted)
    try:
        whole = pa.concat_tables(tables).select([field.name for field in wanted])
    except KeyError as error:
        raise Undecodable(str(error)) from None
    return _struct([whole.column(field.name).combine_chunks().cast(field.type) for field in wanted], wanted)


def _struct(arrays: list[pa.Array], wanted: pa.StructType) -> pa.Array:
    return pa.StructArray.from_arrays(arrays, fields=list(wanted))


def _buffers(column: pa.Array) -> tuple[U8, I64]:
    """The bytes and the offsets of a binary column."""
    _, offsets, data = column.buffers()
    edges = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data or b"", np.uint8), edges.astype(np.int64)


def _field(data: U8, starts: I64, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """The numbers that begin at ``starts``."""
    numbers: npt.NDArray[Any] = data[starts[:, None] + np.arange(kind.itemsize)].view(kind)[:, 0]
    return numbers.astype(kind.newbyteorder("="))
