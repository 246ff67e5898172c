"""The columns of a frame and their types. Spark asks for these in a process of its own, which should not take long to
start: nothing here knows the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pyspark.sql.types import BinaryType, DataType, DecimalType, IntegerType, LongType, StringType, StructType

from slate_engine.errors import InvalidError
from slate_engine.spark.decoding import Decoder
from slate_engine.spark.options import ReadOptions

OF_A_STATE = ("key", "value", "seq", "create_ts", "expire_ts")
OF_A_DIFF = ("change", "key", "value", "old_value", "seq", "old_seq", "create_ts", "expire_ts")

_PLAIN = {"change": "STRING", "old_seq": "BIGINT", "seq": "BIGINT", "create_ts": "BIGINT", "expire_ts": "BIGINT"}
_TYPES: dict[str, DataType] = {
    "BINARY": BinaryType(),
    "STRING": StringType(),
    "INT": IntegerType(),
    "BIGINT": LongType(),
    "DECIMAL(20,0)": DecimalType(20, 0),
}
"""Only Spark itself can parse DDL; these are all types that are not the user's own."""


def schema_of(options: Mapping[str, str]) -> str:
    """The columns of a frame, as the DDL that Spark parses."""
    wanted = ReadOptions.of(options)
    types = _types_of(wanted)
    names = wanted.columns or columns_of(wanted)
    check_columns(names, wanted)
    return ", ".join(f"{name} {types[name]}" for name in names)


def _types_of(wanted: ReadOptions) -> dict[str, str]:
    types = {name: _PLAIN.get(name, "") for name in columns_of(wanted)}
    return types | {decoder.column: decoder.ddl for decoder in decoders_of(wanted)}


def columns_of(wanted: ReadOptions) -> tuple[str, ...]:
    return OF_A_DIFF if wanted.since else OF_A_STATE


def decoders_of(wanted: ReadOptions) -> tuple[Decoder, ...]:
    key, value = (Decoder.of(column, wanted.formats, wanted.schemas, wanted.nulls) for column in ("key", "value"))
    return (key, value, replace(value, column="old_value")) if wanted.since else (key, value)


def check_columns(names: Iterable[str], wanted: ReadOptions) -> None:
    for name in names:
        if name not in columns_of(wanted):
            raise InvalidError(f"there is no column {name!r}; there are {', '.join(columns_of(wanted))}")


def check_schema(schema: StructType, wanted: ReadOptions) -> None:
    """Refuse what the user's own schema says of a column that has another type. A decoder that takes a schema of its own
    makes what it is asked for; nothing else converts, and bytes must not be taken for what they are not."""
    check_columns(schema.fieldNames(), wanted)
    types = _types_of(wanted)
    decoders = {decoder.column: decoder for decoder in decoders_of(wanted)}
    for field in schema:
        given, known = field.dataType, _TYPES.get(types[field.name])
        decoder = decoders.get(field.name)
        if decoder is not None and decoder.schema:
            known = given if decoder.function or isinstance(given, StructType) else None
        if known != given:
            decoded = f"choose another {'key' if field.name == 'key' else 'value'}Format, or " if decoder else ""
            raise InvalidError(
                f"column {field.name} is {types[field.name]} here, and the schema says {given.simpleString().upper()}: "
                f'{decoded}leave the type to option("columns", …) and cast the column of the frame'
            )
