"""Verbs that move many rows: import, export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from slate_engine.cli.data import Takeover, check_may_write, snapshot_at
from slate_engine.cli.help import READING, WRITING
from slate_engine.cli.progress import progress
from slate_engine.cli.ranges import At, End, Prefix, Start, find_checkpoint, key_range
from slate_engine.cli.session import Session
from slate_engine.cli.text import plural

if TYPE_CHECKING:
    from slate_engine.lsm.reading import DatabaseFiles
    from slate_engine.lsm.snapshot import Snapshot

BATCH = 1000
HOLD_MS = 600_000
"""What is exported is kept for so long, and kept on as long as the export lasts."""

Format = Annotated[
    str,
    typer.Option(
        metavar="FORMAT",
        help="jsonl, csv or parquet; by default what the file's name says, else jsonl.",
        autocompletion=lambda: ["jsonl", "csv", "parquet"],
    ),
]


def register(app: typer.Typer) -> None:
    app.command("import", rich_help_panel=WRITING)(import_)
    app.command("export", rich_help_panel=READING)(export)


def import_(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="JSON lines, CSV or Parquet; - for standard input.")],
    format: Format = "",
    takeover: Takeover = False,
) -> None:
    """Write the rows of a file.

    The database is created if there is none. Each record has a "key" and a "value", and may have "expire_ts"
    (milliseconds of the unix epoch); a null value deletes the key. The command is the database's writer while it
    runs. Rows are committed in batches of 1,000, in the order of the file, and all of them are durable when the
    command ends. Ctrl-C makes durable what was read by then.

    \b
    Examples:
      slate --store file:///tmp/shop --path orders import orders.jsonl
      zcat orders.csv.gz | slate --store s3://bucket --path orders import --format csv --takeover -
    """
    session: Session = context.obj
    session.run(_import(session, file, format, takeover))


async def _import(session: Session, file: str, format: str, takeover: bool) -> None:
    from slate_engine.cli.records import format_of, read_changes
    from slate_engine.cli.streams import input_file
    from slate_engine.lsm.writer import Writer
    from slate_engine.lsm.writer_options import WriterOptions

    files = session.files()
    await check_may_write(session, files, takeover)
    with input_file(file) as source, progress("importing") as report:
        changes = read_changes(source, format_of(file, format), "standard input" if file == "-" else file)
        # In a thread: a pipe may give nothing for a long time, while the writer has to show that it lives.
        batch = await session.runtime.run(lambda: list(islice(changes, BATCH)))
        writer = await Writer.open(files, WriterOptions())
        rows = 0
        try:
            while batch:
                await writer.write(batch)
                rows += len(batch)
                report(rows, text=plural(rows, "row"))
                batch = await session.runtime.run(lambda: list(islice(changes, BATCH)))
            await writer.close(flush_memtable=True)
        except BaseException:
            # Whatever stopped it: what was committed is made durable, unless that is what failed.
            with suppress(Exception):
                await writer.close(flush_memtable=True)
                session.note(f"slate: {plural(rows, 'row')} are durable; import the rest again with --takeover")
            raise
    session.print(
        {"rows": rows, "manifest_id": writer.state.manifest_id, "epoch": writer.epoch},
        lambda facts: (
            f"{plural(facts['rows'], 'row')} are durable (manifest {facts['manifest_id']}, writer epoch {facts['epoch']})"
        ),
    )


def export(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="Where to; - for standard output.")],
    format: Format = "",
    start: Start = "",
    end: End = "",
    prefix: Prefix = "",
    checkpoint: At = "",
    hold: Annotated[
        bool,
        typer.Option(help="Keep what is read from garbage collection by a checkpoint for as long as the export lasts."),
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists.")] = False,
) -> None:
    """Write rows to a file that `slate import` reads.

    All of them, or a range. It is one state of the database, however long it takes. The file appears when it is
    complete.

    \b
    Examples:
      slate --store s3://bucket --path orders export orders.parquet
      slate --store s3://bucket --path orders export --prefix order: --checkpoint nightly - | gzip > orders.jsonl.gz
    """
    session: Session = context.obj
    session.run(_export(session, file, format, (start, end, prefix), checkpoint, hold, overwrite))


async def _export(
    session: Session,
    file: str,
    format: str,
    keys: tuple[str, str, str],
    checkpoint: str,
    hold: bool,
    overwrite: bool,
) -> None:
    from slate_engine.cli.records import format_of, record_writer
    from slate_engine.cli.streams import output_file
    from slate_engine.lsm.snapshot import LARGE_PARTS

    files = session.files()
    wanted, chosen = key_range(*keys), format_of(file, format)
    rows = 0
    async with _state(files, checkpoint, hold) as snapshot:
        with output_file(file, overwrite=overwrite) as sink, progress("exporting") as report:
            writer = record_writer(sink, chosen)
            async for batch in snapshot.scan(wanted, parts=LARGE_PARTS):
                await session.runtime.run(writer.write, batch)
                rows += len(batch)
                report(rows, text=plural(rows, "row"))
            writer.close()
    if file == "-":
        return
    session.print(
        {"rows": rows, "file": file, "format": chosen}, lambda facts: f"{plural(facts['rows'], 'row')} are in {file}"
    )


@asynccontextmanager
async def _state(files: DatabaseFiles, checkpoint: str, hold: bool) -> AsyncIterator[Snapshot]:
    """The state to export; if ``hold``, under a checkpoint that lives as long as this does."""
    if not hold:
        yield await snapshot_at(files, checkpoint)
        return
    import asyncio

    from slate_engine.admin.checkpoints import (
        CheckpointOptions,
        create_checkpoint,
        delete_checkpoint,
        refresh_checkpoint,
    )

    newest = await files.manifests.read_latest()
    source = find_checkpoint(newest.value, checkpoint).id if checkpoint else None
    options = CheckpointOptions(HOLD_MS, source=source, name="exporting", whole_log=True)
    held = (await create_checkpoint(files, options)).id

    async def hold_on() -> None:
        while True:
            await files.runtime.sleep(HOLD_MS / 3000)
            await refresh_checkpoint(files, held, HOLD_MS)

    holding = asyncio.ensure_future(hold_on())
    try:
        yield await files.checkpoint(held)
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
        await delete_checkpoint(files, held)
