"""Progress of long work: on standard error, only at a terminal, and gone when the work is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Report(Protocol):
    """Told how far the work is; ``total`` is None as long as nobody knows."""

    def __call__(self, done: int, total: int | None = None, *, text: str = "") -> None: ...


@contextmanager
def progress(what: str) -> Iterator[Report]:
    """A line that says ``what`` is done and how far it is."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(what, total=None)

        def report(done: int, total: int | None = None, *, text: str = "") -> None:
            shown.update(task, completed=done, total=total, description=f"{what}: {text}" if text else what)

        yield report


def counting(report: Report) -> Callable[[int, int], None]:
    """``report`` for those who know how many objects there are."""
    return lambda done, total: report(done, total, text=f"{done:,} of {total:,} objects")
