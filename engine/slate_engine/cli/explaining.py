"""The verb ``explain``: of every object, why it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slate_engine.admin.lifetimes import show_span
from slate_engine.cli.checkpoints import show_age, show_end
from slate_engine.cli.help import SHAPE
from slate_engine.cli.prices import Prices, price_list
from slate_engine.cli.ranges import SHORT_ID
from slate_engine.cli.session import Session
from slate_engine.cli.tables import Limit
from slate_engine.cli.text import plural, show_dollars, show_instant, show_size

if TYPE_CHECKING:
    from slate_engine.gc.explanation import Explanation, Holder
    from slate_engine.store.cost import PriceList

LABEL = 28
LIVE = "live"
"""In JSON, the holder that is not a checkpoint."""


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=SHAPE)(explain)


def explain(
    context: typer.Context,
    objects: Annotated[
        str,
        typer.Argument(metavar="[OBJECT]", help="Only objects whose names begin so, such as wal/ or compacted/01M7."),
    ] = "",
    find_clones: Annotated[
        bool,
        typer.Option("--find-clones", help="Look through the whole store for clones, to name those that SlateDB made."),
    ] = False,
    prices: Prices = "s3",
    limit: Limit = 40,
) -> None:
    """Say of every object why it is there.

    Which state, checkpoint or clone holds it, or that it is garbage. First the holders: what each needs, and what
    would be free without it. Then the objects. An object that nobody holds is too young to be collected, garbage,
    or not of this database.

    \b
    Examples:
      slate --store s3://bucket --path orders explain
      slate --store s3://bucket --path orders explain compacted/ --limit 0
      slate --store s3://bucket --path orders --output json explain | jq '.holders[] | select(.alone_bytes > 1e9)'
    """
    session: Session = context.obj
    session.run(_explain(session, objects, find_clones, prices, limit))


async def _explain(session: Session, objects: str, find: bool, prices: str, limit: int) -> None:
    from slate_engine.gc.discovery import find_clones
    from slate_engine.gc.explain import explain

    files = session.files()
    price = price_list(prices)
    clones = await find_clones(files.store, files.runtime) if find else None
    found = await explain(files, clones=clones)
    facts = _explanation_facts(found, files.paths.under(""), objects, price)
    session.print(facts, lambda facts: _picture(found, facts, limit))


def _explanation_facts(found: Explanation, root: str, wanted: str, prices: PriceList) -> dict[str, Any]:
    return {
        "path": found.path.strip("/"),
        "size_bytes": found.size(),
        "prices": prices.name,
        "kinds": _kind_facts(found),
        "holders": [
            {
                **_holder_facts(holding.holder),
                "objects": holding.objects,
                "size_bytes": holding.size,
                "alone_bytes": holding.alone,
                "alone_dollars_a_month": holding.dollars_a_month(prices),
            }
            for holding in found.holdings
        ],
        "borrowed": [
            {
                "path": each.path,
                "checkpoint_id": None if each.final_checkpoint_id is None else str(each.final_checkpoint_id),
                "ssts": each.ssts,
                "size_bytes": each.size,
            }
            for each in found.borrowed
        ],
        "objects": [
            {
                "name": each.name.removeprefix(root),
                "kind": each.kind,
                "size_bytes": each.size,
                "age_seconds": each.age_s,
                "verdict": each.verdict.value,
                "held_by": [_id(holder) for holder in each.holders],
                "more_holders": each.more_holders,
                "why": each.why,
            }
            for each in found.objects
            if each.name.removeprefix(root).startswith(wanted.removeprefix(root))
        ],
    }


def _kind_facts(found: Explanation) -> list[dict[str, Any]]:
    """How many objects of each kind there are, and what is said of them."""
    kinds: dict[str, dict[str, Any]] = {}
    for each in found.objects:
        facts = kinds.setdefault(each.kind, {"kind": each.kind, "objects": 0, "size_bytes": 0, "garbage_bytes": 0})
        facts["objects"] += 1
        facts["size_bytes"] += each.size
        facts["garbage_bytes"] += each.size if each.verdict.value == "garbage" else 0
    return list(kinds.values())


def _id(holder: Holder) -> str:
    """How an object refers to its holder: by the checkpoint's id."""
    return LIVE if holder.checkpoint is None else str(holder.checkpoint.id)


def _holder_facts(holder: Holder) -> dict[str, Any]:
    checkpoint = holder.checkpoint
    return {
        "id": _id(holder),
        "name": None if checkpoint is None else checkpoint.name,
        "clone": holder.clone,
        "created_at": None if checkpoint is None else show_instant(checkpoint.create_time_s),
        "expires_at": None if checkpoint is None else show_instant(checkpoint.expire_time_s),
        "manifest_missing": holder.missing,
    }


def _picture(found: Explanation, facts: dict[str, Any], limit: int) -> object:
    from rich.console import Group

    from slate_engine.cli.tables import table

    now_s = found.now_ms / 1000
    holders = [
        (
            _label(holding.holder),
            "" if (checkpoint := holding.holder.checkpoint) is None else show_age(checkpoint.create_time_s, now_s),
            "" if checkpoint is None else show_end(checkpoint, now_s),
            holding.objects,
            show_size(holding.size),
            show_size(holding.alone),
            show_dollars(each["alone_dollars_a_month"]),
        )
        for holding, each in zip(found.holdings, facts["holders"], strict=True)
    ]
    columns = ("held by", ">age", "expires", ">objects", ">size", ">alone", ">a month")
    parts: list[Any] = [table(columns, holders, wrap=("held by",)), ""]
    parts += [
        f"shown of {each['path']}, in place: {plural(each['ssts'], 'SST')}, {show_size(each['size_bytes'])}"
        for each in facts["borrowed"]
    ]
    kinds = [
        (each["kind"], each["objects"], show_size(each["size_bytes"]), show_size(each["garbage_bytes"]))
        for each in facts["kinds"]
    ]
    parts += [table(("kind", ">objects", ">size", ">of it garbage"), kinds), ""]
    names = {_id(holding.holder): _label(holding.holder) for holding in found.holdings}
    objects = facts["objects"]
    rows = [
        (
            each["name"],
            each["kind"],
            show_size(each["size_bytes"]),
            show_span(each["age_seconds"]),
            _reason(each, names),
        )
        for each in objects[: limit or None]
    ]
    parts.append(table(("object", "kind", ">size", ">age", "why it is there"), rows, wrap=("why it is there",)))
    if len(objects) > limit > 0:
        parts.append(f"… and {len(objects) - limit:,} more: --limit 0 shows all, a name's beginning only some")
    return Group(*parts)


def _label(holder: Holder) -> str:
    """A holder in a few words."""
    if holder.checkpoint is None:
        return "live state"
    if holder.clone is not None:
        return f"clone {holder.clone}"
    if holder.checkpoint.clone is not None:
        return f"clone {holder.checkpoint.clone}"
    name = holder.checkpoint.name
    if name is None:
        return f"checkpoint {str(holder.checkpoint.id)[:SHORT_ID]}"
    return f"checkpoint {name if len(name) <= LABEL else name[: LABEL - 1] + '…'}"


def _reason(each: dict[str, Any], names: dict[str, str]) -> str:
    if each["held_by"]:
        more = f", and {each['more_holders']} more" if each["more_holders"] else ""
        return ", ".join(names[id] for id in each["held_by"]) + more
    return f"{each['verdict']}: {each['why']}" if each["why"] else str(each["verdict"])
