"""Commands that look: explain a database, inspect an object, verify everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slate_engine.cli.session import CORRUPT, Session, run
from slate_engine.cli.text import show_size

if TYPE_CHECKING:
    from rich.console import Group


def register(app: typer.Typer) -> None:
    app.command()(explain)
    app.command()(inspect)
    app.command()(verify)


def explain(context: typer.Context) -> None:
    """Show the shape of a database, and what each of its objects is and who needs it.

    An object that nobody needs is old enough to be collected, not yet in use, or the trace of a process that died.
    """
    run(_explain(context.obj))


async def _explain(session: Session) -> None:
    from slate_engine.cli.survey import survey

    files = session.files()
    found = await survey(files)
    session.print(found.facts(), lambda facts: _picture(session, facts))


def _picture(session: Session, facts: dict[str, Any]) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.tree import Tree

    top = Tree(
        f"[bold]{session.path or '/'}[/bold] in {session.store}: {show_size(facts['size_bytes'])}, manifest "
        f"{facts['manifest']}, writer epoch {facts['writer_epoch']}, compactor epoch {facts['compactor_epoch']}, "
        f"sequence {facts['last_l0_seq']} in L0"
    )
    for tree in facts["trees"]:
        branch = top.add(f"segment [bold]{tree['segment']}[/bold]") if "segment" in tree else top
        for sst in tree["l0"]:
            branch.add(f"L0     {_sst(sst)}")
        for level in tree["runs"]:
            count = len(level["ssts"])
            node = branch.add(f"run {level['id']:<3}{count} SST{'s' * (count != 1)}, {show_size(level['size_bytes'])}")
            for sst in level["ssts"][:4]:
                node.add(_sst(sst))
            if count > 4:
                node.add(f"… and {count - 4} more")
    for checkpoint in facts["checkpoints"]:
        expires = f"expires {checkpoint['expires']}" if checkpoint["expires"] else "never expires"
        name = f"{checkpoint['name']} " if checkpoint["name"] else ""
        top.add(f"checkpoint {name}{checkpoint['id']} of manifest {checkpoint['manifest']}, {expires}")
    for parent in facts["parents"]:
        top.add(f"clone: reads {parent['ssts']} SSTs of {parent['path']}")
    objects = Table("object", "kind", "size", "needed by", box=None, pad_edge=False, header_style="bold")
    for each in facts["objects"]:
        objects.add_row(
            each["name"], each["kind"], show_size(each["size"]), ", ".join(each["held_by"]) or "[dim]nobody[/dim]"
        )
    return Group(top, "", objects)


def _sst(sst: dict[str, Any]) -> str:
    part = ", partly visible" if sst["partly_visible"] else ""
    last = sst["last_key"] if sst["last_key"] is not None else "?"
    return f"{sst['sst']}  {show_size(sst['size_bytes'])}  {sst['first_key']} … {last}{part}"


def inspect(
    context: typer.Context,
    object: Annotated[
        str, typer.Argument(help="An object's name as `explain` shows it, such as wal/00000000000000000003.sst")
    ],
    rows: Annotated[int, typer.Option(min=0, help="How many rows of an SST to show.")] = 10,
) -> None:
    """Decode one object: a manifest, a compactions file, an SST, a WAL file or a boundary."""
    run(_inspect(context.obj, object, rows))


async def _inspect(session: Session, name: str, rows: int) -> None:
    from rich.pretty import Pretty

    from slate_engine.cli.decode import decode_object

    files = session.files()
    key = files.paths.under(name)
    found = await files.store.get(key)
    session.print(
        decode_object(name, found.data, key, rows), lambda facts: Pretty(facts, max_length=200, max_string=200)
    )


def verify(context: typer.Context) -> None:
    """Read every object and check it: checksums, order of rows, and that manifests and SSTs agree.

    Exit code 4 if anything is wrong; each finding names the object and the byte.
    """
    run(_verify(context.obj))


async def _verify(session: Session) -> int:
    from rich.progress import Progress

    from slate_engine.cli.verification import verify_objects

    files = session.files()
    with Progress(console=session.progress, transient=True) as progress:
        bar = progress.add_task("verifying", total=None)
        result = await verify_objects(files, lambda done, total: progress.update(bar, completed=done, total=total))
    session.print(result, _findings)
    return CORRUPT if result["findings"] else 0


def _findings(result: dict[str, Any]) -> str:
    checked = f"{result['objects']} objects, {show_size(result['bytes'])}, {result['rows']:,} row versions read"
    if not result["findings"]:
        return f"sound: {checked}"
    return "\n".join(
        [f"{len(result['findings'])} findings in {checked}:", *(f"  {each}" for each in result["findings"])]
    )
