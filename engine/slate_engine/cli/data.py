"""Commands on the data: import, get, scan."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from slate_engine.cli.session import NOT_FOUND, Session, run
from slate_engine.cli.text import parse_bytes, show_bytes, show_time
from slate_engine.errors import InvalidError

if TYPE_CHECKING:
    from slate_engine.lsm.commit import Change
    from slate_engine.lsm.row import Row

BATCH = 1000


def register(app: typer.Typer) -> None:
    app.command("import")(import_)
    app.command()(get)
    app.command()(scan)


def import_(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(help="JSON lines, or CSV with the columns key and value; - for standard input.")
    ],
    format: Annotated[str, typer.Option(help="jsonl or csv; by default what the file's name says, else jsonl.")] = "",
    takeover: Annotated[
        bool, typer.Option("--takeover", help="Write into a database that exists, fencing off a writer that may run.")
    ] = False,
) -> None:
    """Write rows into a database, creating it if there is none.

    Each line of JSON is an object with "key" and "value"; "value": null deletes the key. The command is the database's
    writer while it runs. Rows are committed in batches of 1,000, and durable in the store when the command ends.

    Example:  slate --store file:///tmp/shop --path orders import orders.jsonl
    """
    session: Session = context.obj
    run(_import(session, file, format, takeover))


async def _import(session: Session, file: str, format: str, takeover: bool) -> None:
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    from slate_engine.lsm.writer import Writer
    from slate_engine.lsm.writer_options import WriterOptions

    files = session.files()
    found = await files.manifests.latest()
    if found is not None and found.value.writer_epoch > 0 and not takeover:
        raise InvalidError(
            f"there is a database at {session.path!r} already, and somebody may be writing it; --takeover makes this "
            "command its writer, and stops the other one"
        )
    with _open(file) as source:
        changes = _changes(source, format or ("csv" if file.endswith(".csv") else "jsonl"), file)
        first = list(islice(changes, BATCH))
        writer = await Writer.open(files, WriterOptions())
        rows = 0
        columns = (TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=session.progress, transient=True) as progress:
            bar = progress.add_task("importing", total=None)
            try:
                while first:
                    await writer.write(first)
                    rows += len(first)
                    progress.update(bar, description=f"importing: {rows:,} rows")
                    first = list(islice(changes, BATCH))
            finally:
                await writer.close(flush_memtable=True)
    session.print(
        {"rows": rows, "manifest": writer.state.manifest_id, "epoch": writer.epoch},
        lambda facts: (
            f"{facts['rows']:,} rows are durable (manifest {facts['manifest']}, writer epoch {facts['epoch']})"
        ),
    )


def _open(file: str) -> TextIO:
    if file == "-":
        return sys.stdin
    try:
        return Path(file).open(encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidError(f"{file} cannot be read: {error.strerror}") from None


def _changes(source: TextIO, format: str, name: str) -> Iterator[Change]:
    from slate_engine.format.columns import TOMBSTONE
    from slate_engine.lsm.commit import Change

    if format not in ("jsonl", "csv"):
        raise InvalidError(f"{format!r} is not a format that can be imported; choose jsonl or csv")
    records: Iterator[Any] = _json_lines(source) if format == "jsonl" else csv.DictReader(source)
    for number, record in enumerate(records, 1):
        try:
            key, value = record["key"], record["value"]
        except (KeyError, TypeError):
            raise InvalidError(
                f'record {number} of {name} has no "key" or no "value"; nothing after it was read'
            ) from None
        if not isinstance(key, str) or not key or not isinstance(value, str | None):
            raise InvalidError(f"record {number} of {name}: the key must be a text, and the value a text or null")
        if value is None:
            yield Change(parse_bytes(key), b"", TOMBSTONE)
        else:
            yield Change(parse_bytes(key), parse_bytes(value))


def _json_lines(source: TextIO) -> Iterator[Any]:
    for number, line in enumerate(source, 1):
        if line.strip():
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise InvalidError(f"line {number} is not JSON: {error}; nothing after it was read") from None


def get(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The key, as text or 0x…")],
    checkpoint: Annotated[
        str, typer.Option(help="Read this checkpoint (id or name) instead of the newest state.")
    ] = "",
) -> None:
    """Print the value of a key. Exit code 3 if there is none.

    Example:  slate --store file:///tmp/shop --path orders get order:0042
    """
    run(_get(context.obj, key, checkpoint))


async def _get(session: Session, key: str, checkpoint: str) -> int:
    files = session.files()
    snapshot = await (files.checkpoint(checkpoint) if checkpoint else files.latest())
    row = await snapshot.get(parse_bytes(key))
    if row is None:
        typer.secho(f"slate: there is no key {key!r}", err=True, fg="yellow")
        return NOT_FOUND
    session.print(_facts(row), lambda facts: facts["value"])
    return 0


def scan(
    context: typer.Context,
    start: Annotated[str, typer.Option(help="The first key.")] = "",
    end: Annotated[str, typer.Option(help="The key to stop before.")] = "",
    prefix: Annotated[str, typer.Option(help="Only keys that begin so.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="At most so many rows; 0 for all.")] = 0,
    reverse: Annotated[bool, typer.Option("--reverse", help="From the last key to the first.")] = False,
    checkpoint: Annotated[
        str, typer.Option(help="Read this checkpoint (id or name) instead of the newest state.")
    ] = "",
) -> None:
    """Print rows in key order. With --output json, one JSON object a line.

    Example:  slate --store file:///tmp/shop --path orders scan --prefix order: --limit 10
    """
    run(_scan(context.obj, start, end, prefix, limit, reverse, checkpoint))


async def _scan(
    session: Session, start: str, end: str, prefix: str, limit: int, reverse: bool, checkpoint: str
) -> None:
    from rich.table import Table

    from slate_engine.format.key_range import ALL, KeyRange
    from slate_engine.lsm.row import Row

    files = session.files()
    snapshot = await (files.checkpoint(checkpoint) if checkpoint else files.latest())
    wanted = KeyRange.half_open(parse_bytes(start) if start else None, parse_bytes(end) if end else None)
    inside = wanted.intersect(KeyRange.of_prefix(parse_bytes(prefix)) if prefix else ALL)
    if inside is None:
        raise InvalidError("no key lies between that --start, --end and --prefix")
    console = session.console
    table = Table("key", "value", "seq", "written (UTC)", box=None, pad_edge=False, header_style="bold")
    shown = 0
    async for batch in snapshot.scan(inside, descending=reverse):
        for values in batch.tuples():
            row = Row(*values)
            if session.json:
                sys.stdout.write(json.dumps(_facts(row), ensure_ascii=False) + "\n")
            else:
                written = show_time(row.create_ts / 1000) if row.create_ts else ""
                table.add_row(show_bytes(row.key, 60), show_bytes(row.value, 80), str(row.seq), written)
            shown += 1
            if shown == limit:
                break
        if shown == limit and limit:
            break
    if not session.json:
        console.print(table if shown else "no rows")


def _facts(row: Row) -> dict[str, Any]:
    from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE

    return {
        "key": show_bytes(row.key),
        "value": show_bytes(row.value),
        "seq": row.seq,
        "create_ts": row.create_ts if row.flags & HAS_CREATE else None,
        "expire_ts": row.expire_ts if row.flags & HAS_EXPIRE else None,
    }
