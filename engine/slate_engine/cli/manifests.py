"""Verbs that show the very state of a database: its manifests, its compactions, its SSTs."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Annotated, Any, TypeVar

import typer

from slate_engine.cli.failures import Absent, Misused
from slate_engine.cli.help import SHAPE
from slate_engine.cli.session import Session
from slate_engine.cli.text import plural, show_instant, show_size, show_time

T = TypeVar("T")

Number = Annotated[
    int | None, typer.Option("--id", "-i", min=1, metavar="N", help="Its number; the newest unless given.")
]


def register(app: typer.Typer) -> None:
    app.command("read-manifest", rich_help_panel=SHAPE)(read_manifest)
    app.command("list-manifests", rich_help_panel=SHAPE)(list_manifests)
    app.command("read-compactions", rich_help_panel=SHAPE)(read_compactions)
    app.command("read-sst", rich_help_panel=SHAPE)(read_sst)


def read_manifest(context: typer.Context, id: Number = None) -> None:
    """Print a manifest: the whole state as of one commit.

    \b
    Examples:
      slate --store s3://bucket --path orders read-manifest
      slate --store s3://bucket --path orders --output json read-manifest --id 42 | jq .checkpoints
    """
    session: Session = context.obj
    session.run(_read_manifest(session, id))


async def _read_manifest(session: Session, id: int | None) -> None:
    from slate_engine.cli.facts import manifest_facts

    manifests = session.files().manifests
    newest = await manifests.read_latest()
    if id is None or id == newest.id:
        facts = manifest_facts(newest.id, newest.value)
    else:
        facts = manifest_facts(id, await _found(manifests.read(id), f"manifest {id}", "list-manifests"))
    session.print(facts, _indented)


async def _found(reading: Awaitable[T], what: str, verb: str) -> T:
    from slate_engine.store.protocol import NotFound

    try:
        return await reading
    except NotFound:
        raise Absent(
            f"there is no {what}: it was collected, or never was; `slate {verb}` shows what there is"
        ) from None


def _indented(facts: Any) -> str:
    return json.dumps(facts, ensure_ascii=False, indent=2)


def list_manifests(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="At most so many, the newest; 0 for all.")] = 0,
) -> None:
    """List manifests, and the checkpoints that keep them.

    \b
    Example:
      slate --store s3://bucket --path orders list-manifests --limit 10
    """
    session: Session = context.obj
    session.run(_list_manifests(session, limit))


async def _list_manifests(session: Session, limit: int) -> None:
    from slate_engine.cli.tables import table

    files = session.files()
    entries = (await files.manifests.objects.list())[-limit:]
    newest = await files.manifests.read_latest()
    facts: list[dict[str, Any]] = [
        {
            "id": entry.id,
            "size_bytes": entry.meta.size,
            "modified_at": show_instant(entry.meta.last_modified_ms / 1000),
            "newest": entry.id == newest.id,
            "checkpoints": [str(each.id) for each in newest.value.checkpoints if each.manifest_id == entry.id],
        }
        for entry in entries
    ]
    names = {str(each.id): each.name or str(each.id) for each in newest.value.checkpoints}

    def keepers(entry: dict[str, Any]) -> str:
        checkpoints = [f"checkpoint {names[id]}" for id in entry["checkpoints"]]
        return ", ".join([*(["the present state"] if entry["newest"] else []), *checkpoints])

    session.print(
        facts,
        lambda _: table(
            (">id", ">size", "modified (UTC)", "needed by"),
            [
                (
                    each["id"],
                    show_size(each["size_bytes"]),
                    show_time(entry.meta.last_modified_ms / 1000),
                    keepers(each),
                )
                for each, entry in zip(facts, entries, strict=True)
            ],
            wrap=("needed by",),
        ),
    )


def read_compactions(context: typer.Context, id: Number = None) -> None:
    """Print the compactor's book.

    Which compactions are asked for, run, or ended last.

    \b
    Example:
      slate --store s3://bucket --path orders read-compactions
    """
    session: Session = context.obj
    session.run(_read_compactions(session, id))


async def _read_compactions(session: Session, id: int | None) -> None:
    from slate_engine.cli.facts import compactions_facts
    from slate_engine.state.stores import CompactionsStore

    files = session.files()
    await files.manifests.read_latest()
    books = CompactionsStore.open(files.store, files.paths.root, files.runtime)
    newest = await books.latest()
    if newest is None:
        raise Absent(f"no compactor has ever run on {session.name}, so there is no book of compactions")
    if id is not None and id != newest.id:
        book = await _found(books.read(id), f"state {id} of the compactor", "explain compactions/")
        facts = compactions_facts(id, book)
    else:
        facts = compactions_facts(newest.id, newest.value)
    session.print(facts, _compactions_table)


def _compactions_table(facts: dict[str, Any]) -> object:
    from rich.console import Group

    from slate_engine.cli.tables import table

    jobs = facts["compactions"]
    title = f"state {facts['id']} of the compactor, epoch {facts['compactor_epoch']}: {plural(len(jobs), 'compaction')}"
    if not jobs:
        return title
    rows = [
        (
            job["id"],
            job["status"],
            " + ".join(
                [*([f"{len(job['l0_views'])} of L0"] if job["l0_views"] else []), *map(_run, job["sorted_runs"])]
            ),
            "nothing" if job["destination"] is None else _run(job["destination"]),
            show_size(job["output_bytes"]),
            job["worker"] or "",
        )
        for job in jobs
    ]
    return Group(title, table(("id", "status", "from", "to", ">written", "worker"), rows, wrap=("from", "worker")))


def _run(id: int) -> str:
    return f"run {id}"


def read_sst(
    context: typer.Context,
    sst: Annotated[
        str,
        typer.Argument(help="The id of an SST, the number of a WAL file, or an object's name as `explain` shows it."),
    ],
    rows: Annotated[int, typer.Option(min=0, metavar="N", help="How many of its rows to show; 0 for all.")] = 10,
) -> None:
    """Decode an SST or a WAL file.

    Its rows, filters and statistics; row versions, not what a reader sees.

    \b
    Examples:
      slate --store s3://bucket --path orders read-sst 01M7GTE6EFG8NTEFMY9ASF8CZ5
      slate --store s3://bucket --path orders read-sst wal/00000000000000000003.sst --rows 0
    """
    session: Session = context.obj
    session.run(_read_sst(session, sst, rows))


async def _read_sst(session: Session, name: str, rows: int) -> None:
    from slate_engine.cli.facts import sst_facts, wal_facts
    from slate_engine.format.ids import Ulid

    files = session.files()
    stem = name.rpartition("/")[2].removesuffix(".sst")
    manifest = (await files.manifests.read_latest()).value
    if stem.isascii() and stem.isdecimal():
        key = files.paths.wal(int(stem))
        found = await _found(files.log_store.get(key), f"object {key}", "explain wal/")
        session.print(wal_facts(found.data, key, rows), _indented)
        return
    try:
        id = Ulid.parse(stem.upper())
    except ValueError:
        raise Misused(
            f"{name!r} names neither an SST nor a WAL file; `slate explain` lists the objects of the database"
        ) from None
    # A clone's SST may lie with its parent.
    owner = next((parent.path for parent in manifest.external_dbs if id in set(parent.sst_ids)), files.path)
    key = session.files(owner, files.store).paths.compacted(id)
    found = await _found(files.store.get(key), f"object {key}", "explain compacted/")
    session.print(sst_facts(found.data, key, rows), _indented)
