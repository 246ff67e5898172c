"""The mark of a destroyed database, in the one place of the manifest that keeps everybody out.

SlateDB has no field for it, and drops fields that it does not know whenever it rewrites a manifest. What it keeps, and
checks before it opens a database for reading or writing, is the name of the segment extractor; so the mark stands there,
with the real name behind it. ``initialized`` is false besides, for which SlateDB refuses checkpoints and clones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from slate_engine.errors import DatabaseDeleted, InvalidError
from slate_engine.state.manifest import Manifest

_TEXT = re.compile(r"destroyed_at_s=([0-9]{1,19})(?:;returning_s=([0-9]{1,19}))?(;deleting)?(?:;was=(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """When the database was destroyed, and what its extractor's name was. From ``deleting`` on there is no way back.
    ``returning_s`` is when somebody began to bring it back."""

    destroyed_at_s: int
    extractor_name: str | None = None
    deleting: bool = False
    returning_s: int | None = None

    @property
    def text(self) -> str:
        returning = "" if self.returning_s is None else f";returning_s={self.returning_s}"
        deleting = ";deleting" if self.deleting else ""
        was = "" if self.extractor_name is None else f";was={self.extractor_name}"
        return f"destroyed_at_s={self.destroyed_at_s}{returning}{deleting}{was}"

    @staticmethod
    def of(manifest: Manifest) -> Tombstone | None:
        """The mark that this manifest bears, if any."""
        if manifest.initialized or manifest.segment_extractor_name is None:
            return None
        found = _TEXT.fullmatch(manifest.segment_extractor_name)
        if found is None:
            return None
        returning_s = None if found[2] is None else int(found[2])
        return Tombstone(int(found[1]), found[4], found[3] is not None, returning_s)


class Destroyed(InvalidError):
    """The database was destroyed. Until it is deleted for good, it can be brought back."""

    def __init__(self, tombstone: Tombstone, path: str | None = None) -> None:
        which = "the database" if path is None else f"database {path!r}"
        what = "is being deleted for good" if tombstone.deleting else "can be undeleted until it is collected"
        super().__init__(f"{which} was destroyed at {show_second(tombstone.destroyed_at_s)}, and {what}")
        self.destroyed_at_s = tombstone.destroyed_at_s


def check_alive(manifest: Manifest, path: str | None = None) -> None:
    """Raise :class:`Destroyed` if the database is: nobody reads it, writes it, or makes anything of it. ``path`` is for
    those who work on several."""
    tombstone = Tombstone.of(manifest)
    if tombstone is not None:
        raise Destroyed(tombstone, path)


def check_not_deleted(manifest: Manifest, path: str) -> None:
    """Raise ``DatabaseDeleted`` if the database is going for good: every process that uses it ends."""
    tombstone = Tombstone.of(manifest)
    if tombstone is not None and tombstone.deleting:
        raise DatabaseDeleted(path)


def life_of(manifest: Manifest) -> str:
    """``alive``, ``under construction`` (a clone), ``destroyed`` (and may be undeleted) or ``being deleted``."""
    tombstone = Tombstone.of(manifest)
    if tombstone is not None:
        return "being deleted" if tombstone.deleting else "destroyed"
    return "alive" if manifest.initialized else "under construction"


def show_second(unix_s: int) -> str:
    try:
        return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError):
        return f"second {unix_s}"
