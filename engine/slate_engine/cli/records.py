"""Rows in files: JSON lines, CSV and Parquet, read and written.

A record has a ``key`` and a ``value``, and may have ``expire_ts``, milliseconds of the unix epoch. In text formats keys and
values are written as everywhere in the command (``0x…`` for what is not printable); in Parquet they are bytes. A value that
is null deletes the key, which CSV cannot say.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol

from slate_engine.cli.data import row_facts
from slate_engine.cli.failures import Misused
from slate_engine.cli.text import parse_bytes
from slate_engine.errors import InvalidError
from slate_engine.format.arrow import COLUMNS, record_batch
from slate_engine.format.columns import TOMBSTONE, Rows
from slate_engine.lsm.commit import Change
from slate_engine.lsm.row import Row

FORMATS = ("jsonl", "csv", "parquet")
MOST_KEY_BYTES = 65_535
_SUFFIXES = {".json": "jsonl", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}


def format_of(file: str, wanted: str) -> str:
    """The format that the user named, or that the file's name tells."""
    if wanted and wanted not in FORMATS:
        raise Misused(f"{wanted!r} is not a format of rows; choose one of {', '.join(FORMATS)}")
    return wanted or _SUFFIXES.get(Path(file).suffix.lower(), "jsonl")


# --- reading ---------------------------------------------------------------------------------------------------------


def read_changes(source: IO[bytes], format: str, name: str) -> Iterator[Change]:
    """What the records of a file change, in their order."""
    readers: dict[str, Callable[[IO[bytes], str], Iterator[Any]]] = {
        "jsonl": _json_lines,
        "csv": _csv,
        "parquet": _parquet,
    }
    for number, record in enumerate(readers[format](source, name), 1):
        yield _change(record, f"record {number} of {name}")


def _change(record: Any, where: str) -> Change:
    try:
        key, value = record["key"], record["value"]
    except (KeyError, TypeError):
        raise InvalidError(f'{where} has no "key" or no "value"; no record after it was read') from None
    if not isinstance(key, str | bytes) or not isinstance(value, str | bytes | None):
        raise InvalidError(f"{where}: the key must be a text, and the value a text or null")
    key_bytes = _bytes(key, where)
    if not 0 < len(key_bytes) <= MOST_KEY_BYTES:
        raise InvalidError(f"{where}: a key has 1 to {MOST_KEY_BYTES} bytes, and this one has {len(key_bytes)}")
    if value is None:
        return Change(key_bytes, b"", TOMBSTONE)
    return Change(key_bytes, _bytes(value, where), expire_at_ms=_expiry(record.get("expire_ts"), where))


def _bytes(given: str | bytes, where: str) -> bytes:
    try:
        return given if isinstance(given, bytes) else parse_bytes(given)
    except Misused as error:
        raise InvalidError(f"{where}: {error.message}") from None


def _expiry(given: Any, where: str) -> int | None:
    if given is None or given == "":
        return None
    try:
        return int(given)
    except (TypeError, ValueError):
        raise InvalidError(f"{where}: expire_ts must be milliseconds of the unix epoch, or be absent") from None


def _lines(source: IO[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(source, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise InvalidError(
                f"line {number} of {name} is not UTF-8; write bytes that are no text as 0x with hexadecimal digits"
            ) from None


def _json_lines(source: IO[bytes], name: str) -> Iterator[Any]:
    for number, line in enumerate(_lines(source, name), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise InvalidError(f"line {number} of {name} is not JSON: {error}; no line after it was read") from None


def _csv(source: IO[bytes], name: str) -> Iterator[Any]:
    csv.field_size_limit(2**31 - 1)  # the values of a database are larger than those of a spreadsheet
    try:
        records = (row for row in csv.reader(_lines(source, name), strict=True) if row)
        header = next(records, [])
        for number, row in enumerate(records, 1):
            if len(row) != len(header):
                # A row that was cut off has no value, which would delete its key. One with a comma too many has half of it.
                raise InvalidError(
                    f"record {number} of {name} has {len(row)} fields, and the header has {len(header)}; quote values with "
                    "commas in them. No record after it was read"
                )
            yield dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise InvalidError(f"{name} is not CSV: {error}") from None


def _parquet(source: IO[bytes], name: str) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # The end of the file says where all the rest is, so a pipe has to be read to its end.
        file = pq.ParquetFile(source if source.seekable() else io.BytesIO(source.read()))
        columns = [column for column in ("key", "value", "expire_ts") if column in file.schema_arrow.names]
        for batch in file.iter_batches(batch_size=10_000, columns=columns):
            yield from (_text_as_bytes(record) for record in batch.to_pylist())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise InvalidError(f"{name} is not a Parquet file that can be read: {error}") from None


def _text_as_bytes(record: dict[str, Any]) -> dict[str, Any]:
    """A column of text means that text: nothing is escaped in Parquet."""
    return {name: value.encode() if isinstance(value, str) else value for name, value in record.items()}


# --- writing ---------------------------------------------------------------------------------------------------------


class RecordWriter(Protocol):
    """Takes rows in key order; nothing is complete before it is closed."""

    def write(self, rows: Rows) -> None: ...

    def close(self) -> None: ...


def record_writer(sink: IO[bytes], format: str) -> RecordWriter:
    writers: dict[str, Callable[[IO[bytes]], RecordWriter]] = {
        "jsonl": JsonLinesWriter,
        "csv": CsvWriter,
        "parquet": ParquetWriter,
    }
    return writers[format](sink)


class JsonLinesWriter:
    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink

    def write(self, rows: Rows) -> None:
        lines = (json.dumps(row_facts(Row(*values)), ensure_ascii=False) + "\n" for values in rows.tuples())
        self._sink.write("".join(lines).encode())

    def close(self) -> None:
        pass


class CsvWriter:
    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink
        self._text = io.StringIO()
        self._writer = csv.DictWriter(self._text, COLUMNS, lineterminator="\n")
        self._writer.writeheader()

    def write(self, rows: Rows) -> None:
        self._writer.writerows(row_facts(Row(*values)) for values in rows.tuples())
        self.close()

    def close(self) -> None:
        self._sink.write(self._text.getvalue().encode())
        self._text.seek(0)
        self._text.truncate()


class ParquetWriter:
    def __init__(self, sink: IO[bytes]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        numbers = [("seq", pa.uint64()), ("create_ts", pa.int64()), ("expire_ts", pa.int64())]
        self._schema = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary()), *numbers])
        self._writer = pq.ParquetWriter(sink, self._schema, compression="zstd")

    def write(self, rows: Rows) -> None:
        self._writer.write_batch(record_batch(rows).cast(self._schema))

    def close(self) -> None:
        self._writer.close()
