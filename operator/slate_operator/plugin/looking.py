"""``status``, ``why`` and ``cost``: the verbs that only look."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from slate_operator.api.amount import size
from slate_operator.plugin import bill, reasons, tree
from slate_operator.plugin.kubectl import Failed
from slate_operator.plugin.session import Everywhere, Output, session, wants_json
from slate_operator.plugin.view import View, look
from slate_operator.plugin.words import dollars


def status(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="DATABASE", help="The SlateDatabase; all of them if not given.")] = "",
    everywhere: Everywhere = False,
    output: Output = "tree",
) -> None:
    """Show databases with their pods, checkpoints, clones and lineage.

    \b
      kubectl slate status                # all databases of the namespace, clones under their sources
      kubectl slate status orders         # one with everything that belongs to it
      kubectl slate status -A -o json     # everything, for a script
    """
    here = session(context)
    view, now = look(here.kubectl, everywhere=everywhere), here.clock.now()
    chosen = [view.database(name)] if name else view.databases
    if wants_json(output):
        here.json([tree.facts(view, each) for each in chosen])
    elif name:
        here.console.print(tree.whole(view, chosen[0], now))
    elif not chosen:
        here.note("there is no SlateDatabase in this namespace; look into others with -n NAMESPACE or -A")
    else:
        for each in tree.lineage(view, now):
            here.console.print(each)


def why(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="DATABASE|KIND/NAME",
            help="A SlateDatabase, or checkpoint/NAME, clone/NAME, schedule/NAME; all with trouble if not given.",
        ),
    ] = "",
    everywhere: Everywhere = False,
    output: Output = "tree",
) -> None:
    """Say what keeps an object from being ready, or from being deleted.

    Conditions, what blocks a deletion, the state of pods and recent warnings in one place, each with what to do.

    \b
      kubectl slate why orders
      kubectl slate why checkpoint/before-sale
      kubectl slate why -A                # whatever has trouble anywhere
    """
    here = session(context)
    view, now = look(here.kubectl, everywhere=everywhere), here.clock.now()
    if name:
        asked = _named(view, name)
        told = [(asked, reasons.reasons(view, asked, now))]
    else:
        told = reasons.troubled(view, now)
    if wants_json(output):
        here.json(
            [
                {
                    "kind": thing.definition.kind,
                    "namespace": thing.metadata.namespace,
                    "name": thing.metadata.name,
                    "findings": [asdict(each) for each in found],
                }
                for thing, found in told
            ]
        )
        return
    if not any(found for _, found in told):
        here.console.print(f"{name or 'everything'}: nothing is in the way")
    for thing, found in told:
        if found:
            here.console.print(_explained(thing, found))


def cost(
    context: typer.Context,
    everywhere: Everywhere = False,
    price: Annotated[
        float, typer.Option(metavar="DOLLARS", min=0, help="Of a GiB for a month. By default S3 Standard's list price.")
    ] = bill.S3_STANDARD,
    output: Output = "table",
) -> None:
    """Show what the bytes of databases cost in a month, and what they are kept for.

    Storage only: requests and pods are not in it. Bytes that a clone shares are counted at its source alone.

    \b
      kubectl slate cost
      kubectl slate cost -A --price 0.02
    """
    here = session(context)
    lines = bill.lines(look(here.kubectl, everywhere=everywhere), price)
    if wants_json(output):
        here.json([{**asdict(each), "dollars_a_month": each.dollars} for each in lines])
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("Database", "Present", "Only for checkpoints", "Shared with source", "A month"):
        table.add_column(column, justify="left" if column == "Database" else "right", no_wrap=True)
    for each in lines:
        sizes = (each.present_bytes, each.checkpoint_bytes, each.shared_bytes)
        table.add_row(f"{each.namespace}/{each.name}", *(size(n) if n else "–" for n in sizes), dollars(each.dollars))
    table.add_row("total", "", "", "", dollars(sum(each.dollars for each in lines)), style="bold")
    here.console.print(table)
    if unknown := [each.name for each in lines if not each.known]:
        here.note(f"the operator has not seen the size of {', '.join(unknown)} yet")


_WORDS = {
    "databases": ("database", "slatedatabase", "sdb"),
    "checkpoints": ("checkpoint", "scp"),
    "clones": ("clone", "scl"),
    "schedules": ("schedule", "checkpointschedule", "scs"),
    "reads": ("bulkread", "sbr"),
}
"""What each kind may be called, in the singular or the plural."""


def _named(view: View, name: str) -> reasons.Object:
    kind, slash, own = name.rpartition("/")
    if not slash:
        return view.database(name)
    word = kind.lower().partition(".")[0]
    plural = next((each for each, words in _WORDS.items() if word in words or word.removesuffix("s") in words), None)
    if plural is None:
        known = "database/, checkpoint/, clone/, schedule/ or bulkread/"
        raise Failed(f"{kind!r} is no kind of ours; write {known} and a name", 2)
    found: list[reasons.Object] = [each for each in getattr(view, plural) if each.metadata.name == own]
    if not found:
        raise Failed(f"there is no {kind} {own} in this namespace; look into others with -n NAMESPACE", 3)
    return found[0]


def _explained(thing: reasons.Object, found: list[reasons.Finding]) -> object:
    from rich.text import Text
    from rich.tree import Tree

    made = Tree(
        Text(f"{thing.definition.kind} {thing.metadata.namespace}/{thing.metadata.name}", "bold"), guide_style="dim"
    )
    for each in found:
        label = Text.assemble((each.about, "cyan"), "  ", (each.reason, "red" if each.blocks else "yellow"))
        made.add(label.append(f"\n{each.message}", "") if each.message else label)
    return made
