"""The picture that ``slate status`` draws of a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from slate_engine.cli.checkpoints import show_end
from slate_engine.cli.tables import bar, facts_table, table
from slate_engine.cli.text import plural, show_dollars, show_size
from slate_engine.state.manifest import Checkpoint

MOST_LEVELS, MOST_CHECKPOINTS, KEY_WIDTH = 24, 20, 24
NO_LOG = "no WAL file in this store; if the WAL is in another one, give --wal-store"
_COLOURS = {"alive": "green", "under construction": "yellow", "destroyed": "red", "being deleted": "red"}


def picture(name: str, facts: dict[str, Any], checkpoints: Sequence[Checkpoint], now_s: float) -> Group:
    """``facts`` are those of the verb's JSON."""
    stored = facts["stored"]
    parts: list[RenderableType] = [
        facts_table(
            [
                ("database", name),
                ("state", Text(_life(facts), _COLOURS[facts["state"]])),
                ("manifest", f"{facts['manifest_id']}, up to sequence {facts['last_l0_seq']:,} in SSTs"),
                ("epochs", f"writer {facts['writer_epoch']}, compactor {facts['compactor_epoch']}"),
                *([("segments", f"by {facts['segment_extractor']}")] if facts["segment_extractor"] else []),
                ("log", Text(_backlog(facts["wal"]), "red" if facts["wal"]["trouble"] else "")),
                (
                    "stored",
                    f"{plural(stored['objects'], 'object')}, {show_size(stored['size_bytes'])}: "
                    f"{show_dollars(facts['dollars_a_month'])} a month ({facts['prices']})",
                ),
            ]
        )
    ]
    largest = max((level["size_bytes"] for tree in facts["trees"] for level in tree["levels"]), default=0)
    for tree in facts["trees"]:
        title = "" if tree["segment"] is None else f"\nsegment {tree['segment']}"
        parts += [title, _levels(tree["levels"], largest)]
    if checkpoints:
        parts += ["", _checkpoints(checkpoints, now_s)]
    if len(checkpoints) > MOST_CHECKPOINTS:
        parts.append(f"… and {len(checkpoints) - MOST_CHECKPOINTS:,} more: `slate list-checkpoints`")
    if facts["parents"] or facts["clones"]:
        parts.append("")
    parts += [
        f"clone of {each['path']}: reads {plural(each['ssts'], 'SST')} there in place" for each in facts["parents"]
    ]
    parts += [f"cloned to {path}, which reads SSTs of this database in place" for path in facts["clones"]]
    return Group(*parts)


def _life(facts: dict[str, Any]) -> str:
    match facts["state"]:
        case "destroyed":
            return f"destroyed at {facts['destroyed_at']}; `slate undelete` brings it back until it is collected"
        case "being deleted":
            return "being deleted for good; `slate destroy --hard` finishes it"
        case "under construction":
            return "a clone under construction; repeat `slate create-clone` to finish it, or destroy it"
        case life:
            return str(life)


def _backlog(log: dict[str, Any]) -> str:
    if log["trouble"]:
        return str(log["trouble"])
    if not log["files"]:
        return "nothing to replay" if log["stored_files"] else NO_LOG
    size = show_size(log["size_bytes"])
    return f"{plural(log['files'], 'WAL file')} to replay, {size}, after number {log['replay_after_wal_id']}"


def _levels(levels: Sequence[dict[str, Any]], largest: int) -> RenderableType:
    shown = [level for level in levels if level["ssts"]]
    if not shown:
        return "no SSTs"
    rows = [
        (
            level["level"],
            level["ssts"],
            show_size(level["size_bytes"]),
            Text(bar(level["size_bytes"] / largest if largest else 0.0), "cyan"),
            _keys(level),
        )
        for level in shown[:MOST_LEVELS]
    ]
    drawn = table(("level", ">SSTs", ">size", "", "keys"), rows)
    if len(shown) <= MOST_LEVELS:
        return drawn
    return Group(drawn, f"… and {len(shown) - MOST_LEVELS} older runs: `slate read-manifest`")


def _keys(level: dict[str, Any]) -> str:
    return f"{_short(level['first_key'])} … {_short(level['last_key'])}"


def _short(key: str | None) -> str:
    if key is None:
        return "?"
    return key if len(key) <= KEY_WIDTH else key[: KEY_WIDTH - 1] + "…"


def _checkpoints(checkpoints: Sequence[Checkpoint], now_s: float) -> RenderableType:
    rows = [
        (each.id, each.name or "", each.manifest_id, show_end(each, now_s)) for each in checkpoints[:MOST_CHECKPOINTS]
    ]
    return table(("checkpoint", "name", ">manifest", "expires"), rows, wrap=("name",))
