"""Verbs for the first look: which databases there are, and how one is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from slate_engine.cli.checkpoints import checkpoint_facts
from slate_engine.cli.help import SHAPE
from slate_engine.cli.prices import Prices, price_list
from slate_engine.cli.session import Session
from slate_engine.cli.text import show_bytes, show_instant, show_size

if TYPE_CHECKING:
    from slate_engine.lsm.reading import DatabaseFiles
    from slate_engine.state.manifest import Manifest
    from slate_engine.state.views import Views
    from slate_engine.store.cost import PriceList


def register(app: typer.Typer) -> None:
    app.command("list-databases", rich_help_panel=SHAPE)(list_databases)
    app.command(rich_help_panel=SHAPE)(status)


def list_databases(
    context: typer.Context,
    under: Annotated[str, typer.Argument(help="Only those under this folder of the store.")] = "",
) -> None:
    """List the databases of the store.

    Also those that are destroyed and can still be undeleted.

    \b
    Example:
      slate --store s3://bucket list-databases
    """
    session: Session = context.obj
    session.run(_list_databases(session, under))


async def _list_databases(session: Session, under: str) -> None:
    from slate_engine.cli.tables import table
    from slate_engine.gc.discovery import find_databases
    from slate_engine.state.tombstone import life_of

    store = session.open()
    facts: list[dict[str, Any]] = []
    for path in await find_databases(store, under):
        newest = await session.files(path, store).manifests.latest()
        if newest is not None:
            manifest = newest.value
            facts.append(
                {
                    "path": path,
                    "state": life_of(manifest),
                    "manifest_id": newest.id,
                    "size_bytes": manifest.estimated_size,
                    "checkpoints": len(manifest.checkpoints),
                    "parents": [parent.path for parent in manifest.external_dbs],
                }
            )
    session.print(
        facts,
        lambda _: (
            table(
                ("path", "state", ">manifest", ">size", ">checkpoints", "clone of"),
                [
                    (
                        each["path"] or "(the root)",
                        each["state"],
                        each["manifest_id"],
                        show_size(each["size_bytes"]),
                        each["checkpoints"],
                        ", ".join(each["parents"]),
                    )
                    for each in facts
                ],
                wrap=("path", "clone of"),
            )
            if facts
            else f"no databases under {under!r} in {session.store}"
            if under
            else f"no databases in {session.store}"
        ),
    )


def status(context: typer.Context, prices: Prices = "s3") -> None:
    """Show levels, backlog, checkpoints, clones and cost.

    All of its objects are listed for that (one request for each thousand), none but the newest manifest is read.

    \b
    Examples:
      slate --store s3://bucket --path orders status
      slate --store s3://bucket --path orders --output json status | jq .wal.files
    """
    session: Session = context.obj
    session.run(_status(session, prices))


async def _status(session: Session, prices: str) -> None:
    from slate_engine.cli.picture import picture

    price = price_list(prices)
    files = session.files()
    newest = await files.manifests.read_latest()
    facts = await _facts(files, newest.id, newest.value, price)
    now_s = session.runtime.now_ms() / 1000
    session.print(facts, lambda facts: picture(session.name, facts, newest.value.checkpoints, now_s))


async def _facts(files: DatabaseFiles, manifest_id: int, manifest: Manifest, prices: PriceList) -> dict[str, Any]:
    from slate_engine.cli.facts import named_trees
    from slate_engine.state.tombstone import Tombstone, life_of
    from slate_engine.store.cost import GIB

    stored, log = await _stored(files, manifest)
    tombstone = Tombstone.of(manifest)
    return {
        "path": files.paths.root,
        "store": files.store.url,
        "state": life_of(manifest),
        "destroyed_at": None if tombstone is None else show_instant(tombstone.destroyed_at_s),
        "manifest_id": manifest_id,
        "writer_epoch": manifest.writer_epoch,
        "compactor_epoch": manifest.compactor_epoch,
        "last_l0_seq": manifest.last_l0_seq,
        "segment_extractor": manifest.segment_extractor_name if tombstone is None else tombstone.extractor_name,
        "size_bytes": manifest.estimated_size,
        "trees": [
            {
                "segment": segment,
                "levels": [_level("L0", tree.l0), *(_level(f"run {r.id}", r.views) for r in tree.runs)],
            }
            for segment, tree in named_trees(manifest)
            if not tree.is_empty or not manifest.segments
        ],
        "wal": log,
        "stored": stored,
        "dollars_a_month": stored["size_bytes"] / GIB * prices.storage,
        "prices": prices.name,
        "checkpoints": [checkpoint_facts(each) for each in manifest.checkpoints],
        "clones": [each.clone for each in manifest.checkpoints if each.clone is not None],
        "parents": [
            {
                "path": parent.path,
                "ssts": len(parent.sst_ids),
                "final_checkpoint_id": str(parent.final_checkpoint_id) if parent.final_checkpoint_id else None,
            }
            for parent in manifest.external_dbs
        ],
    }


async def _stored(files: DatabaseFiles, manifest: Manifest) -> tuple[dict[str, int], dict[str, Any]]:
    """All objects of the database, and those of its log that a writer would have to replay."""
    from slate_engine.state.tombstone import life_of

    # By folder: at the root of a store there may be other databases beside this one.
    paths, log_folder = files.paths, files.paths.wal_directory + "/"
    folders = (paths.manifest, paths.compactions, paths.compacted_directory, paths.under("gc"))
    listings = [(files.store, folder + "/") for folder in folders] + [(files.log_store, log_folder)]
    stored = {"objects": 0, "size_bytes": 0}
    log: dict[str, Any] = {
        "replay_after_wal_id": manifest.replay_after_wal_id,
        "files": 0,
        "size_bytes": 0,
        "stored_files": 0,
    }
    missing = set(manifest.needed_wal_ids)
    for store, under in listings:
        async for page in store.list(under):
            for meta in page:
                stored["objects"] += 1
                stored["size_bytes"] += meta.size
                stem = meta.key.removeprefix(log_folder).removesuffix(".sst")
                if not (meta.key.startswith(log_folder) and stem.isdecimal()):
                    continue
                log["stored_files"] += 1
                if int(stem) > manifest.replay_after_wal_id:
                    log["files"] += 1
                    log["size_bytes"] += meta.size
                    missing.discard(int(stem))
    log["trouble"] = await files.log_trouble(manifest) if missing and life_of(manifest) == "alive" else None
    return stored, log


def _level(name: str, views: Views) -> dict[str, Any]:
    bounds = views.alone().bounds() if len(views) else None
    lower = [key for key in bounds.lower if key is not None] if bounds is not None else []
    upper = list(bounds.upper) if bounds is not None else []
    known = [key for key in upper if key is not None]
    return {
        "level": name,
        "ssts": len(views),
        "size_bytes": views.estimated_size,
        "first_key": show_bytes(min(lower)) if lower else None,
        "last_key": show_bytes(max(known)) if known and len(known) == len(upper) else None,
    }
