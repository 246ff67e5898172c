"""Verbs on the life of a database: destroy, undelete, restore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from slate_engine.admin.lifetimes import parse_lifetime
from slate_engine.cli.cloning import checkpoint_id
from slate_engine.cli.help import LIFE
from slate_engine.cli.progress import progress
from slate_engine.cli.session import Session
from slate_engine.cli.text import plural, show_instant, show_time

if TYPE_CHECKING:
    from slate_engine.lsm.reading import DatabaseFiles
    from slate_engine.state.manifest import Manifest

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=LIFE)(destroy)
    app.command(rich_help_panel=LIFE)(undelete)
    app.command(rich_help_panel=LIFE)(restore)


def destroy(
    context: typer.Context,
    hard: Annotated[
        bool,
        typer.Option("--hard/--soft", help="Delete it now and for good, or (unless told) so that it can come back."),
    ] = False,
    yes: Yes = False,
) -> None:
    """Destroy a database, softly or for good.

    Softly: whoever uses it is shut out, and everything stays until a garbage collector's grace period (7 days
    unless told otherwise) is over; until then `slate undelete` brings it back. Hard: all of its objects are deleted
    now, which is refused while checkpoints or clones need it. Processes that still use it are named, shut out, and
    given 5 seconds to notice. A deletion that was interrupted is finished by the same command.

    \b
    Examples:
      slate --store s3://bucket --path orders destroy
      slate --store s3://bucket --path orders destroy --hard --yes
    """
    session: Session = context.obj
    session.run(_destroy_hard(session, yes) if hard else _destroy_softly(session, yes))


async def _destroy_softly(session: Session, yes: bool) -> None:
    from slate_engine.admin.destroying import destroy_softly
    from slate_engine.errors import InvalidError
    from slate_engine.state.tombstone import life_of

    files = session.files()
    if life_of((await files.manifests.read_latest()).value) == "under construction":
        raise InvalidError(
            f"{session.name} is a clone under construction, in which there is nothing to bring back; finish it by "
            "`slate create-clone`, or delete it by `slate destroy --hard`"
        )
    session.confirm(
        f"{session.name} will be destroyed: nobody can read or write it any more.\n"
        "`slate undelete` brings it back until a garbage collector deletes it, by default after 7 days.",
        yes=yes,
    )
    destroyed_at = await destroy_softly(files)
    session.print(
        {"path": files.paths.root, "destroyed_at": show_instant(destroyed_at)},
        lambda _: f"{session.name} is destroyed since {show_time(destroyed_at)} UTC; `slate undelete` brings it back",
    )


async def _destroy_hard(session: Session, yes: bool) -> None:
    from slate_engine.admin.destroying import destroy_hard, listed
    from slate_engine.admin.parents import newest_or_none
    from slate_engine.admin.signs import signs_of_life
    from slate_engine.state.tombstone import life_of

    files = session.files()
    newest = await newest_or_none(files.manifests)
    if newest is not None:
        _check_deletable(newest.value, files)
    objects = await listed(files)
    count = len(objects)
    signs = await signs_of_life(files, objects)
    in_use = "".join(f"\n  - {sign}" for sign in signs)
    warnings = in_use and f"\nProcesses seem to use it. They will be shut out, and end:{in_use}"
    seen = newest is not None and newest.value.wal_id_last_seen and life_of(newest.value) in ("alive", "destroyed")
    if seen and not any(meta.key.startswith(files.paths.wal_directory + "/") for meta in objects):
        warnings += (
            "\nNo WAL file is in this store. If the WAL is in another store, give --wal-store: what stays there comes back "
            "in the next database at this path."
        )
    if yes and warnings:
        typer.echo(f"{session.name} will be deleted for good.{warnings}", err=True)
    session.confirm(
        f"{session.name} will be deleted for good: {plural(count, 'object')}. There is no way back.{warnings}",
        yes=yes,
        type_this=files.paths.root or "the root",
    )
    done = 0
    with progress("deleting") as report:

        def deleted(keys: Sequence[str]) -> None:
            nonlocal done
            done += len(keys)
            report(done, max(count, done), text=f"{done:,} of {max(count, done):,} objects")

        gone = await destroy_hard(files, deleted)
    session.print(
        {"path": files.paths.root, "deleted_objects": len(gone)},
        lambda facts: f"{session.name} is deleted: {plural(facts['deleted_objects'], 'object')}",
    )


def _check_deletable(newest: Manifest, files: DatabaseFiles) -> None:
    """Before the user is asked: the deletion itself decides again."""
    from slate_engine.state.destroy import InvalidDeletion, active_checkpoints

    active = active_checkpoints(newest, now_ms=files.runtime.now_ms())
    if active:
        raise InvalidDeletion(active)


def undelete(context: typer.Context) -> None:
    """Bring a softly destroyed database back, as it was.

    Writers that were shut out by the destruction stay so; start them anew.

    \b
    Example:
      slate --store s3://bucket --path orders undelete
    """
    session: Session = context.obj
    session.run(_undelete(session))


async def _undelete(session: Session) -> None:
    from slate_engine.admin.destroying import undelete
    from slate_engine.state.tombstone import Tombstone

    files = session.files()
    was_destroyed = Tombstone.of((await files.manifests.read_latest()).value) is not None
    await undelete(files)
    said = "is back" if was_destroyed else "is not destroyed; nothing had to be done"
    session.print({"path": files.paths.root, "undeleted": was_destroyed}, lambda _: f"{session.name} {said}")


def restore(
    context: typer.Context,
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="The id or the name of the checkpoint.")],
    keep: Annotated[
        str, typer.Option(metavar="SPAN", help='For how long to keep the state before, such as "7days"; else for ever.')
    ] = "",
    yes: Yes = False,
) -> None:
    """Go back to a checkpoint in place.

    The database is again what it was then. What it is now is kept by a new checkpoint, so this can be taken back by
    restoring that one. Whoever writes the database is shut out and has to open it anew.

    \b
    Example:
      slate --store s3://bucket --path orders restore before-migration --keep "7days"
    """
    session: Session = context.obj
    session.run(_restore(session, checkpoint, keep, yes))


async def _restore(session: Session, checkpoint: str, keep: str, yes: bool) -> None:
    from slate_engine.admin.restoring import RestoreOptions, restore

    files = session.files()
    lifetime_ms = parse_lifetime(keep) if keep else None
    id = await checkpoint_id(files, checkpoint)
    session.confirm(
        f"{session.name} will go back to checkpoint {checkpoint}: its writer is shut out, and what was written since is "
        "to be found in a new checkpoint only.",
        yes=yes,
    )
    done = await restore(files, id, RestoreOptions(lifetime_ms=lifetime_ms))
    session.print(
        {"path": files.paths.root, "manifest_id": done.manifest_id, "restored": str(id), "kept": str(done.kept)},
        lambda facts: (
            f"{session.name} is again what checkpoint {checkpoint} keeps (manifest {facts['manifest_id']}); what it was "
            f"before is checkpoint {facts['kept']}"
        ),
    )
