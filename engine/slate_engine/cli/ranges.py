"""The options by which a user names keys: a range, a prefix, a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from slate_engine.cli.failures import Absent, Misused
from slate_engine.cli.text import parse_bytes

if TYPE_CHECKING:
    from uuid import UUID

    from slate_engine.format.key_range import KeyRange
    from slate_engine.state.manifest import Checkpoint, Manifest

Start = Annotated[str, typer.Option(metavar="KEY", help="The first key.")]
End = Annotated[str, typer.Option(metavar="KEY", help="The key to stop before.")]
Prefix = Annotated[str, typer.Option(metavar="KEY", help="Only keys that begin so.")]
At = Annotated[
    str, typer.Option("--checkpoint", "-c", metavar="ID|NAME", help="At this checkpoint instead of the newest state.")
]

SHORT_ID = 8
"""So many digits of an id are shown where there is no room for all, and understood."""


def key_range(start: str, end: str, prefix: str) -> KeyRange:
    """The keys that all three options leave."""
    from slate_engine.format.key_range import ALL, KeyRange

    wanted = KeyRange.half_open(parse_bytes(start) if start else None, parse_bytes(end) if end else None)
    inside = wanted.intersect(KeyRange.of_prefix(parse_bytes(prefix)) if prefix else ALL)
    if inside is None or wanted.is_empty:
        raise Misused("no key lies between that --start, --end and --prefix")
    return inside


def parse_id(text: str) -> UUID:
    """A checkpoint's id."""
    from uuid import UUID

    try:
        return UUID(text)
    except ValueError:
        raise Misused(
            f"{text!r} is not the id of a checkpoint, which looks like 01740ee5-6459-44af-9a45-85deb6e468e3; "
            "`slate list-checkpoints` shows them"
        ) from None


def find_checkpoint(manifest: Manifest, wanted: str) -> Checkpoint:
    """The checkpoint with this id or name; the first eight digits of an id will do."""
    found = [each for each in manifest.checkpoints if wanted in (str(each.id), each.name)]
    if not found and len(wanted) >= SHORT_ID:
        found = [each for each in manifest.checkpoints if str(each.id).startswith(wanted.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        raise Misused(
            f"{len(found)} checkpoints are called {wanted!r}; give one by its id: "
            + ", ".join(str(each.id) for each in found)
        )
    raise Absent(f"there is no checkpoint {wanted!r}; `slate list-checkpoints` shows those that there are")
