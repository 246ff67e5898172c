"""Verbs that make a database of another one: create-clone, copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from slate_engine.cli.failures import Misused
from slate_engine.cli.help import CLONES
from slate_engine.cli.progress import counting, progress
from slate_engine.cli.ranges import At, End, Prefix, Start, find_checkpoint, key_range
from slate_engine.cli.session import Session
from slate_engine.cli.text import plural, show_size

if TYPE_CHECKING:
    from uuid import UUID

    from slate_engine.admin.clone_request import CloneSource
    from slate_engine.lsm.reading import DatabaseFiles


def register(app: typer.Typer) -> None:
    app.command("create-clone", rich_help_panel=CLONES)(create_clone)
    app.command(rich_help_panel=CLONES)(copy)


def create_clone(
    context: typer.Context,
    source: Annotated[
        list[str],
        typer.Option(
            "--from",
            metavar="PATH[@CHECKPOINT]",
            help="The database to clone, at a checkpoint (id or name) or as it is. Several, if their keys are disjoint.",
        ),
    ],
    start: Start = "",
    end: End = "",
    prefix: Prefix = "",
    id: Annotated[
        str,
        typer.Option(
            "--id",
            metavar="UUID",
            help="An id of the request: the same command with the same id is harmless to repeat.",
        ),
    ] = "",
) -> None:
    """Make --path a clone of another database.

    It is in the same store. A clone shares the SSTs of its parent and copies only its log, so it takes a moment
    however large the parent is. Each goes its own way from then on. The parent keeps what the clone needs by a
    checkpoint, which goes when the clone is destroyed, or when its compactions have rewritten everything. A clone
    that was interrupted is finished by the same command. A path that has a finished clone already is refused, unless
    that clone was made with the same --id, or shows what the named checkpoint keeps.

    \b
    Examples:
      slate --store s3://bucket --path staging create-clone --from orders
      slate --store s3://bucket --path staging create-clone --from orders@before-migration
      slate --store s3://bucket --path customers-a-to-m create-clone --from customers --end n
    """
    session: Session = context.obj
    session.run(_create_clone(session, source, (start, end, prefix), id))


async def _create_clone(session: Session, given: list[str], keys: tuple[str, str, str], id: str) -> None:
    from slate_engine.admin.cloning import create_clone

    files = session.files()
    sources = [await _source(session, files, each) for each in given]
    made = await create_clone(files, sources, key_range(*keys), id=_request_id(id))
    manifest = made.value
    borrowed = sum(len(parent.sst_ids) for parent in manifest.external_dbs)
    facts = {
        "path": files.paths.root,
        "manifest_id": made.id,
        "shared_ssts": borrowed,
        "size_bytes": manifest.estimated_size,
        "parents": [
            {"path": parent.path, "checkpoint_id": str(parent.final_checkpoint_id)} for parent in manifest.external_dbs
        ],
    }
    session.print(
        facts,
        lambda facts: (
            f"{session.name} is a clone of {', '.join(parent['path'] for parent in facts['parents'])}: "
            f"it shares {plural(facts['shared_ssts'], 'SST')}, {show_size(facts['size_bytes'])}"
        ),
    )


def _request_id(text: str) -> UUID | None:
    from uuid import UUID

    try:
        return UUID(text) if text else None
    except ValueError:
        raise Misused(f"--id {text!r} is not a UUID; `uuidgen` makes one") from None


async def _source(session: Session, files: DatabaseFiles, text: str) -> CloneSource:
    from slate_engine.admin.clone_request import CloneSource

    path, at, checkpoint = text.rpartition("@")
    if not at:
        return CloneSource(text)
    if not path:
        raise Misused(f"--from {text!r} names no database; write PATH, or PATH@CHECKPOINT")
    return CloneSource(path, await checkpoint_id(session.files(path, files.store), checkpoint))


async def checkpoint_id(files: DatabaseFiles, wanted: str) -> UUID:
    """The id of the checkpoint that the user named."""
    return find_checkpoint((await files.manifests.read_latest()).value, wanted).id


def copy(
    context: typer.Context,
    to: Annotated[str, typer.Argument(metavar="PATH", help="The path of the new database.")],
    to_store: Annotated[
        str, typer.Option(metavar="URL", help="The store of the new database, unless it is the same.")
    ] = "",
    checkpoint: At = "",
) -> None:
    """Copy a database so that nothing is shared.

    Inside one store the service itself copies; to another one the bytes stream through here. A copy that was
    interrupted is finished by the same command, and is no database before that. Both stores get the same --option
    values; a second set of credentials comes from the environment of the service.

    \b
    Examples:
      slate --store s3://bucket --path orders copy archive/orders-2026
      slate --store s3://bucket --path orders copy orders --to-store file:///backup --checkpoint nightly
    """
    session: Session = context.obj
    session.run(_copy(session, to, to_store, checkpoint))


async def _copy(session: Session, to: str, to_store: str, checkpoint: str) -> None:
    from slate_engine.admin.copying import copy_database

    source = session.files()
    # The very same store object is what lets the service copy by itself.
    same = not to_store or to_store == session.store
    target = session.files(to, source.store if same else session.open(to_store))
    if not same:
        target.wal_store = None  # what a separate store of the log is over there, nobody has said
    id = await checkpoint_id(source, checkpoint) if checkpoint else None
    with progress("copying") as report:
        made = await copy_database(source, target, id, counting(report))
    session.print(
        {
            "path": target.paths.root,
            "store": target.store.url,
            "manifest_id": made.id,
            "ssts": len(made.value.ssts),
            "size_bytes": made.value.estimated_size,
        },
        lambda facts: (
            f"{facts['path']} in {facts['store']} is a copy of {session.name}: {plural(facts['ssts'], 'SST')}, "
            f"{show_size(facts['size_bytes'])}"
        ),
    )
