"""The life of a database as a list of steps. The author can carry them out, and so can the original."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from slate_engine.format.key_range import KeyRange
from tests.interop import original
from tests.interop.author import Author
from tests.interop.history import Model, Operation
from tests.interop.original import Original
from tests.interop.style import Style


@dataclass(frozen=True)
class Write:
    """One commit."""

    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class FlushWal:
    """What was committed becomes durable, in a WAL file of its own."""


@dataclass(frozen=True)
class Flush:
    """Everything goes to L0. Replay will begin up to ``lag`` WAL files too early."""

    lag: int = 0


@dataclass(frozen=True)
class Compact:
    """See :meth:`tests.interop.author.Author.compact`. The original decides by itself where to cut and what to drop."""

    which: int = 0
    l0: int = 8
    runs: int = 0
    cuts: tuple[float, ...] = ()
    split: bool = False
    drop: bool = False


@dataclass(frozen=True)
class Keep:
    """A checkpoint. The author's have names, each its own."""


@dataclass(frozen=True)
class Hold:
    """Somebody goes on reading the state of now, for as long as this writer lives: its versions must stay."""


@dataclass(frozen=True)
class Reopen:
    """Another writer takes over."""


@dataclass(frozen=True)
class Collect:
    """Manifests that nobody needs are deleted."""


Step: TypeAlias = Write | FlushWal | Flush | Compact | Keep | Hold | Reopen | Collect


@dataclass(frozen=True)
class Plan:
    """A database to make: ``steps``, then a clone of ``part`` of it, and ``further`` steps on the clone."""

    style: Style
    steps: tuple[Step, ...]
    part: KeyRange
    further: tuple[Step, ...]


async def play_ours(author: Author, steps: Iterable[Step]) -> None:
    """Carry the steps out; in the end, all that was committed is durable."""
    for step in steps:
        match step:
            case Write(operations):
                await author.commit(operations)
            case FlushWal():
                await author.flush_wal()
            case Flush(lag):
                await author.flush(lag)
            case Compact():
                await author.compact(step.which, step.l0, step.runs, step.cuts, split=step.split, drop=step.drop)
            case Keep():
                await author.checkpoint(f"kept-{author.manifest_id}")
            case Hold():
                pass  # nothing is dropped by a flush of the author's
            case Reopen():
                await author.reopen()
            case Collect():
                await author.collect()
    await author.flush_wal()


async def play_theirs(them: Original, path: str, steps: Iterable[Step], model: Model, **settings: Any) -> None:
    """Have writers of the original carry the steps out, one after another, and note in ``model`` what they commit."""
    for part in _sessions(steps):
        async with them.writer(path, **settings) as db:
            held = []
            for step in part:
                match step:
                    case Write(operations):
                        model.apply(await original.write(db, operations))
                    case FlushWal() if them.style.wal:
                        await original.flush_wal(db)
                    case Flush():
                        await original.flush(db)
                    case Compact() if settings.get("compactor"):
                        await them.compact(path, step.which, step.l0, step.runs)
                    case Keep():
                        await them.create_checkpoint(path)
                    case Hold():
                        held.append(await db.snapshot())


def _sessions(steps: Iterable[Step]) -> list[list[Step]]:
    """What each writer does: the steps, cut where another one takes over."""
    sessions: list[list[Step]] = [[]]
    for step in steps:
        if isinstance(step, Reopen):
            sessions.append([])
        else:
            sessions[-1].append(step)
    return sessions
