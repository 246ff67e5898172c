"""Verbs on checkpoints, as RFC-0004 prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from slate_engine.admin.lifetimes import parse_lifetime, show_span
from slate_engine.cli.help import CHECKPOINTS
from slate_engine.cli.ranges import find_checkpoint, parse_id
from slate_engine.cli.session import Session
from slate_engine.cli.text import show_instant, show_time

if TYPE_CHECKING:
    from slate_engine.lsm.reading import DatabaseFiles
    from slate_engine.state.manifest import Checkpoint

Id = Annotated[
    str,
    typer.Option(
        "--id", "-i", metavar="ID", help="The UUID of the checkpoint (e.g. 01740ee5-6459-44af-9a45-85deb6e468e3)"
    ),
]

Force = Annotated[bool, typer.Option("--force", help="Even if a clone lives by it, which breaks the clone.")]


def register(app: typer.Typer) -> None:
    app.command("create-checkpoint", rich_help_panel=CHECKPOINTS)(create_checkpoint)
    app.command("refresh-checkpoint", rich_help_panel=CHECKPOINTS)(refresh_checkpoint)
    app.command("delete-checkpoint", rich_help_panel=CHECKPOINTS)(delete_checkpoint)
    app.command("list-checkpoints", rich_help_panel=CHECKPOINTS)(list_checkpoints)


def create_checkpoint(
    context: typer.Context,
    lifetime: Annotated[
        str,
        typer.Option(
            "--lifetime",
            "-l",
            metavar="LIFETIME",
            help="Optionally specify a lifetime for the created checkpoint. You can specify the lifetime in a "
            'human-friendly format that uses years/days/min/s, e.g. "7days 30min 10s". The checkpoint\'s expiry time '
            "will be set to the current wallclock time plus the specified lifetime. If the lifetime is not specified, "
            "then the checkpoint is set with no expiry and must be explicitly removed",
        ),
    ] = "",
    source: Annotated[
        str,
        typer.Option(
            "--source",
            "-s",
            metavar="UUID",
            help="Optionally specify an existing checkpoint to use as the base for the newly created checkpoint. If not "
            "provided then the checkpoint will be taken against the latest manifest.",
        ),
    ] = "",
    name: Annotated[
        str, typer.Option("--name", "-n", metavar="NAME", help="A name by which other verbs find it, too.")
    ] = "",
    id: Annotated[
        str, typer.Option(metavar="UUID", help="Its id; repeating the command with the same id is harmless.")
    ] = "",
    with_log: Annotated[
        bool,
        typer.Option(
            "--with-log",
            help="Keep every row that is durable now. Without it the checkpoint ends where the latest manifest ends, as "
            "with SlateDB: it misses what a writer that runs, or was killed, has put into the WAL since its last flush.",
        ),
    ] = False,
) -> None:
    """Create a new checkpoint pointing to the database's current state

    \b
    Examples:
      slate --store file:///tmp/shop --path orders create-checkpoint --lifetime "7days 30min 10s"
      slate --store file:///tmp/shop --path orders create-checkpoint --name before-migration --with-log
    """
    session: Session = context.obj
    session.run(_create(session, lifetime, source, name, id, with_log))


async def _create(session: Session, lifetime: str, source: str, name: str, id: str, with_log: bool) -> None:
    from slate_engine.admin import checkpoints as admin

    files = session.files()
    options = admin.CheckpointOptions(
        lifetime_ms=parse_lifetime(lifetime) if lifetime else None,
        source=parse_id(source) if source else None,
        name=name or None,
        id=parse_id(id) if id else None,
        whole_log=with_log,
    )
    made = await admin.create_checkpoint(files, options)
    await _show(session, files, made.id)


def refresh_checkpoint(
    context: typer.Context,
    id: Id,
    lifetime: Annotated[
        str,
        typer.Option(
            "--lifetime",
            "-l",
            metavar="LIFETIME",
            help="Optionally specify a new lifetime for the checkpoint. You can specify the lifetime in a human-friendly "
            'format that uses years/days/min/s, e.g. "7days 30min 10s". The checkpoint\'s expiry time will be set to the '
            "current wallclock time plus the specified lifetime. If the lifetime is not specified, then the checkpoint is "
            "updated with no expiry and must be explicitly removed",
        ),
    ] = "",
    force: Force = False,
) -> None:
    """Refresh an existing checkpoint's expiry time.

    This command will look for an existing checkpoint and update its expiry time using the specified lifetime

    \b
    Example:
      slate --store s3://bucket --path orders refresh-checkpoint --id 01740ee5-6459-44af-9a45-85deb6e468e3 -l 1day
    """
    session: Session = context.obj
    session.run(_refresh(session, id, lifetime, force))


async def _refresh(session: Session, id: str, lifetime: str, force: bool) -> None:
    from slate_engine.admin import checkpoints as admin

    files = session.files()
    wanted = await _id(files, id)
    await admin.refresh_checkpoint(files, wanted, parse_lifetime(lifetime) if lifetime else None, force=force)
    await _show(session, files, wanted)


async def _show(session: Session, files: DatabaseFiles, id: UUID) -> None:
    from slate_engine.cli.tables import facts_table

    newest = await files.manifests.read_latest()
    found = newest.value.checkpoint(id)
    if found is None:
        session.note("slate: it was made, and somebody deleted it at once")
        return
    now_s = session.runtime.now_ms() / 1000
    session.print(
        checkpoint_facts(found),
        lambda facts: facts_table(
            [
                ("id", facts["id"]),
                *([("name", facts["name"])] if facts["name"] else []),
                ("manifest", facts["manifest_id"]),
                ("expires", _expiry(found, now_s)),
            ]
        ),
    )


async def _id(files: DatabaseFiles, text: str) -> UUID:
    """An id as it is, whether or not there is such a checkpoint; a name, if there is one of that name."""
    try:
        return UUID(text)
    except ValueError:
        return find_checkpoint((await files.manifests.read_latest()).value, text).id


def delete_checkpoint(context: typer.Context, id: Id, force: Force = False) -> None:
    """Delete an existing checkpoint

    What only this checkpoint kept is deleted by the next garbage collection. One by which a clone lives is not deleted:
    it goes with the clone.

    \b
    Example:
      slate --store s3://bucket --path orders delete-checkpoint --id 01740ee5-6459-44af-9a45-85deb6e468e3
    """
    session: Session = context.obj
    session.run(_delete(session, id, force))


async def _delete(session: Session, id: str, force: bool) -> None:
    from slate_engine.admin import checkpoints as admin

    files = session.files()
    wanted = await _id(files, id)
    there = (await files.manifests.read_latest()).value.checkpoint(wanted) is not None
    await admin.delete_checkpoint(files, wanted, force=force)
    said = f"checkpoint {wanted} is deleted" if there else f"there was no checkpoint {wanted}; nothing had to be done"
    session.print({"id": str(wanted), "deleted": there}, lambda _: said)


def list_checkpoints(
    context: typer.Context,
    name: Annotated[str, typer.Option("--name", "-n", metavar="NAME", help="Only those of this name.")] = "",
) -> None:
    """List the current checkpoints of the db.

    Also those that have expired, until a garbage collection removes them.

    \b
    Examples:
      slate --store s3://bucket --path orders list-checkpoints
      slate --store s3://bucket --path orders --output json list-checkpoints | jq -r .[0].id
    """
    session: Session = context.obj
    session.run(_list(session, name))


async def _list(session: Session, name: str) -> None:
    from slate_engine.admin import checkpoints as admin

    found = await admin.list_checkpoints(session.files(), name or None)
    now_s = session.runtime.now_ms() / 1000

    def human(_: Any) -> object:
        from slate_engine.cli.tables import table

        if not found:
            return "no checkpoints"
        return table(
            ("id", "name", ">manifest", ">age", "expires"),
            [
                (each.id, each.name or "", each.manifest_id, show_age(each.create_time_s, now_s), show_end(each, now_s))
                for each in found
            ],
            wrap=("name",),
        )

    session.print([checkpoint_facts(each) for each in found], human)


def checkpoint_facts(checkpoint: Checkpoint) -> dict[str, Any]:
    """A checkpoint as ``--output json`` gives it."""
    return {
        "id": str(checkpoint.id),
        "name": checkpoint.name,
        "manifest_id": checkpoint.manifest_id,
        "created_at": show_instant(checkpoint.create_time_s),
        "expires_at": show_instant(checkpoint.expire_time_s),
    }


def _expiry(checkpoint: Checkpoint, now_s: float) -> str:
    end = show_end(checkpoint, now_s)
    return end if checkpoint.expire_time_s is None else f"{end}, at {show_time(checkpoint.expire_time_s)} UTC"


def show_end(checkpoint: Checkpoint, now_s: float) -> str:
    """For how long it holds on."""
    expires = checkpoint.expire_time_s
    if expires is None:
        return "never"
    return f"in {show_span(expires - now_s)}" if expires > now_s else "has expired"


def show_age(since_s: float, now_s: float) -> str:
    """How old something is; a clock that is ahead of ours makes it new."""
    return show_span(max(0.0, now_s - since_s))
