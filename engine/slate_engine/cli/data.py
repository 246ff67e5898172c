"""Verbs on single rows: get, scan, put, delete."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slate_engine.admin.lifetimes import parse_lifetime
from slate_engine.cli.failures import NOT_FOUND, Misused
from slate_engine.cli.help import READING, WRITING
from slate_engine.cli.ranges import At, End, Prefix, Start, find_checkpoint, key_range
from slate_engine.cli.session import Session
from slate_engine.cli.text import parse_bytes, plural, show_bytes, show_time
from slate_engine.errors import InvalidError

if TYPE_CHECKING:
    from slate_engine.lsm.commit import Change
    from slate_engine.lsm.reading import DatabaseFiles
    from slate_engine.lsm.row import Row
    from slate_engine.lsm.snapshot import Snapshot

PAGE = 500
"""So many rows make one table at a terminal: a scan of millions shows the first ones at once."""

Takeover = Annotated[
    bool, typer.Option("--takeover", help="Write into a database that exists, fencing off a writer that may run.")
]


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=READING)(get)
    app.command(rich_help_panel=READING)(scan)
    app.command(rich_help_panel=WRITING)(put)
    app.command(rich_help_panel=WRITING)(delete)


def get(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The key, as text or 0x…")],
    checkpoint: At = "",
    raw: Annotated[bool, typer.Option("--raw", help="Write the value's very bytes, and nothing else.")] = False,
) -> None:
    """Print the value of a key. Exit code 3 if there is none.

    \b
    Examples:
      slate --store file:///tmp/shop --path orders get order:0042
      slate --store file:///tmp/shop --path orders get order:0042 --checkpoint before-migration
      slate --store file:///tmp/shop --path orders get 0x00ff --raw > value.bin
    """
    session: Session = context.obj
    session.run(_get(session, key, checkpoint, raw))


async def _get(session: Session, key: str, checkpoint: str, raw: bool) -> int:
    snapshot = await snapshot_at(session.files(), checkpoint)
    row = await snapshot.get(parse_bytes(key))
    if row is None:
        session.note(f"slate: there is no key {key!r}")
        return NOT_FOUND
    if raw:
        sys.stdout.buffer.write(row.value)
    else:
        session.print(row_facts(row), lambda facts: facts["value"])
    return 0


async def snapshot_at(files: DatabaseFiles, checkpoint: str) -> Snapshot:
    """The newest state, or that of a checkpoint."""
    if not checkpoint:
        return await files.latest()
    return await files.checkpoint(find_checkpoint((await files.manifests.read_latest()).value, checkpoint).id)


def scan(
    context: typer.Context,
    start: Start = "",
    end: End = "",
    prefix: Prefix = "",
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="At most so many rows; 0 for all.")] = 0,
    reverse: Annotated[bool, typer.Option("--reverse", help="From the last key to the first.")] = False,
    checkpoint: At = "",
) -> None:
    """Print rows in key order. With --output json, one JSON object a line.

    \b
    Examples:
      slate --store file:///tmp/shop --path orders scan --prefix order: --limit 10
      slate --store file:///tmp/shop --path orders scan --start order:0042 --end order:0100 --reverse
      slate --store file:///tmp/shop --path orders --output json scan | jq -r .key
    """
    session: Session = context.obj
    rows = _rows(session, (start, end, prefix), limit, reverse, checkpoint)
    session.run(_print_json(rows) if session.json else _print_table(session, rows))


async def _rows(
    session: Session, keys: tuple[str, str, str], limit: int, reverse: bool, checkpoint: str
) -> AsyncIterator[Row]:
    from slate_engine.lsm.row import Row

    wanted = key_range(*keys)
    snapshot = await snapshot_at(session.files(), checkpoint)
    shown = 0
    async with aclosing(snapshot.scan(wanted, descending=reverse)) as batches:
        async for batch in batches:
            for values in batch.tuples():
                yield Row(*values)
                shown += 1
                if shown == limit:
                    return


async def _print_json(rows: AsyncIterator[Row]) -> None:
    async for row in rows:
        sys.stdout.write(json.dumps(row_facts(row), ensure_ascii=False) + "\n")


async def _print_table(session: Session, rows: AsyncIterator[Row]) -> None:
    from slate_engine.cli.tables import table

    console = session.console
    # At a terminal a value is cut to its line. Elsewhere it is data, and stays whole.
    cut = max(console.width - 60, 20) if console.is_terminal else None
    page: list[tuple[object, ...]] = []
    shown = 0

    def print_page() -> None:
        session.show(table(("key", "value", ">seq", "written (UTC)"), page))
        page.clear()

    async for row in rows:
        written = show_time(row.create_ts / 1000) if row.create_ts else ""
        page.append((show_bytes(row.key, cut), show_bytes(row.value, cut), row.seq, written))
        shown += 1
        if len(page) == PAGE:
            print_page()
    if page:
        print_page()
    if not shown:
        session.note("no rows")


def put(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The key, as text or 0x…")],
    value: Annotated[str | None, typer.Argument(help="The value, as text or 0x…")] = None,
    file: Annotated[
        str, typer.Option(metavar="FILE", help="The value is this file's bytes; - for standard input.")
    ] = "",
    ttl: Annotated[str, typer.Option(metavar="SPAN", help='The row expires after this, such as "7days".')] = "",
    takeover: Takeover = False,
) -> None:
    """Write one row.

    The database is created if there is none. The row is durable in the store when the command ends.
    The command is the database's writer while it runs: a writer that runs already would be fenced off and stop, which
    has to be asked for by --takeover.

    \b
    Examples:
      slate --store file:///tmp/shop --path orders put order:0042 delivered
      slate --store file:///tmp/shop --path orders put --takeover picture:7 --file photo.jpg --ttl "30days"
    """
    session: Session = context.obj
    if (value is None) == (not file):
        raise typer.BadParameter("give the value, or --file; one of them", param_hint="VALUE")
    session.run(_put(session, key, value, file, ttl, takeover))


async def _put(session: Session, key: str, value: str | None, file: str, ttl: str, takeover: bool) -> None:
    from slate_engine.lsm.commit import Change

    data = _file_bytes(file) if value is None else parse_bytes(value)
    expires = parse_lifetime(ttl) if ttl else None
    await _write(session, [Change(_key(key), data, ttl_ms=expires)], takeover, "written")


def delete(
    context: typer.Context,
    keys: Annotated[list[str], typer.Argument(help="The keys, as text or 0x…", metavar="KEY…")],
    takeover: Takeover = False,
) -> None:
    """Delete rows. A key that is not there counts as deleted.

    \b
    Example:
      slate --store file:///tmp/shop --path orders delete --takeover order:0042 order:0043
    """
    session: Session = context.obj
    session.run(_delete(session, keys, takeover))


async def _delete(session: Session, keys: list[str], takeover: bool) -> None:
    from slate_engine.format.columns import TOMBSTONE
    from slate_engine.lsm.commit import Change

    await session.files().manifests.read_latest()  # deleting from nothing is a mistake in the path
    await _write(session, [Change(_key(key), b"", TOMBSTONE) for key in keys], takeover, "deleted")


def _key(text: str) -> bytes:
    key = parse_bytes(text)
    if not key:
        raise Misused("a key must not be empty")
    return key


async def _write(session: Session, changes: list[Change], takeover: bool, done: str) -> None:
    from slate_engine.lsm.writer import Writer
    from slate_engine.lsm.writer_options import WriterOptions

    files = session.files()
    await check_may_write(session, files, takeover)
    writer = await Writer.open(files, WriterOptions())
    try:
        commit = await writer.write(changes)
        await commit.durable()
    finally:
        await writer.close()
    session.print(
        {"rows": len(changes), "seq": commit.seq, "epoch": writer.epoch},
        lambda facts: f"{plural(facts['rows'], 'row')} {done} (sequence {facts['seq']}, writer epoch {facts['epoch']})",
    )


async def check_may_write(session: Session, files: DatabaseFiles, takeover: bool) -> None:
    """A database that somebody has written may have a writer now, which would be fenced off."""
    found = await files.manifests.latest()
    if found is not None and found.value.writer_epoch > 0 and not takeover:
        raise InvalidError(
            f"there is a database at {session.path!r} already, and somebody may be writing it; --takeover makes this "
            "command its writer, and stops the other one"
        )


def _file_bytes(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidError(f"{file} cannot be read: {error.strerror}") from None


def row_facts(row: Row) -> dict[str, Any]:
    """A row as ``--output json`` gives it. Times are milliseconds of the unix epoch, as they are stored."""
    from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE

    return {
        "key": show_bytes(row.key),
        "value": show_bytes(row.value),
        "seq": row.seq,
        "create_ts": row.create_ts if row.flags & HAS_CREATE else None,
        "expire_ts": row.expire_ts if row.flags & HAS_EXPIRE else None,
    }
